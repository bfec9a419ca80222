package mpicomm_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/stretchr/testify/require"
)

func TestWorld(t *testing.T) {
	mpitest.NeedRanks(t, 1)
	world := mpicomm.World()
	require.Same(t, world, mpicomm.World())
	info, err := mpicomm.Info()
	require.NoError(t, err)
	require.Equal(t, info.Rank, world.Rank())
	require.Equal(t, info.Size, world.Size())
	require.Equal(t, info.LocalRank, world.LocalRank())
	require.Equal(t, fmt.Sprintf("world(%d of %d)", world.Rank(), world.Size()), world.String())
	require.True(t, mpicomm.Initialized())
}

func TestDup(t *testing.T) {
	comm := mpitest.Comm(t)
	ctx := mpitest.Context(t)
	first, err := comm.Dup(ctx)
	require.NoError(t, err)
	second, err := first.Dup(ctx)
	require.NoError(t, err)
	all := []*mpicomm.Comm{comm, first, second}
	next, previous := ring(comm)
	var requests []*mpicomm.Request
	bufs := make([][]byte, len(all))
	for i, c := range all {
		require.Equal(t, comm.Rank(), c.Rank())
		require.Equal(t, comm.Size(), c.Size())
		bufs[i] = make([]byte, 8)
		requests = append(requests, irecv(t, c, bufs[i], mpicomm.AnySource, mpicomm.AnyTag))
	}
	require.True(t, strings.HasPrefix(second.String(), "world.dup.dup.dup("))
	for i := len(all) - 1; i >= 0; i-- { // in another order than they are received
		send(t, all[i], numbered(8, i), next, 7)
	}
	require.NoError(t, mpicomm.Waitall(ctx, requests...))
	for i := range all {
		require.Equal(t, i, number(bufs[i]), "messages of different communicators are never mixed up")
		require.Equal(t, previous, wait(t, requests[i]).Source)
	}
}

// TestDupIsCollective shows that a Dup waits for the other ranks without holding
// up the messages of this one.
func TestDupIsCollective(t *testing.T) {
	comm := mpitest.Pair(t)
	peer := 1 - comm.Rank()
	if comm.Rank() == 0 {
		made := make(chan error, 1)
		go func() {
			_, err := comm.Dup(mpitest.Context(t))
			made <- err
		}()
		for i := range 50 {
			send(t, comm, pattern(300, i), peer, 1)
			recv(t, comm, make([]byte, 300), peer, 1)
		}
		select {
		case <-made:
			t.Fatal("the other rank has not called Dup yet")
		default:
		}
		signal(t, comm, peer, 2)
		require.NoError(t, <-made)
		return
	}
	buf := make([]byte, 300)
	for i := range 50 {
		recv(t, comm, buf, peer, 1)
		requirePattern(t, buf, i)
		send(t, comm, buf, peer, 1)
	}
	await(t, comm, peer, 2)
	_, err := comm.Dup(mpitest.Context(t))
	require.NoError(t, err)
}

// TestCancelledDup shows that a Dup whose context ends says that it is still
// going on.
func TestCancelledDup(t *testing.T) {
	comm := mpitest.Pair(t)
	if comm.Rank() == 0 {
		_, err := comm.Dup(onceStarted(t, 1))
		require.ErrorIs(t, err, errCanceled)
		var flight *mpicomm.InFlightError
		require.ErrorAs(t, err, &flight)
		signal(t, comm, 1, 1)
		wait(t, flight.Request)
		return
	}
	await(t, comm, 0, 1)
	_, err := comm.Dup(mpitest.Context(t))
	require.NoError(t, err)
}

// TestApplicationsWildcards shows that what the library sends for itself, and
// what is sent on other communicators, is never taken by receives of the
// application on the world, and that nothing of the application's is taken.
func TestApplicationsWildcards(t *testing.T) {
	mpitest.NeedRanks(t, 1)
	world := mpicomm.World()
	next, previous := ring(world)
	long, short := make([]byte, 1000), make([]byte, 8)
	first := irecv(t, world, long, mpicomm.AnySource, mpicomm.AnyTag)
	second := irecv(t, world, short, mpicomm.AnySource, mpicomm.AnyTag)
	comm := mpitest.Comm(t)
	for i := range 3 {
		dup, err := comm.Dup(mpitest.Context(t))
		require.NoError(t, err)
		receiving := irecv(t, dup, make([]byte, 300), previous, i)
		sending := isend(t, dup, make([]byte, 300), next, i)
		require.NoError(t, mpicomm.Waitall(mpitest.Context(t), receiving, sending))
	}
	mpitest.Sync(t)
	for _, r := range []*mpicomm.Request{first, second} {
		_, done, err := r.Test()
		require.NoError(t, err)
		require.False(t, done, "nobody has sent on the world")
	}
	mpitest.Sync(t)
	send(t, world, numbered(500, 1), next, 77)
	send(t, world, numbered(8, 2), next, 78)
	require.Equal(t, mpicomm.Status{Source: previous, Tag: 77, Count: 500}, wait(t, first))
	require.Equal(t, mpicomm.Status{Source: previous, Tag: 78, Count: 8}, wait(t, second))
	require.Equal(t, 1, number(long))
	require.Equal(t, 2, number(short))
	_, found, err := world.Iprobe(mpicomm.AnySource, mpicomm.AnyTag)
	require.NoError(t, err)
	require.False(t, found, "the library leaves nothing on the world")
}

// TestExclusive makes other goroutines wait while a function may call MPI by
// itself.
func TestExclusive(t *testing.T) {
	comm := mpitest.Comm(t)
	next, previous := ring(comm)
	receiving := irecv(t, comm, make([]byte, 8), previous, 1)
	mpitest.Sync(t)
	entered, sent := false, make(chan struct{})
	require.NoError(t, mpicomm.Exclusive(func() {
		entered = true
		go func() {
			defer close(sent)
			_, _ = mpicomm.Do(mpitest.Context(t), comm.SendOp(mem.Of(make([]byte, 8)), next, 1))
		}()
		time.Sleep(time.Millisecond)
	}))
	require.True(t, entered)
	<-sent
	wait(t, receiving)
}
