package mpicomm_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/stretchr/testify/require"
)

var errCanceled = context.Canceled

// TestCancelledSend shows that a send whose context ends returns with the
// request: MPI cannot cancel it, and it is done once somebody receives. It is a
// synchronous one, because Intel MPI buffers others of any length.
func TestCancelledSend(t *testing.T) {
	comm := mpitest.Pair(t)
	const n, late, data, small = 1 << 20, 1, 2, 3
	if comm.Rank() == 1 {
		await(t, comm, 0, late)
		buf := make([]byte, n)
		require.Equal(t, n, recv(t, comm, buf, 0, data).Count)
		requirePattern(t, buf, 1)
		recv(t, comm, buf[:300], 0, small)
		requirePattern(t, buf[:300], 2)
		return
	}
	buf, short := pattern(n, 1), pattern(300, 2)
	errs := []error{
		coro.Ssend(onceStarted(t, 1), comm, buf, 1, data),
		coro.Ssend(onceStarted(t, 1), comm, short, 1, small),
	}
	var requests []*mpicomm.Request
	for _, err := range errs {
		require.ErrorIs(t, err, errCanceled)
		var flight *mpicomm.InFlightError
		require.ErrorAs(t, err, &flight)
		_, done, err := flight.Request.Test()
		require.NoError(t, err)
		require.False(t, done)
		require.ErrorIs(t, flight.Request.Cancel(), errors.ErrUnsupported)
		requests = append(requests, flight.Request)
	}
	require.ErrorContains(t, errs[0], "still in flight and owns its buffer")
	signal(t, comm, 1, late)
	require.NoError(t, mpicomm.Waitall(mpitest.Context(t), requests...))
	requirePattern(t, buf, 1)
}

// TestCancelledShortSend shows that a short send, which is copied, is done
// before any context can end, and that a context that has ended before prevents
// it.
func TestCancelledShortSend(t *testing.T) {
	comm := mpitest.Pair(t)
	if comm.Rank() == 1 {
		buf := make([]byte, 256)
		require.Equal(t, 1, recv(t, comm, buf, 0, mpicomm.AnyTag).Tag)
		requirePattern(t, buf, 1)
		require.Equal(t, 3, recv(t, comm, buf, 0, mpicomm.AnyTag).Tag)
		return
	}
	ctx, cancel := context.WithCancel(mpitest.Context(t))
	require.NoError(t, coro.Send(ctx, comm, pattern(256, 1), 1, 1))
	cancel()
	for _, n := range []int{0, 256, 257, 100000} {
		require.ErrorIs(t, coro.Send(ctx, comm, pattern(n, 2), 1, 2), errCanceled)
	}
	send(t, comm, nil, 1, 3)
}

// TestCancelledReceive shows that a receive whose context ends has written
// nothing, and that the message that comes later goes to the next receive.
func TestCancelledReceive(t *testing.T) {
	comm := mpitest.Pair(t)
	const now = 1000
	for i, n := range []int{0, 1, 256, 257, 4097, 100000} {
		if comm.Rank() == 0 {
			await(t, comm, 1, now)
			send(t, comm, pattern(n, i), 1, i)
			continue
		}
		g := newGuarded(n)
		for _, source := range []int{0, mpicomm.AnySource} {
			for _, tag := range []int{i, mpicomm.AnyTag} {
				_, err := coro.Recv(onceStarted(t, 1), comm, g.buf, source, tag)
				require.ErrorIs(t, err, errCanceled)
				var flight *mpicomm.InFlightError
				require.False(t, errors.As(err, &flight), "nothing had matched")
			}
		}
		_, _, err := coro.RecvAlloc[byte](onceStarted(t, 1), comm, 0, i)
		require.ErrorIs(t, err, errCanceled)
		_, err = comm.Probe(onceStarted(t, 1), 0, i)
		require.ErrorIs(t, err, errCanceled)
		_, err = comm.Mprobe(onceStarted(t, 1), 0, i)
		require.ErrorIs(t, err, errCanceled)
		signal(t, comm, 0, now)
		next := newGuarded(n)
		require.Equal(t, mpicomm.Status{Source: 0, Tag: i, Count: n}, recv(t, comm, next.buf, 0, i))
		requirePattern(t, next.buf, i)
		next.requireIntact(t, n)
		g.requireIntact(t, 0)
	}
}

// TestCancelledBefore shows that a context that has ended starts nothing.
func TestCancelledBefore(t *testing.T) {
	comm := mpitest.Comm(t)
	ctx, cancel := context.WithCancel(mpitest.Context(t))
	cancel()
	buf := newGuarded(1000)
	before := started()
	_, recvErr := coro.Recv(ctx, comm, buf.buf, 0, 1)
	_, _, allocErr := coro.RecvAlloc[byte](ctx, comm, 0, 1)
	_, exchangeErr := coro.Sendrecv(ctx, comm, buf.buf, 0, 1, make([]byte, 1000), 0, 1)
	_, mprobeErr := comm.Mprobe(ctx, 0, 1)
	_, probeErr := comm.Probe(ctx, 0, 1)
	_, dupErr := comm.Dup(ctx)
	for _, err := range []error{recvErr, allocErr, exchangeErr, mprobeErr, probeErr, dupErr, coro.Ssend(ctx, comm, buf.buf, 0, 1)} {
		require.ErrorIs(t, err, errCanceled)
	}
	require.Equal(t, before, started())
}

// TestCancelledExchange shows that an exchange, as in coro.Sendrecv, whose context
// ends gives back its receive, keeps its send, and that the message of the peer
// is not lost.
func TestCancelledExchange(t *testing.T) {
	comm := mpitest.Pair(t)
	const n, now = 1 << 20, 9
	if comm.Rank() == 1 {
		await(t, comm, 0, now)
		buf := make([]byte, n)
		recv(t, comm, buf, 0, 1)
		requirePattern(t, buf, 1)
		send(t, comm, pattern(n, 2), 0, 2)
		return
	}
	into := newGuarded(n)
	_, err := mpicomm.DoAll(onceStarted(t, 2), nil, comm.RecvOp(mem.Of(into.buf), 1, 2), comm.SsendOp(mem.Of(pattern(n, 1)), 1, 1))
	require.ErrorIs(t, err, errCanceled)
	var flight *mpicomm.InFlightError
	require.ErrorAs(t, err, &flight)
	signal(t, comm, 1, now)
	buf := make([]byte, n)
	recv(t, comm, buf, 1, 2)
	requirePattern(t, buf, 2)
	_, err = flight.Request.Wait(mpitest.Context(t))
	require.ErrorIs(t, err, errCanceled, "of the receive")
	into.requireIntact(t, 0)
}

// TestCancelRace cancels receives at the moment at which their messages arrive.
// Each message is delivered once, in order.
func TestCancelRace(t *testing.T) {
	comm := mpitest.Pair(t)
	ways := []struct {
		name string
		n    int // bytes
		reps int
		recv func(ctx context.Context, buf []byte) (mpicomm.Status, []byte, error)
	}{
		{"Recv of 8 bytes", 8, 1000, recvInto(comm)},
		{"Recv of 1000 bytes", 1000, 1000, recvInto(comm)},
		{"Recv of 100000 bytes", 100000, 200, recvInto(comm)},
		{"RecvAlloc of 8 bytes", 8, 1000, recvAlloc(comm)},
		{"RecvAlloc of 100000 bytes", 100000, 200, recvAlloc(comm)},
		{"Mprobe", 300, 500, func(ctx context.Context, buf []byte) (mpicomm.Status, []byte, error) {
			m, err := comm.Mprobe(ctx, 0, 1)
			if err != nil {
				return mpicomm.Status{}, nil, err
			}
			r, err := m.Imrecv(mem.Of(buf))
			if err != nil {
				return mpicomm.Status{}, nil, err
			}
			status, err := r.Wait(context.Background())
			return status, buf, err
		}},
	}
	const data, ack = 1, 2
	for _, way := range ways {
		if comm.Rank() == 0 {
			message := pattern(way.n, 1)
			for i := range way.reps {
				binary.LittleEndian.PutUint64(message, uint64(i))
				send(t, comm, message, 1, data)
				await(t, comm, 1, ack)
			}
			continue
		}
		cancelled := 0
		for i := range way.reps {
			got := untilReceived(t, way.recv, way.n, &cancelled)
			require.Equal(t, uint64(i), binary.LittleEndian.Uint64(got), way.name)
			requireTail(t, got)
			if i == way.reps-1 { // the other rank still waits
				_, found, err := comm.Iprobe(mpicomm.AnySource, mpicomm.AnyTag)
				require.NoError(t, err)
				require.False(t, found, "a message too many")
			}
			signal(t, comm, 0, ack)
		}
		t.Logf("%s: %d messages, %d receives were cancelled", way.name, way.reps, cancelled)
	}
}

// requireTail checks what follows the number of a message.
func requireTail(t testing.TB, got []byte) {
	t.Helper()
	want := pattern(len(got), 1)
	require.Equal(t, string(want[8:]), string(got[8:]))
}

func recvInto(comm *mpicomm.Comm) func(context.Context, []byte) (mpicomm.Status, []byte, error) {
	return func(ctx context.Context, buf []byte) (mpicomm.Status, []byte, error) {
		status, err := coro.Recv(ctx, comm, buf, mpicomm.AnySource, 1)
		return status, buf, err
	}
}

func recvAlloc(comm *mpicomm.Comm) func(context.Context, []byte) (mpicomm.Status, []byte, error) {
	return func(ctx context.Context, _ []byte) (mpicomm.Status, []byte, error) {
		got, status, err := coro.RecvAlloc[byte](ctx, comm, 0, 1)
		return status, got, err
	}
}

// untilReceived receives with contexts that end at any moment.
func untilReceived(t testing.TB, recv func(context.Context, []byte) (mpicomm.Status, []byte, error), n int, cancelled *int) []byte {
	t.Helper()
	for {
		ctx, cancel := context.WithCancel(mpitest.Context(t))
		patience := rand.IntN(100)
		go func() {
			for range patience {
				runtime.Gosched()
			}
			cancel()
		}()
		status, got, err := recv(ctx, make([]byte, n))
		var flight *mpicomm.InFlightError
		switch {
		case errors.As(err, &flight): // matched, and it takes its time
			status, err = flight.Request.Wait(mpitest.Context(t))
			require.NoError(t, err)
			require.NotNil(t, got)
		case err != nil:
			require.ErrorIs(t, err, errCanceled)
			*cancelled++
			continue
		}
		require.Equal(t, n, status.Count)
		return got
	}
}

// TestCancelRequest cancels started receives: one that waits, one that has
// received, and one of a set.
func TestCancelRequest(t *testing.T) {
	comm := mpitest.Pair(t)
	const tag = 1
	for _, n := range []int{0, 256, 257, 100000} {
		if comm.Rank() == 0 {
			await(t, comm, 1, 9)
			send(t, comm, pattern(n, 1), 1, tag)
			continue
		}
		g := newGuarded(n)
		r := irecv(t, comm, g.buf, 0, tag)
		require.NoError(t, r.Cancel())
		require.NoError(t, r.Cancel(), "twice is no mistake")
		for range 2 {
			_, err := r.Wait(mpitest.Context(t))
			require.ErrorIs(t, err, errCanceled)
		}
		_, done, err := r.Test()
		require.True(t, done)
		require.ErrorIs(t, err, errCanceled)
		g.requireIntact(t, 0)

		received := irecv(t, comm, g.buf, 0, tag)
		signal(t, comm, 0, 9)
		require.Equal(t, n, wait(t, received).Count)
		require.NoError(t, received.Cancel(), "nothing is left to cancel")
		require.Equal(t, n, wait(t, received).Count)
		requirePattern(t, g.buf, 1)
	}
}

func TestCancelSet(t *testing.T) {
	comm := mpitest.Comm(t)
	_, previous := ring(comm)
	set, err := mpicomm.Post(
		comm.RecvOp(mem.Of(make([]byte, 10)), previous, 1),
		comm.RecvOp(mem.Of(make([]byte, 1000)), previous, 2))
	require.NoError(t, err)
	require.Nil(t, set.Statuses())
	require.NoError(t, set.Cancel())
	_, err = set.Wait(mpitest.Context(t))
	require.ErrorIs(t, err, errCanceled)

	mixed, err := mpicomm.Post(
		comm.RecvOp(mem.Of(make([]byte, 10)), comm.Rank(), 3),
		comm.SendOp(mem.Of(make([]byte, 10)), comm.Rank(), 3))
	require.NoError(t, err)
	require.ErrorIs(t, mixed.Cancel(), errors.ErrUnsupported)
	wait(t, mixed)
}

// TestRecvAllocCancelledInAlloc shows that a message whose receive is cancelled
// while its memory is being allocated is received, or goes to the next receive.
func TestRecvAllocCancelledInAlloc(t *testing.T) {
	comm := mpitest.Pair(t)
	for i, n := range []int{1, 300, 1 << 20} {
		if comm.Rank() == 0 {
			send(t, comm, pattern(n, i), 1, i)
			continue
		}
		ctx, cancel := context.WithCancel(mpitest.Context(t))
		g := newGuarded(n)
		_, err := mpicomm.RecvAlloc(ctx, comm, 0, i, func(mpicomm.Status) (mem.Buffer, error) {
			cancel()
			return mem.Of(g.buf), nil
		})
		if err == nil {
			requirePattern(t, g.buf, i)
			continue
		}
		require.ErrorIs(t, err, errCanceled)
		var flight *mpicomm.InFlightError
		require.False(t, errors.As(err, &flight), "MPI had not got the memory yet")
		g.requireIntact(t, 0)
		buf := make([]byte, n)
		require.Equal(t, n, recv(t, comm, buf, 0, i).Count)
		requirePattern(t, buf, i)
	}
}

// TestGivenBackMessage shows that a message that a RecvAlloc gave back goes to
// receives of every kind, and to probes, before later messages.
func TestGivenBackMessage(t *testing.T) {
	comm := mpitest.Pair(t)
	const n = 1000
	takers := []func(tag int) []byte{
		func(tag int) []byte { b := make([]byte, n); recv(t, comm, b, 0, tag); return b },
		func(int) []byte { b := make([]byte, n); recv(t, comm, b, mpicomm.AnySource, mpicomm.AnyTag); return b },
		func(tag int) []byte { b := make([]byte, n); wait(t, irecv(t, comm, b, 0, tag)); return b },
		func(tag int) []byte {
			m, found, err := comm.Improbe(0, tag)
			require.NoError(t, err)
			require.True(t, found)
			b := make([]byte, n)
			r, err := m.Imrecv(mem.Of(b))
			require.NoError(t, err)
			wait(t, r)
			return b
		},
		func(tag int) []byte {
			b, _, err := coro.RecvAlloc[byte](mpitest.Context(t), comm, 0, tag)
			require.NoError(t, err)
			return b
		},
	}
	for tag, take := range takers {
		if comm.Rank() == 0 {
			for i := range 3 {
				wait(t, isend(t, comm, pattern(n, i), 1, tag))
			}
			continue
		}
		for range 2 { // the first is given back, twice
			_, err := mpicomm.RecvAlloc(mpitest.Context(t), comm, 0, tag, func(mpicomm.Status) (mem.Buffer, error) {
				return mem.Buffer{}, fmt.Errorf("not now")
			})
			require.ErrorContains(t, err, "not now")
		}
		require.Equal(t, mpicomm.Status{Source: 0, Tag: tag, Count: n}, awaitMessage(t, comm, mpicomm.AnySource, tag))
		status, found, err := comm.Iprobe(0, mpicomm.AnyTag)
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, n, status.Count)
		for i := range 3 {
			awaitMessage(t, comm, 0, tag)
			requirePattern(t, take(tag), i)
		}
	}
}
