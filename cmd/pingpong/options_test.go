package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mpi4go/mpi4go/mem"
	"github.com/stretchr/testify/require"
)

func parse(t *testing.T, args ...string) (*options, mode, error) {
	t.Helper()
	var o options
	parser, err := newParser(&o)
	require.NoError(t, err)
	parsed, err := parser.Parse(args)
	if err != nil {
		return nil, nil, err
	}
	return &o, parsed.Selected().Target.Addr().Interface().(mode), nil
}

func TestDefaults(t *testing.T) {
	o, m, err := parse(t)
	require.NoError(t, err)
	latency := m.(*latencyCmd)
	require.True(t, latency.Ctx)
	require.Equal(t, positive(5), latency.Rounds)
	require.Equal(t, rankPair{0, 1}, latency.Ranks)
	require.Equal(t, 0, latency.Sizes[0])
	require.Equal(t, 4<<20, latency.Sizes.max())
	require.Equal(t, positive(2), o.N)
	require.Equal(t, "text", o.Format)

	_, m, err = parse(t, "rate")
	require.NoError(t, err)
	require.Equal(t, 64<<10, m.(*rateCmd).Sizes.max(), "each mode has sizes of its own")
	require.Equal(t, positive(64), m.(*rateCmd).Window)
	require.Equal(t, "set", m.(*rateCmd).Post)

	_, m, err = parse(t, "waiters")
	require.NoError(t, err)
	require.Equal(t, positive(20000), m.(*waitersCmd).Goroutines)
}

func TestOptions(t *testing.T) {
	o, m, err := parse(t, "bandwidth", "--sizes", "8,1K", "--no-ctx", "--no-c", "--ranks=3,1", "--post", "single",
		"--window", "4", "--warmup", "0", "--iters", "7", "--format", "json", "--launcher-args", "--bind-to core", "-n", "4")
	require.NoError(t, err)
	c := m.(*bandwidthCmd)
	require.Equal(t, sizes{8, 1024}, c.Sizes)
	require.False(t, c.Ctx)
	require.True(t, c.NoC)
	require.Equal(t, 4, c.ranksNeeded())
	require.Equal(t, "--bind-to core", o.LauncherArgs)
	timed, warmup := c.iterations(100)
	require.Equal(t, [2]int{7, 0}, [2]int{timed, warmup})

	encoded, err := json.Marshal(m)
	require.NoError(t, err)
	require.JSONEq(t, `{"ctx":false,"ranks":[3,1],"rounds":5,"iterations":7,"warmup":0,"sizes":[8,1024],
		"validate":false,"no_c":true,"buffers":"host,host","window":4,"post":"single"}`, string(encoded))
}

func TestMemory(t *testing.T) {
	for text, want := range map[string]string{
		"": "host,host", "-ddevice": "device,device", "-dD,H": "device,host", "-dH D": "host,device", "--buffers=p,Managed": "pinned,managed",
	} {
		var args []string
		if text != "" {
			args = []string{"rate", text}
		}
		_, m, err := parse(t, args...)
		require.NoError(t, err, text)
		flags := m.(interface{ memory() memoryFlags }).memory()
		require.Equal(t, want, flags.Buffers.String())
		require.Equal(t, want == "host,host", flags.Buffers.host())
		require.Equal(t, strings.Contains(want, "device"), flags.Buffers.has(mem.Device))
	}
	_, m, err := parse(t, "multi", "-d", "D+H,pinned", "--stream")
	require.NoError(t, err)
	require.Equal(t, "device+host,pinned", m.(*multiCmd).memory().Buffers.String())
	require.True(t, m.(*multiCmd).memory().OnStream)
	encoded, err := json.Marshal(m)
	require.NoError(t, err)
	require.Contains(t, string(encoded), `"buffers":"device+host,pinned","stream":true`)
}

func TestWrongOptions(t *testing.T) {
	for _, args := range [][]string{
		{"--bogus"},
		{"nonsense"},
		{"--sizes", "big"},
		{"--ranks", "1"},
		{"--ranks", "1,1"},
		{"--ranks", "-1,0"},
		{"--rounds", "0"},
		{"--iters", "-3"},
		{"-n", "0"},
		{"--plot", "x.pdf"},
		{"--format", "xml"},
		{"--mpi", "lam"},
		{"bandwidth", "--window", "0"},
		{"rate", "--rounds", "0"},
		{"rate", "--post", "none"},
		{"idle", "--window", "3"}, // belongs to another mode
		{"idle", "--samples", "0"},
		{"waiters", "-g", "0"},
		{"coroutines", "-g", "0"},
		{"-d", "gpu"},
		{"-d", "D,H,H"},
		{"-d", "D+H"}, // only frames can differ
		{"multi", "-d", "D+,H"},
		{"--stream"},
		{"coroutines", "--stream"},
		{"bandwidth", "--stream"},
		{"multi", "--stream"},
		{"idle", "-d", "D"},
		{"collective", "allreduce", "-d", "D"},
		{"latency", "-d", "D", "--transport", "conn"},
		{"tune", "--rounds", "4"},
		{"tune", "--sizes", "x"},
		{"tune", "--no-c"},
		{"multi", "--largest", "much"},
	} {
		_, _, err := parse(t, args...)
		require.Error(t, err, args)
	}
}
