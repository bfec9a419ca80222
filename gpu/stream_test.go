package gpu_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/gpu"
	"github.com/mpi4go/mpi4go/internal/cudasim"
	"github.com/stretchr/testify/require"
)

func TestStream(t *testing.T) {
	cudasim.Needed(t)
	ctx, d := patient(t), open(t)
	s, b := stream(t, d), alloc(t, d, 100)
	require.Same(t, d, s.Device())
	require.NotZero(t, s.Handle())
	done, err := s.Query()
	require.NoError(t, err)
	require.True(t, done)
	delay(t, 30000)
	require.NoError(t, s.MemsetD8Async(b, 1))
	done, err = s.Query()
	require.NoError(t, err)
	require.False(t, done)
	require.NoError(t, s.Synchronize(ctx))
	done, err = s.Query()
	require.NoError(t, err)
	require.True(t, done)
	require.NoError(t, s.MemsetD8Async(b, 2))
	require.NoError(t, s.Destroy())
}

func TestEvent(t *testing.T) {
	cudasim.Needed(t)
	unchanged(t, "blocked")
	ctx, d := patient(t), open(t)
	s, b := stream(t, d), alloc(t, d, 100)
	e, err := d.NewEvent()
	require.NoError(t, err)
	check := func(want bool) {
		done, err := e.Query()
		require.NoError(t, err)
		require.Equal(t, want, done)
	}
	check(true)
	require.NoError(t, e.Synchronize(ctx))
	delay(t, 50000)
	require.NoError(t, s.MemsetD8Async(b, 1))
	require.NoError(t, e.Record(s))
	check(false)
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	require.ErrorIs(t, e.Synchronize(short), context.DeadlineExceeded)
	require.NoError(t, e.Synchronize(ctx))
	check(true)
	require.NoError(t, e.Destroy())
	_, err = e.Query()
	for _, err := range []error{err, e.Destroy(), e.Record(s), e.Synchronize(ctx), s.WaitEvent(e)} {
		require.ErrorIs(t, err, gpu.ErrFreed)
	}
}

// TestWaitEvent shows that an event orders two streams, and that nothing else does.
func TestWaitEvent(t *testing.T) {
	cudasim.Needed(t)
	ctx, d := patient(t), open(t)
	first, then := stream(t, d), stream(t, d)
	a, b := alloc(t, d, 8), alloc(t, d, 8)
	require.NoError(t, first.MemsetD8Async(a, 0))
	require.NoError(t, first.Synchronize(ctx))
	e, err := d.NewEvent()
	require.NoError(t, err)
	defer e.Destroy()
	got := make([]byte, 8)
	for value, ordered := range map[byte]bool{1: true, 2: false} {
		delay(t, 50000)
		require.NoError(t, first.MemsetD8Async(a, value))
		require.NoError(t, e.Record(first))
		time.Sleep(5 * time.Millisecond) // the fill has read its delay
		cudasim.Configure(t, "CUDASIM_DELAY", "")
		if ordered {
			require.NoError(t, then.WaitEvent(e))
		}
		require.NoError(t, then.MemcpyAsync(b, a))
		require.NoError(t, then.Synchronize(ctx))
		require.NoError(t, first.Synchronize(ctx))
		require.NoError(t, gpu.Memcpy(ctx, then, got, b))
		require.Equal(t, ordered, got[0] == value)
	}
}

func TestEventOfAnotherDevice(t *testing.T) {
	ctx, d, other := patient(t), open(t), second(t)
	s, far := stream(t, d), stream(t, other)
	e, err := d.NewEvent()
	require.NoError(t, err)
	defer e.Destroy()
	require.ErrorContains(t, e.Record(far), "make the event with the stream's device")
	require.NoError(t, e.Record(s))
	require.NoError(t, far.WaitEvent(e))
	require.NoError(t, far.Synchronize(ctx))
}

func TestStreamFromHandle(t *testing.T) {
	unchanged(t, "violations")
	ctx, d := patient(t), open(t)
	_, err := d.StreamFromHandle(2)
	require.ErrorContains(t, err, "per-thread")
	theirs, b := stream(t, d), alloc(t, d, 100)
	for _, handle := range []uintptr{0, 1, theirs.Handle()} {
		s, err := d.StreamFromHandle(handle)
		require.NoError(t, err)
		require.NoError(t, s.MemsetD8Async(b, 3))
		require.NoError(t, s.Synchronize(ctx))
		require.NoError(t, s.Destroy())
	}
	require.NoError(t, theirs.MemsetD8Async(b, 4), "it was not destroyed")
}

// TestManyThreads shows that contexts are current wherever a goroutine runs, also on
// threads that come and go, with two devices in turn.
func TestManyThreads(t *testing.T) {
	unchanged(t, "violations")
	ctx := patient(t)
	devices := []*gpu.Device{open(t), second(t)}
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			runtime.LockOSThread() // the thread ends with the goroutine
			d := devices[i%2]
			for range 20 {
				s, err := d.NewStream()
				if err != nil {
					t.Error(err)
					return
				}
				b, err := d.Alloc(1000)
				if err != nil {
					t.Error(err)
					return
				}
				data, got := random(1000), make([]byte, 1000)
				err = errors.Join(gpu.Memcpy(ctx, s, b, data), gpu.Memcpy(ctx, s, got, b), b.Free(), s.Destroy())
				if err != nil || string(data) != string(got) {
					t.Error("wrong data", err)
					return
				}
				d = devices[(i+1)%2]
			}
		})
	}
	all.Wait()
}

// TestContextOfOthers shows that a context that is current already stays so, and that
// a thread that has ours makes no further call.
func TestContextOfOthers(t *testing.T) {
	cudasim.Needed(t)
	d, other := open(t), second(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	info := func(d *gpu.Device) {
		_, _, err := d.MemGetInfo()
		require.NoError(t, err)
	}
	info(d)
	require.Zero(t, trace(t, func() { info(d) })["cuCtxSetCurrent"])
	require.Equal(t, 2, trace(t, func() { info(other) })["cuCtxSetCurrent"], "there and back")
	require.Zero(t, trace(t, func() { info(d) })["cuCtxSetCurrent"])
}

// TestCollected runs everything with the garbage collector always at work.
func TestCollected(t *testing.T) {
	ctx, d := patient(t), open(t)
	stop := make(chan struct{})
	var collector sync.WaitGroup
	collector.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	})
	for range 50 {
		s, err := d.NewStream()
		require.NoError(t, err)
		b, err := d.Alloc(300000)
		require.NoError(t, err)
		data := random(300000)
		require.NoError(t, gpu.Memcpy(ctx, s, b, append([]byte(nil), data...)))
		got := make([]byte, 300000)
		require.NoError(t, gpu.Memcpy(ctx, s, got, b))
		require.Equal(t, data, got)
		require.NoError(t, b.Free())
		require.NoError(t, s.Destroy())
	}
	close(stop)
	collector.Wait()
}

// TestDestroyBesideFree shows that memory goes back to its pool only when the stream
// that is being destroyed has done what uses it.
func TestDestroyBesideFree(t *testing.T) {
	cudasim.Needed(t)
	ctx, d := patient(t), open(t)
	pool, err := d.NewPinnedPool(4096)
	require.NoError(t, err)
	device := alloc(t, d, 4096)
	for range 20 {
		s, err := d.NewStream()
		require.NoError(t, err)
		b, err := pool.Alloc(ctx, 4096)
		require.NoError(t, err)
		delay(t, 5000)
		require.NoError(t, s.MemcpyAsync(b, device))
		began := time.Now()
		var all sync.WaitGroup
		all.Go(func() { require.NoError(t, s.Destroy()) })
		all.Go(func() {
			require.NoError(t, b.Free())
			require.Greater(t, time.Since(began), 4*time.Millisecond)
		})
		all.Wait()
	}
	require.NoError(t, pool.Close())
}
