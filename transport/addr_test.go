package transport_test

import (
	"os"
	"strings"
	"testing"

	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/mpi4go/mpi4go/transport"
	"github.com/stretchr/testify/require"
)

func TestParseAddr(t *testing.T) {
	for text, want := range map[string]transport.Addr{
		"mpi://0":                  {},
		"mpi://3/store":            {Rank: 3, Service: "store"},
		"mpi://2147483647":         {Rank: 1<<31 - 1},
		"mpi://*":                  {Rank: transport.ThisRank},
		"mpi://*/a.b-c_d~1":        {Rank: transport.ThisRank, Service: "a.b-c_d~1"},
		"mpi://node7":              {Host: "node7"},
		"mpi://node7/x":            {Host: "node7", Service: "x"},
		"mpi://n-7.example_a:12/x": {Host: "n-7.example_a", Rank: 12, Service: "x"},
		"mpi://7n":                 {Host: "7n"},
	} {
		got, err := transport.ParseAddr(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
		require.Equal(t, text, got.String())
		require.Equal(t, "mpi", got.Network())
	}
	for text, complaint := range map[string]string{
		"":                                    "does not begin with mpi://",
		"3/store":                             "does not begin with mpi://",
		"MPI://3":                             "does not begin with mpi://",
		"tcp://3":                             "does not begin with mpi://",
		"mpi:///store":                        "no rank",
		"mpi://":                              "no rank",
		"mpi://3/":                            "no service after the slash",
		"mpi://3/a/b":                         `the service has "/" in it`,
		"mpi://3/a b":                         `the service has " " in it`,
		"mpi://3/é":                           "the service has",
		"mpi://3/" + strings.Repeat("a", 129): "a service of 129 bytes, of at most 128",
		"mpi://03":                            `"03" is no rank`,
		"mpi://2147483648":                    `"2147483648" is no rank`,
		"mpi://-1":                            `a host that begins with "-"`,
		"mpi://+1":                            `a host that begins with "+"`,
		"mpi://3:1":                           `"3" is a rank, not a host`,
		"mpi://node7:":                        `"" is no number`,
		"mpi://node7:0":                       `"0" is no number`,
		"mpi://node7:01":                      `"01" is no number`,
		"mpi://:1":                            "a host of 0 bytes",
		"mpi://a*":                            `the host has "*" in it`,
		"mpi://" + strings.Repeat("h", 65):    "a host of 65 bytes",
	} {
		_, err := transport.ParseAddr(text)
		require.ErrorContains(t, err, complaint, text)
		require.ErrorContains(t, err, "want mpi://<rank>/<service>", text)
	}
}

// FuzzParseAddr: what is accepted has one form.
func FuzzParseAddr(f *testing.F) {
	for _, text := range []string{"mpi://3/store", "mpi://*", "mpi://node7:2/x", "mpi://", "mpi://3/", "mpi://a:b:c/d"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := transport.ParseAddr(text)
		if err == nil {
			require.Equal(t, text, a.String())
		}
	})
}

func TestResolve(t *testing.T) {
	c := mpitest.Comm(t)
	resolve := func(text string) (transport.Addr, error) {
		a, err := transport.ParseAddr(text)
		require.NoError(t, err)
		return transport.Resolve(a)
	}
	a, err := resolve("mpi://*/x")
	require.NoError(t, err)
	require.Equal(t, transport.Addr{Rank: mpicomm.World().Rank(), Service: "x"}, a)
	host, err := os.Hostname()
	require.NoError(t, err)
	ranks, err := transport.Ranks(host)
	require.NoError(t, err)
	require.Contains(t, ranks, c.Rank())
	for i, rank := range ranks {
		a, err := transport.Resolve(transport.Addr{Host: host, Rank: i, Service: "y"})
		require.NoError(t, err)
		require.Equal(t, transport.Addr{Rank: rank, Service: "y"}, a)
	}
	_, err = transport.Resolve(transport.Addr{Host: host, Rank: len(ranks)})
	require.ErrorContains(t, err, "ranks of the job run on that host")
	_, err = resolve("mpi://no-such-host")
	require.ErrorContains(t, err, "no rank of the job runs on a host of that name; rank 0 runs on")
	_, err = resolve("mpi://2147483647")
	require.ErrorContains(t, err, "the job has the ranks 0 to")
	none, err := transport.Ranks("no-such-host")
	require.NoError(t, err)
	require.Empty(t, none)
}
