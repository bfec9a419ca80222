package cuda_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/internal/cuda"
	"github.com/mpi4go/mpi4go/internal/cudasim"
	"github.com/stretchr/testify/require"
)

// context retains the primary context of device 0 until the end of the test.
func context(t *testing.T) cuda.Context {
	require.NoError(t, cuda.Load())
	d, err := cuda.DeviceOf(0)
	require.NoError(t, err)
	ctx, err := cuda.Retain(d.Handle)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cuda.Release(d.Handle)) })
	return ctx
}

// TestLoad shows what is said where the driver, or a part of it, is missing. Each case
// is a process of its own, because a driver is loaded once.
func TestLoad(t *testing.T) {
	if want := os.Getenv("CUDA_TEST_WANT"); want != "" {
		err := cuda.Load()
		require.ErrorIs(t, err, cuda.ErrNotSupported)
		require.ErrorIs(t, err, errors.ErrUnsupported)
		require.ErrorContains(t, err, want)
		require.Equal(t, err, cuda.Load(), "again")
		return
	}
	cudasim.Needed(t)
	symbol, err := cudasim.Build(t.TempDir(), "cuStreamWaitEvent")
	require.NoError(t, err)
	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, []byte("text"), 0o666))
	cases := map[string]string{ // library: what the error contains
		"/nowhere/libcuda.so.1": "looked for the driver's library /nowhere/libcuda.so.1 (MPI4GO_CUDA is set to it): /nowhere/libcuda.so.1: cannot open",
		text:                    "looked for the driver's library " + text,
		symbol:                  "looked for the symbol cuStreamWaitEvent in " + symbol,
		"libm.so.6":             "looked for the symbol cuInit in libm.so.6, and it is missing",
	}
	if _, err := os.Stat("/dev/nvidiactl"); err != nil {
		cases[""] = "looked for the driver's library libcuda.so.1 (MPI4GO_CUDA may be set to its path)"
	}
	for library, want := range cases {
		c := exec.Command(os.Args[0], "-test.run=^TestLoad$", "-test.v")
		c.Env = append(os.Environ(), "MPI4GO_CUDA="+library, "MPI4GO_TEST_CUDA=real", "CUDA_TEST_WANT="+want)
		out, err := c.CombinedOutput()
		require.NoError(t, err, string(out))
		require.Contains(t, string(out), "--- PASS: TestLoad")
	}
}

func TestError(t *testing.T) {
	require.NoError(t, cuda.Load())
	err := error(&cuda.Error{Call: "cuMemAlloc_v2", Result: cuda.OutOfMemory})
	require.EqualError(t, err, "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory")
	require.ErrorIs(t, err, cuda.OutOfMemory)
	require.NotErrorIs(t, err, cuda.ErrNotSupported)
	require.EqualError(t, &cuda.Error{Call: "cuInit", Result: 12345}, "cuInit: CUDA error 12345 (12345)")
	for _, result := range []cuda.Result{34, 100, 801} {
		require.ErrorIs(t, &cuda.Error{Call: "cuInit", Result: result}, cuda.ErrNotSupported)
		require.ErrorIs(t, &cuda.Error{Call: "cuInit", Result: result}, errors.ErrUnsupported)
	}
}

// TestContextTrap shows that no call meets a thread without a context, on threads that
// have just begun.
func TestContextTrap(t *testing.T) {
	ctx := context(t)
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			runtime.LockOSThread() // the thread ends with the goroutine
			address, err := cuda.MemAlloc(ctx, 100)
			if err == nil {
				err = cuda.MemFree(ctx, address)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func TestWrongContext(t *testing.T) {
	cudasim.Needed(t)
	_, err := cuda.MemAlloc(12345, 100)
	var failed *cuda.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, "cuCtxSetCurrent", failed.Call)
}

func TestQueryAll(t *testing.T) {
	cudasim.Needed(t)
	ctx := context(t)
	s, err := cuda.StreamCreate(ctx)
	require.NoError(t, err)
	var events []cuda.Event
	var queries []cuda.Query
	for range 3 {
		e, err := cuda.EventCreate(ctx)
		require.NoError(t, err)
		events = append(events, e)
		queries = append(queries, cuda.NewQuery(ctx, e))
	}
	address, err := cuda.MemAlloc(ctx, 100)
	require.NoError(t, err)
	cudasim.Configure(t, "CUDASIM_DELAY", "30000")
	require.NoError(t, cuda.EventRecord(ctx, events[0], s))
	require.NoError(t, cuda.MemsetD8Async(ctx, address, 1, 100, s))
	require.NoError(t, cuda.EventRecord(ctx, events[1], s))
	time.Sleep(5 * time.Millisecond)
	answers := func() (all []bool) {
		cuda.QueryAll(queries)
		for i := range queries {
			done, err := queries[i].Done()
			require.NoError(t, err)
			all = append(all, done)
		}
		return all
	}
	require.Equal(t, []bool{true, false, true}, answers())
	require.Eventually(t, func() bool { return answers()[1] }, 10*time.Second, time.Millisecond)
	cuda.QueryAll(nil)
	for _, e := range events {
		require.NoError(t, cuda.EventDestroy(ctx, e))
	}
	require.NoError(t, cuda.StreamDestroy(ctx, s))
	require.NoError(t, cuda.MemFree(ctx, address))
}

func TestModule(t *testing.T) {
	ctx := context(t)
	_, err := cuda.ModuleLoad(ctx, "this is no PTX")
	var failed *cuda.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, "cuModuleLoadData", failed.Call)
	m, err := cuda.ModuleLoad(ctx, ".version 6.0\n.target sm_50\n.address_size 64\n")
	require.NoError(t, err)
	_, err = cuda.ModuleFunction(ctx, m, "mpi4go_fill")
	require.ErrorAs(t, err, &failed)
	require.Equal(t, "cuModuleGetFunction", failed.Call)
	require.NoError(t, cuda.ModuleUnload(ctx, m))
	require.ErrorContains(t, cuda.Launch(ctx, 0, 1, 1, 0, make([]uint64, 9)...), "want at most 8")
}
