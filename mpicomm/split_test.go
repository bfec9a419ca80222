package mpicomm_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/stretchr/testify/require"
)

// requireRanks shows that a communicator consists of the given ranks of the
// world, in their order.
func requireRanks(t *testing.T, c *mpicomm.Comm, world *mpicomm.Comm, ranks ...int) {
	t.Helper()
	require.NotNil(t, c)
	require.Equal(t, len(ranks), c.Size())
	require.Equal(t, world.Rank(), ranks[c.Rank()])
	got := make([]int, len(ranks))
	require.NoError(t, mpicomm.Allgather(mpitest.Context(t), c, []int{world.Rank()}, got))
	require.Equal(t, ranks, got)
}

// from counts the numbers from first to below end in steps.
func from(first, end, step int) (s []int) {
	for i := first; i < end; i += step {
		s = append(s, i)
	}
	return s
}

func TestSplit(t *testing.T) {
	c := mpitest.Comm(t)
	ctx, rank, size := mpitest.Context(t), c.Rank(), c.Size()

	half, err := c.Split(ctx, rank%2, rank)
	require.NoError(t, err)
	requireRanks(t, half, c, from(rank%2, size, 2)...)

	backwards, err := c.Split(ctx, 0, -rank)
	require.NoError(t, err)
	require.Equal(t, size-1-rank, backwards.Rank())

	color := 5
	if rank == 0 {
		color = mpicomm.Undefined
	}
	others, err := c.Split(ctx, color, 0)
	require.NoError(t, err)
	if rank == 0 {
		require.Nil(t, others)
	} else {
		requireRanks(t, others, c, from(1, size, 1)...)
	}
	_, err = c.Split(ctx, -3, 0)
	require.ErrorIs(t, err, mpicomm.ErrArg)
	_, err = (*mpicomm.Comm)(nil).Split(ctx, 0, 0)
	require.ErrorIs(t, err, mpicomm.ErrComm)

	// Messages of different communicators are never mixed up.
	next, previous := (half.Rank()+1)%half.Size(), (half.Rank()+half.Size()-1)%half.Size()
	buf, other := make([]byte, 8), make([]byte, 8)
	r := irecv(t, half, buf, previous, 7)
	worldNext, worldPrevious := ring(c)
	w := irecv(t, c, other, worldPrevious, 7)
	send(t, c, numbered(8, 1), worldNext, 7)
	send(t, half, numbered(8, 2), next, 7)
	wait(t, r)
	wait(t, w)
	require.Equal(t, 2, number(buf))
	require.Equal(t, 1, number(other))
}

func TestSplitShared(t *testing.T) {
	c := mpitest.Comm(t)
	shared, err := c.SplitShared(mpitest.Context(t))
	require.NoError(t, err)
	info, err := mpicomm.Info()
	require.NoError(t, err)
	require.Equal(t, info.LocalSize, shared.Size())
	require.Equal(t, info.LocalRank, shared.Rank())
}

func TestCreate(t *testing.T) {
	c := mpitest.Comm(t)
	ctx, size := mpitest.Context(t), c.Size()
	reversed := make([]int, size)
	for i := range reversed {
		reversed[i] = size - 1 - i
	}
	all, err := c.Create(ctx, reversed)
	require.NoError(t, err)
	requireRanks(t, all, c, reversed...)
	last, err := c.Create(ctx, []int{size - 1})
	require.NoError(t, err)
	if c.Rank() == size-1 {
		requireRanks(t, last, c, size-1)
	} else {
		require.Nil(t, last)
	}
	for _, wrong := range []struct {
		ranks []int
		class error
		text  string
	}{
		{nil, mpicomm.ErrGroup, "empty"},
		{[]int{size}, mpicomm.ErrRank, fmt.Sprintf("ranks 0 to %d", size-1)},
		{[]int{-1}, mpicomm.ErrRank, "rank -1"},
		{[]int{0, 0}, mpicomm.ErrRank, "rank 0 is listed twice"},
	} {
		_, err := c.Create(ctx, wrong.ranks)
		require.ErrorIs(t, err, wrong.class)
		require.ErrorContains(t, err, wrong.text)
	}
}

// TestFree makes and frees more communicators than MPI can hold at a time.
func TestFree(t *testing.T) {
	c := mpitest.Comm(t)
	ctx := mpitest.Context(t)
	for i := range 3000 {
		made, err := c.Dup(ctx)
		require.NoError(t, err, "the %d-th", i)
		require.NoError(t, made.Free(ctx))
		if i == 0 {
			_, err := made.Isend(mem.Of(make([]byte, 8)), 0, 1)
			require.ErrorIs(t, err, mpicomm.ErrComm)
			require.ErrorContains(t, err, "freed")
			require.ErrorIs(t, made.Free(ctx), mpicomm.ErrComm)
			_, err = made.Split(ctx, 0, 0)
			require.ErrorIs(t, err, mpicomm.ErrComm)
		}
	}
	require.ErrorIs(t, mpicomm.World().Free(ctx), mpicomm.ErrComm)
	require.ErrorContains(t, mpicomm.World().Free(ctx), "belongs to the library")
	made, err := c.Dup(ctx)
	require.NoError(t, err)
	r := irecv(t, made, make([]byte, 8), mpicomm.AnySource, 3)
	require.ErrorIs(t, made.Free(ctx), mpicomm.ErrPending)
	require.ErrorContains(t, made.Free(ctx), "1 operations are in flight")
	require.NoError(t, r.Cancel())
	_, err = r.Wait(ctx)
	require.ErrorIs(t, err, errCanceled)
	require.NoError(t, made.Free(ctx))
}

// TestSplitWaits shows that a Split waits for the other ranks without holding up
// the messages of this one, and what happens when its context ends.
func TestSplitWaits(t *testing.T) {
	c := mpitest.Pair(t)
	peer := 1 - c.Rank()
	if c.Rank() == 1 {
		for i := range 50 {
			recv(t, c, make([]byte, 300), peer, 1)
			send(t, c, pattern(300, i), peer, 1)
		}
		await(t, c, 0, 2)
		_, err := c.Split(mpitest.Context(t), 0, 0) // with that of rank 0 that was given up
		require.NoError(t, err)
		second, err := c.Split(mpitest.Context(t), 0, 0)
		require.NoError(t, err)
		requireRanks(t, second, c, 0, 1)
		return
	}
	ctx, cancel := context.WithCancel(mpitest.Context(t))
	made := make(chan error, 1)
	go func() {
		_, err := c.Split(ctx, 0, 0)
		made <- err
	}()
	for i := range 50 {
		send(t, c, pattern(300, i), peer, 1)
		recv(t, c, make([]byte, 300), peer, 1)
	}
	select {
	case err := <-made:
		t.Fatal("the other rank has not called Split yet", err)
	case <-time.After(10 * time.Millisecond):
	}
	cancel()
	err := <-made
	inFlight(t, err)
	queued, give := context.WithTimeout(mpitest.Context(t), 10*time.Millisecond)
	defer give()
	_, err = c.Split(queued, 0, 0)
	require.ErrorIs(t, err, errTimeout)
	require.ErrorContains(t, err, "waiting for another goroutine")
	signal(t, c, peer, 2)
	second, err := c.Split(mpitest.Context(t), 0, 0)
	require.NoError(t, err)
	requireRanks(t, second, c, 0, 1)
}

func TestNames(t *testing.T) {
	c := mpitest.Comm(t)
	ctx := mpitest.Context(t)
	require.Equal(t, "world.dup", c.Name())
	half, err := c.Split(ctx, 0, 0)
	require.NoError(t, err)
	require.Equal(t, "world.dup.split", half.Name())
	for _, name := range []string{"", "ocean", strings.Repeat("long", 100)} {
		require.NoError(t, half.SetName(name))
		require.Equal(t, name, half.Name())
		require.True(t, strings.HasPrefix(half.String(), name+"("))
		seen, err := mpicomm.NameInMPI(half)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(name, seen), "%q", seen)
		require.Equal(t, len(name) > 0, len(seen) > 0)
	}
}

// TestFortran takes a communicator through its Fortran handle.
func TestFortran(t *testing.T) {
	c := mpitest.Comm(t)
	ctx := mpitest.Context(t)
	backwards, err := c.Split(ctx, 0, -c.Rank())
	require.NoError(t, err)
	handle, err := backwards.Fortran()
	require.NoError(t, err)
	same, err := mpicomm.FromFortran(handle)
	require.NoError(t, err)
	require.Equal(t, backwards.Rank(), same.Rank())
	require.Equal(t, backwards.Size(), same.Size())
	sum := make([]int, 1)
	require.NoError(t, mpicomm.Allreduce(ctx, same, []int{1}, sum, mpicomm.Sum))
	require.Equal(t, c.Size(), sum[0])
	buf := make([]byte, 8)
	r := irecv(t, backwards, buf, mpicomm.AnySource, 5)
	send(t, same, numbered(8, 77), (same.Rank()+1)%same.Size(), 5)
	wait(t, r)
	require.Equal(t, 77, number(buf))
	_, err = mpicomm.FromFortran(123456)
	require.ErrorIs(t, err, mpicomm.ErrComm)
}
