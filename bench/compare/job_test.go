package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseLines(t *testing.T) {
	lines, err := parseLines([]byte(`a launcher's warning
{"kind":"environment","environment":{"mpi":"Open MPI"}}
{"kind":"latency","size":8,"frames":1,"n":1,"us":0.5,"p99_us":2}
`))
	require.NoError(t, err)
	require.Len(t, lines, 2)
	require.Equal(t, "Open MPI", lines[0].Environment["mpi"])
	require.Equal(t, Item{"latency", 8, 1, 1}, lines[1].Item)
	require.Equal(t, 2.0, lines[1].P99)
	lines, err = parseLines([]byte("{\"kind\":\"latency\"}\n{\"kind\":\"lat"))
	require.ErrorContains(t, err, "lat", "a peer that was killed while it wrote")
	require.Len(t, lines, 1)
}

func TestLastLines(t *testing.T) {
	out := "  error: the cause\n"
	for range 30 {
		out += "and so on\n\n"
	}
	text := lastLines([]byte(out), os.ErrPermission)
	require.Contains(t, text, "error: the cause")
	require.Contains(t, text, "permission denied")
	require.Less(t, len(text), 200)
}

// buildPeer builds the peer in Go.
func buildPeer(t *testing.T) string {
	program := filepath.Join(t.TempDir(), "gopeer")
	out, err := exec.Command(goTool(), "build", "-o", program, "./peers/gopeer").CombinedOutput()
	require.NoError(t, err, string(out))
	return program
}

// TestJob runs every measurement over both kinds of sockets.
func TestJob(t *testing.T) {
	program := buildPeer(t)
	items, err := wantedItems(nil, true)
	require.NoError(t, err)
	items = append(items, Item{"rate", 1, 1, 100})
	for _, way := range []string{"tcp", "unix"} {
		j := job{peer: direct(way, way, "", program, way), items: items, ms: 1, waitMs: 20, timeout: time.Minute}
		lines, failed := j.run(t.Context())
		require.Nil(t, failed)
		require.NotEmpty(t, lines[0].Environment)
		for n, i := range items {
			l := lines[n+1]
			require.Equal(t, i, l.Item)
			switch i.Kind {
			case "wait":
				require.Positive(t, l.Wakeup)
			case "idle":
				require.Less(t, l.CPU, 100.0)
			case "memory":
				require.Greater(t, l.Receiver, 60.0*mib)
				require.Less(t, l.Sender, 8.0*mib)
			case "rate":
				require.Positive(t, l.Us)
			default:
				require.Positive(t, l.Us)
				require.GreaterOrEqual(t, l.P99, l.P50)
			}
		}
	}
}

// TestJobFails shows what a gap quotes, and that the other process is ended.
func TestJobFails(t *testing.T) {
	program := buildPeer(t)
	j := job{peer: direct("tcp", "", "", program, "tcp"), items: []Item{{"nonsense", 1, 1, 1}}, ms: 1, waitMs: 1, timeout: time.Minute}
	_, failed := j.run(t.Context())
	require.NotNil(t, failed)
	require.Contains(t, failed.command, "gopeer tcp nonsense:1:1:1")
	require.Contains(t, failed.output, `there is no measurement "nonsense"`)

	hangs := job{peer: direct("sleep", "", "", "sleep", "60"), ms: 1, waitMs: 1, timeout: 100 * time.Millisecond}
	begun := time.Now()
	_, failed = hangs.run(t.Context())
	require.NotNil(t, failed)
	require.Contains(t, failed.output, "not done after 100ms")
	require.Less(t, time.Since(begun), 20*time.Second)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, failed = hangs.run(ctx)
	require.NotNil(t, failed)

	missing := job{peer: direct("none", "", "", "/no/such/program"), ms: 1, waitMs: 1, timeout: time.Minute}
	_, failed = missing.run(t.Context())
	require.NotNil(t, failed)
}
