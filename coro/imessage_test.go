package coro_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/stretchr/testify/require"
)

// TestMessageRequests starts more messages than a rank may be ahead, in both
// directions, before it waits for any.
func TestMessageRequests(t *testing.T) {
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	const n = 200
	peer := 1 - c.Rank()
	lengths := func(i int) []int { return []int{i, 3000, 0, 20_000 * (i % 2)} }
	var sends, receives []*coro.MessageRequest
	start := func(r *coro.MessageRequest, err error) *coro.MessageRequest {
		require.NoError(t, err)
		return r
	}
	for i := range n {
		switch i % 3 {
		case 0:
			receives = append(receives, start(coro.IrecvMessage(c, peer, 5)))
		case 1:
			receives = append(receives, start(coro.IrecvMessageInto(c, framesOf(lengths(i), 99), mpicomm.AnySource, 5)))
		case 2:
			receives = append(receives, start(coro.IrecvMessageAlloc(c, peer, 5, func(in coro.Incoming) ([]mem.Buffer, error) {
				return framesOf(lengths(i), 98), nil
			})))
		}
	}
	for i := range n {
		sends = append(sends, start(coro.IsendMessage(c, framesOf(lengths(i), i), peer, 5)))
	}
	for i, r := range receives {
		m, err := r.Wait(ctx)
		require.NoError(t, err)
		requireFrames(t, m, lengths(i), i)
		<-r.Done()
		again, done, err := r.Test()
		require.NoError(t, err)
		require.True(t, done)
		require.Same(t, m, again)
	}
	for _, r := range sends {
		m, err := r.Wait(ctx)
		require.NoError(t, err)
		require.Nil(t, m)
		<-r.Done()
		_, done, err := r.Test()
		require.NoError(t, err)
		require.True(t, done)
	}
}

// TestMessageRequestCancel takes messages back, or is too late.
func TestMessageRequestCancel(t *testing.T) {
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if c.Rank() == 0 {
		for i := range 64 { // as far as a rank may be ahead
			r, err := coro.IsendMessage(c, framesOf([]int{10}, i), 1, 1)
			require.NoError(t, err)
			_, err = r.Wait(ctx)
			require.NoError(t, err)
			r.Cancel() // too late
		}
		waits, err := coro.IsendMessage(c, framesOf([]int{10}, 100), 1, 1)
		require.NoError(t, err)
		last, err := coro.IsendMessage(c, framesOf([]int{10}, 64), 1, 1)
		require.NoError(t, err)
		_, done, err := waits.Test()
		require.NoError(t, err)
		require.False(t, done)
		_, err = waits.Wait(ended)
		require.ErrorIs(t, err, context.Canceled)
		waits.Cancel()
		_, err = waits.Wait(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, coro.SendMessage(ctx, c, nil, 1, 2))
		_, err = last.Wait(ctx)
		require.NoError(t, err)
		return
	}
	never, err := coro.IrecvMessage(c, 0, 3)
	require.NoError(t, err)
	never.Cancel()
	_, err = never.Wait(ctx)
	require.ErrorIs(t, err, context.Canceled)
	_, err = coro.RecvMessage(ctx, c, 0, 2)
	require.NoError(t, err)
	for i := range 65 {
		m, err := coro.RecvMessage(ctx, c, 0, 1)
		require.NoError(t, err)
		requireFrames(t, m, []int{10}, i)
	}
	wrong, err := coro.IrecvMessageInto(c, nil, 0, 4)
	require.NoError(t, err)
	require.NoError(t, coro.SendMessage(ctx, c, nil, mpicomm.ProcNull, 0))
	wrong.Cancel()
	_, err = wrong.Wait(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

func TestWrongMessageRequests(t *testing.T) {
	c := mpitest.Comm(t)
	ctx := mpitest.Context(t)
	_, err := coro.IsendMessage(c, nil, c.Size(), 0)
	require.ErrorIs(t, err, mpicomm.ErrRank)
	_, err = coro.IrecvMessage(c, 0, -7)
	require.ErrorIs(t, err, mpicomm.ErrTag)
	r, err := coro.IsendMessage(c, nil, mpicomm.ProcNull, 0)
	require.NoError(t, err)
	_, err = r.Wait(ctx)
	require.NoError(t, err)
	r.Cancel()
	r, err = coro.IrecvMessage(c, mpicomm.ProcNull, 0)
	require.NoError(t, err)
	m, err := r.Wait(ctx)
	require.NoError(t, err)
	require.Equal(t, mpicomm.ProcNull, m.Source)
}

// TestMessageAllocations counts what a message allocates: not more for longer
// frames, and little for each.
func TestMessageAllocations(t *testing.T) {
	if mpitest.Race {
		t.Skip("the race detector allocates")
	}
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	peer := 1 - c.Rank()
	for _, frames := range []int{1, 16, 1000} {
		for _, n := range []int{30, 2000, 20_000} {
			rounds := min(200, max(20, 4<<20/(frames*n)))
			out, in := framesOf(repeat(frames, n), 1), framesOf(repeat(frames, n), 2)
			var before, after runtime.MemStats
			for i := range 10 + rounds {
				if i == 10 {
					runtime.ReadMemStats(&before)
				}
				for turn := range 2 {
					var err error
					if turn == c.Rank() {
						err = coro.SendMessage(ctx, c, out, peer, 1)
					} else {
						_, err = coro.RecvMessageInto(ctx, c, in, peer, 1)
					}
					require.NoError(t, err)
				}
			}
			runtime.ReadMemStats(&after)
			each := float64(after.Mallocs-before.Mallocs) / float64(rounds)
			t.Logf("%d x %d B: %.1f allocations, %d B", frames, n, each, (after.TotalAlloc-before.TotalAlloc)/uint64(rounds))
			require.LessOrEqual(t, each, 24+0.03*float64(frames), "%d frames of %d bytes", frames, n)
		}
	}
}
