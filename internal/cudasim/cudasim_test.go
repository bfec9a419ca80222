package cudasim_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/internal/cudasim"
	"github.com/stretchr/testify/require"
)

// TestHeader shows that the simulated driver has the signatures and values of
// NVIDIA's own headers.
func TestHeader(t *testing.T) {
	cudasim.EachHeader(t, func(t *testing.T, include string) {
		require.NoError(t, cudasim.Compile(os.DevNull, include, "-fsyntax-only", "-Wno-deprecated-declarations", filepath.Join(cudasim.Dir(), "cudasim.c")))
	})
}

// built is the folder with the simulated driver and a program that is linked with it.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "cudasim")
	if err != nil {
		return "", err
	}
	if _, err := cudasim.Build(dir); err != nil {
		return dir, err
	}
	if err := os.Symlink("libcuda.so.1", filepath.Join(dir, "libcuda.so")); err != nil {
		return dir, err
	}
	return dir, cudasim.Compile(filepath.Join(dir, "program"), filepath.Join(cudasim.Dir(), "include"),
		filepath.Join(cudasim.Dir(), "program.c"), "-L"+dir, "-lcuda", "-Wl,-rpath,"+dir)
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, _ := built(); dir != "" {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// run runs a part of the program and returns what it prints.
func run(t *testing.T, part string, env ...string) (string, error) {
	dir, err := built()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, filepath.Join(dir, "program"), part)
	c.Env = append(os.Environ(), env...)
	text, err := c.CombinedOutput()
	return string(text), err
}

func TestStrictness(t *testing.T) {
	for part, delay := range map[string]string{"contexts": "0", "streams": "50000", "memory": "0", "ipc": "100000"} {
		text, err := run(t, part, "CUDASIM_DELAY="+delay, "CUDASIM_LEAKS=1")
		require.NoError(t, err, "%s: %s", part, text)
		require.NotContains(t, text, "leak")
	}
}

func TestLeaks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "stats")
	t.Setenv("CUDASIM_STATS", file)
	text, err := run(t, "leaks", "CUDASIM_LEAKS=1")
	require.NoError(t, err, text)
	require.Contains(t, text, "cudasim: leak: device 1\ncudasim: leak: events 1\ncudasim: leak: retains 1\ncudasim: leak: bytes 100\n")
	require.Equal(t, map[string]int{"device": 1, "events": 1, "retains": 1, "bytes": 100}, cudasim.Leaks(), "after the end")
	dir := t.TempDir()
	for range 2 {
		text, err = run(t, "leaks", "CUDASIM_STATS="+filepath.Join(dir, "stats.%p"))
		require.NoError(t, err, text)
	}
	files, err := filepath.Glob(filepath.Join(dir, "stats.*"))
	require.NoError(t, err)
	require.Len(t, files, 2)
}

func TestFault(t *testing.T) {
	text, err := run(t, "fault")
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, text)
	require.Equal(t, syscall.SIGSEGV, exit.Sys().(syscall.WaitStatus).Signal())
}

func TestTraceAndFailures(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace")
	text, err := run(t, "leaks", "CUDASIM_TRACE="+file, "CUDASIM_FAIL=cuMemAlloc_v2:1:2,cuEventCreate:2")
	require.Error(t, err)
	require.Contains(t, text, "cuMemAlloc_v2(&a, 100) is 2, want 0")
	require.NotContains(t, text, "cuEventCreate")
	calls, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, 5, strings.Count(string(calls), "\n"))
	require.Regexp(t, `(?m)^cuMemAlloc_v2 2 \d+ \d+ program$`, string(calls))
}

// TestOpenMPI shows that every symbol is there that a CUDA-enabled Open MPI 4.1 looks
// up; one that is missing turns its support off.
func TestOpenMPI(t *testing.T) {
	dir, err := built()
	require.NoError(t, err)
	text, err := exec.Command("nm", "-D", "--defined-only", filepath.Join(dir, "libcuda.so.1")).Output()
	require.NoError(t, err)
	for _, symbol := range strings.Fields(`cuStreamCreate cuStreamDestroy_v2 cuStreamSynchronize cuStreamWaitEvent
		cuEventCreate cuEventDestroy_v2 cuEventRecord cuEventQuery cuEventSynchronize cuMemHostRegister_v2
		cuMemHostUnregister cuPointerGetAttribute cuPointerGetAttributes cuPointerSetAttribute cuMemcpy cuMemcpyAsync
		cuMemAlloc_v2 cuMemFree_v2 cuMemGetAddressRange_v2 cuIpcGetMemHandle cuIpcOpenMemHandle_v2 cuIpcCloseMemHandle
		cuIpcGetEventHandle cuIpcOpenEventHandle cuCtxGetCurrent cuCtxSetCurrent cuCtxGetDevice cuDeviceCanAccessPeer
		cuDeviceGet`) {
		require.Contains(t, string(text), " T "+symbol+"\n")
	}
}
