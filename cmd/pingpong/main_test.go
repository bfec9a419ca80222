package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/internal/cudasim"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/stretchr/testify/require"
)

// envRun makes the test binary the program.
const envRun = "PINGPONG_TEST_RUN"

func TestMain(m *testing.M) {
	if os.Getenv(envRun) != "" {
		os.Exit(run(os.Args[1:]))
	}
	mpitest.Main(m, mpitest.Ranks(), mpitest.Environment(cudasim.Use))
}

// output is what a run with --format json prints.
type output struct {
	Notes []string
	Rows  []map[string]any
}

// ran runs the program on two ranks and returns what it prints.
func ran(t *testing.T, mpi string, args ...string) (o output) {
	t.Helper()
	r := mpitest.Job{
		MPI: mpi, Ranks: 2, Command: append([]string{os.Args[0], "--format=json"}, args...), Env: []string{envRun + "=1"}, Timeout: 2 * time.Minute,
	}.Run(t)
	require.Equal(t, 0, r.Code)
	decode(t, r.Output, &o)
	return o
}

func decode(t *testing.T, text string, o *output) {
	t.Helper()
	_, text, found := strings.Cut(text, "{\n")
	require.True(t, found)
	require.NoError(t, json.NewDecoder(strings.NewReader("{\n"+text)).Decode(o))
	require.NotEmpty(t, o.Rows)
}

// eachMPI runs a test over each MPI; those of the CUDA-enabled one are given device
// memory.
func eachMPI(t *testing.T, f func(t *testing.T, mpi, path string)) {
	t.Run("staged", func(t *testing.T) {
		mpitest.EachMPI(t, func(t *testing.T, mpi string) { f(t, mpi, "staged") })
	})
	t.Run("direct", func(t *testing.T) {
		mpitest.EachCUDA(t, func(t *testing.T, mpi string) { f(t, mpi, "direct") })
	})
}

// TestDeviceMemory runs all modes that have messages with memory of a device, and
// verifies every message.
func TestDeviceMemory(t *testing.T) {
	cudasim.Needed(t)
	eachMPI(t, func(t *testing.T, mpi, path string) {
		for _, args := range []string{
			"latency -d D --sizes 1,4097,1M",
			"latency -d H,D --sizes 1,64K --stream",
			"bandwidth -d D,H --window 4 --sizes 1,64K",
			"bandwidth -d D --post single --window 4 --sizes 1,64K --stream",
			"bibandwidth -d M,D --window 4 --sizes 1,64K",
			"rate -d P,D --window 4 --sizes 1,256",
			"coroutines -d D -g 8 --sizes 64",
			"allpairs -d D --sizes 64",
			"multi -d D,H --sizes 1,64K --frames 3",
			"multi -d D+H,M+D+P --sizes 100,64K --frames 5 --stream",
		} {
			o := ran(t, mpi, strings.Fields(args+" --validate --rounds 2 --iters 4")...)
			for _, row := range o.Rows {
				requirePath(t, path, row, args)
			}
		}
		o := ran(t, mpi, strings.Fields("collective bcast -d D,M --sizes 8,64K --rounds 1 --iters 4")...)
		require.Equal(t, "staged", o.Rows[1]["path"], "no MPI here is given device memory in collectives")
		o = ran(t, mpi, strings.Fields("busy -d D --rounds 1 --iters 4 --validate")...)
		require.Equal(t, path, o.Rows[0]["path"])
	})
}

// TestConnections shows what the mode for connections prints.
func TestConnections(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		row := ran(t, mpi, strings.Fields("connections -c 50 --samples 2 --after 50ms")...).Rows[0]
		require.EqualValues(t, 50, row["connections"])
		require.Len(t, row["wakeups_us"], 2)
		for _, name := range []string{"connect_p50_us", "connect_p99_us", "one_way_us", "wakeup_p50_us", "wakeup_p99_us"} {
			require.Greater(t, row[name], 0.0, name)
		}
		for side, bytes := range row["bytes_per_connection"].([]any) {
			require.Greater(t, bytes, 100.0, "of heap for what a connection is, side %d", side)
		}
	})
}

// requirePath checks how the messages of a row have travelled. In messages of many frames
// short ones from host memory come in the header, or together, and are then staged into
// device memory.
func requirePath(t *testing.T, path string, row map[string]any, args string) {
	t.Helper()
	if row["path"] == "direct+staged" && path == "direct" && strings.HasPrefix(args, "multi") {
		return
	}
	require.Equal(t, path, row["path"], "%s: %v", args, row)
}

// TestDeviceMemoryBesideC shows that there is a C column where MPI takes the memory,
// and a word of it where not.
func TestDeviceMemoryBesideC(t *testing.T) {
	cudasim.Needed(t)
	eachMPI(t, func(t *testing.T, mpi, path string) {
		for _, mode := range []string{"latency", "bandwidth", "multi"} {
			o := ran(t, mpi, mode, "-d", "D,H", "--sizes=64", "--rounds=1", "--iters=4")
			notes := strings.Join(o.Notes, "\n")
			requirePath(t, path, o.Rows[0], mode)
			if path == "direct" {
				require.Contains(t, o.Rows[0], "c_us")
				require.NotContains(t, notes, "no C")
			} else {
				require.NotContains(t, o.Rows[0], "c_us")
				require.Contains(t, notes, "no C column: ")
			}
		}
		o := ran(t, mpi, "latency", "-d", "P,M", "--sizes=64", "--rounds=1", "--iters=4")
		require.Contains(t, o.Rows[0], "c_us", "no MPI minds that")
	})
}

// TestProbeGPU shows that the probe survives what crashes, and that its findings are
// those that mpi4go acts on.
func TestProbeGPU(t *testing.T) {
	cudasim.Needed(t)
	eachMPI(t, func(t *testing.T, mpi, path string) {
		mpirun, env := mpitest.Mpirun(mpi)
		r := mpitest.Job{
			Command: []string{os.Args[0], "--format=json", "probe-gpu", "--mpirun", mpirun}, Env: append(env, envRun+"=1"), Timeout: 3 * time.Minute,
		}.Run(t)
		require.Equal(t, 0, r.Code)
		var o output
		decode(t, r.Output, &o)
		require.Len(t, o.Rows, len(trials))
		for _, row := range o.Rows {
			works := path == "direct" && row["try"] != "iallreduce" || row["try"] == "send M,M"
			require.Equal(t, works, row["works"], row)
			if row["capability"] == pointToPoint {
				require.Equal(t, path == "direct", row["claimed"], row)
			}
		}
	})
}
