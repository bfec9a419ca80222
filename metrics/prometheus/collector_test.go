package prometheus_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/metrics/prometheus"
	"github.com/mpi4go/mpi4go/transport"
	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { mpitest.Main(m, mpitest.Ranks(2)) }

// TestCollector looks at the metrics while a connection is open, and after it.
func TestCollector(t *testing.T) {
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	collector := prometheus.NewCollector()
	var conn *transport.Conn
	if c.Rank() == 0 {
		l, err := transport.Listen(ctx, "mpi://*/metrics", transport.Config{})
		require.NoError(t, err)
		conn, err = l.Accept(ctx)
		require.NoError(t, err)
		require.NoError(t, l.Close())
		for range 2 {
			_, err = conn.RecvMessage(ctx)
			require.NoError(t, err)
		}
		expect(t, collector, "connections_total", `{by="accept"} 1`, `{by="dial"} 0`)
		expect(t, collector, "messages_total", `{direction="received"} 2`, `{direction="sent"} 0`)
		expect(t, collector, "bytes_total", `{direction="received"} 22`, `{direction="sent"} 0`)
	} else {
		var err error
		conn, err = transport.Dial(ctx, "mpi://0/metrics", transport.Config{})
		require.NoError(t, err)
		for range 2 {
			require.NoError(t, conn.SendMessage(ctx, []mem.Buffer{mem.Of([]byte("first")), mem.Of([]byte("second"))}))
		}
		expect(t, collector, "connections_total", `{by="accept"} 0`, `{by="dial"} 1`)
		expect(t, collector, "messages_total", `{direction="received"} 0`, `{direction="sent"} 2`)
		expect(t, collector, "sent_frames_total", `{plan="chunks"} 0`, `{plan="datatype"} 0`, `{plan="inline"} 4`, `{plan="request"} 0`)
	}
	expect(t, collector, "open_connections", " 1")
	expect(t, collector, "listeners", " 0")
	mpitest.Sync(t)
	require.NoError(t, conn.Close())
	mpitest.Sync(t)
	if c.Rank() == 0 {
		expect(t, collector, "messages_total", `{direction="received"} 2`, `{direction="sent"} 0`)
	}
	expect(t, collector, "device_operations_total", " 0")
}

// expect compares the lines of one metric, without its name.
func expect(t *testing.T, c client.Collector, name string, lines ...string) {
	t.Helper()
	name = "mpi4go_" + name
	registry := client.NewRegistry()
	require.NoError(t, registry.Register(c))
	families, err := registry.Gather()
	require.NoError(t, err)
	text := ""
	for _, f := range families {
		if f.GetName() == name {
			text = "# HELP " + name + " " + f.GetHelp() + "\n# TYPE " + name + " " + strings.ToLower(f.GetType().String()) + "\n"
		}
	}
	for _, line := range lines {
		text += name + line + "\n"
	}
	require.NoError(t, testutil.CollectAndCompare(c, strings.NewReader(text), name))
}

// TestNames has the client library check the names and texts, and looks for the names
// in the page that lists them.
func TestNames(t *testing.T) {
	mpitest.Alone(t)
	problems, err := testutil.CollectAndLint(prometheus.NewCollector())
	require.NoError(t, err)
	require.Empty(t, problems)
	page, err := os.ReadFile(filepath.FromSlash("../../docs/transport.md"))
	require.NoError(t, err)
	registry := client.NewPedanticRegistry()
	require.NoError(t, registry.Register(prometheus.NewCollector()))
	families, err := registry.Gather()
	require.NoError(t, err)
	require.NotEmpty(t, families)
	for _, f := range families {
		require.Contains(t, string(page), "`"+f.GetName()+"`")
	}
}
