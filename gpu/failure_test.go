package gpu_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/mpi4go/mpi4go/gpu"
	"github.com/mpi4go/mpi4go/internal/cudasim"
	"github.com/stretchr/testify/require"
)

// everything makes one of each thing, uses it, and gives it back, whatever fails.
func everything(ctx context.Context) (err error) {
	keep := func(e error) {
		if e != nil {
			err = errors.Join(err, e)
		}
	}
	if _, err := gpu.Devices(); err != nil {
		return err
	}
	d, err := gpu.OpenDevice(0)
	if err != nil {
		return err
	}
	defer func() { keep(d.Close()) }()
	if _, _, err := d.MemGetInfo(); err != nil {
		return err
	}
	s, err := d.NewStream()
	if err != nil {
		return err
	}
	defer func() { keep(s.Destroy()) }()
	e, err := d.NewEvent()
	if err != nil {
		return err
	}
	defer func() { keep(e.Destroy()) }()
	pool, err := d.NewPinnedPool(1 << 20)
	if err != nil {
		return err
	}
	defer func() { keep(pool.Close()) }()
	const n = 400000
	a, err := d.Alloc(n)
	if err != nil {
		return err
	}
	defer func() { keep(a.Free()) }()
	b, err := d.AllocManaged(n)
	if err != nil {
		return err
	}
	defer func() { keep(b.Free()) }()
	c, err := pool.Alloc(ctx, n)
	if err != nil {
		return err
	}
	defer func() { keep(c.Free()) }()
	view, err := gpu.FromPointer(b.Mem().Addr(), n, "an owner")
	if err != nil {
		return err
	}
	defer func() { keep(view.Free()) }()
	data, got := random(n), make([]byte, n)
	for _, step := range []func() error{
		func() error { return s.MemsetD8Async(a, 1) },
		func() error { return s.MemsetD32Async(a, 1) },
		func() error { return gpu.Memcpy(ctx, s, a, data) },
		func() error { return s.MemcpyAsync(view, a) },
		func() error { return s.MemcpyAsync(c, view) },
		func() error { return e.Record(s) },
		func() error { return s.WaitEvent(e) },
		func() error { _, err := e.Query(); return err },
		func() error { _, err := s.Query(); return err },
		func() error { return e.Synchronize(ctx) },
		func() error { return s.Synchronize(ctx) },
		func() error { return gpu.Memcpy(ctx, s, got, c) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	if !bytes.Equal(data, got) {
		return errors.New("wrong data")
	}
	return nil
}

// TestEveryFailure makes each call of the driver fail, at each of its occurrences.
// Nothing may leak, and the error names the call; or there is none and the data is
// right, because waiting for a stream has a second way.
func TestEveryFailure(t *testing.T) {
	unchanged(t, "violations")
	ctx := patient(t)
	calls := trace(t, func() { require.NoError(t, everything(ctx)) })
	for _, name := range []string{"cuInit", "cuGetErrorName"} {
		delete(calls, name)
	}
	require.Greater(t, len(calls), 25)
	waiting := map[string]bool{
		"cuEventCreate": true, "cuEventRecord": true, "cuEventQuery": true, "cuStreamQuery": true,
		"cuCtxGetCurrent": true, "cuCtxSetCurrent": true,
	}
	for name, n := range calls {
		for i := 1; i <= min(n, 40); i++ {
			at := fmt.Sprintf("%s:%d", name, i)
			cudasim.Fail(t, at)
			before := cudasim.Stats()["injected"]
			err := everything(ctx)
			injected := cudasim.Stats()["injected"] > before
			switch {
			case err != nil:
				require.ErrorContains(t, err, name+": CUDA_ERROR_UNKNOWN (999)", at)
				var failed *gpu.Error
				require.ErrorAs(t, err, &failed, at)
			case injected:
				require.True(t, waiting[name], at+" failed and nobody heard of it")
			}
			require.Empty(t, cudasim.Leaks(), at)
		}
	}
}

// TestBrokenContext shows that a failure that stays, as that of a kernel does, gives
// errors everywhere, and no hang.
func TestBrokenContext(t *testing.T) {
	unchanged(t, "violations")
	ctx := patient(t)
	calls := trace(t, func() { require.NoError(t, everything(ctx)) })
	for _, name := range []string{"cuMemcpyAsync", "cuEventRecord", "cuEventQuery", "cuStreamQuery"} {
		every := ""
		for i := range 3 * calls[name] {
			every += fmt.Sprintf("%s:%d:700,", name, i+1)
		}
		cudasim.Fail(t, every)
		require.ErrorContains(t, everything(ctx), "700")
		require.Empty(t, cudasim.Leaks(), name)
	}
}
