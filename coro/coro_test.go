package coro_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/stretchr/testify/require"
)

// lengths of messages in elements.
var lengths = []int{0, 1, 31, 32, 33, 255, 256, 257, 511, 512, 513, 1 << 16, 1 << 17}

// numbers is a message whose every element depends on its place and the seed.
func numbers[T mem.Element](n, seed int) []T {
	s := make([]T, n)
	for i := range s {
		s[i] = T(0)
		for range (i + seed) % 100 {
			s[i]++
		}
	}
	return s
}

// TestSendRecv passes messages around a ring.
func TestSendRecv(t *testing.T) {
	comm := mpitest.Comm(t)
	next, previous := ring(comm)
	for i, n := range lengths {
		for way := range 4 {
			tag := i*4 + way
			err := coro.Run(mpitest.Context(t), func(g *coro.Group) error {
				g.Go(func(ctx context.Context) error {
					if way%2 == 0 {
						return coro.Send(ctx, comm, numbers[float64](n, comm.Rank()), next, tag)
					}
					return coro.Ssend(ctx, comm, numbers[float64](n, comm.Rank()), next, tag)
				})
				got := make([]float64, n)
				var status mpicomm.Status
				var err error
				if way < 2 {
					status, err = coro.Recv(g.Context(), comm, got, previous, tag)
				} else {
					got, status, err = coro.RecvAlloc[float64](g.Context(), comm, mpicomm.AnySource, tag)
				}
				if err != nil {
					return err
				}
				require.Equal(t, mpicomm.Status{Source: previous, Tag: tag, Count: 8 * n}, status)
				require.Equal(t, numbers[float64](n, previous), got)
				return nil
			})
			require.NoError(t, err)
		}
	}
}

// TestSendrecv exchanges messages of different lengths and types with both
// neighbours at once, without deadlock.
func TestSendrecv(t *testing.T) {
	comm := mpitest.Comm(t)
	next, previous := ring(comm)
	for i, n := range lengths {
		length := func(rank int) int { return n * (1 + rank%2) }
		got := make([]int32, length(previous)+10)
		status, err := coro.Sendrecv(mpitest.Context(t), comm,
			numbers[uint32](length(comm.Rank()), i), next, i, got, previous, i)
		require.NoError(t, err)
		require.Equal(t, mpicomm.Status{Source: previous, Tag: i, Count: 4 * length(previous)}, status)
		require.Equal(t, numbers[int32](length(previous), i), got[:length(previous)])
		require.Equal(t, make([]int32, 10), got[length(previous):])
	}
}

// TestSendrecvLarge has all ranks exchange 8 MiB at once.
func TestSendrecvLarge(t *testing.T) {
	comm := mpitest.Pair(t)
	const n = 1 << 20
	peer := 1 - comm.Rank()
	got := make([]int64, n)
	_, err := coro.Sendrecv(mpitest.Context(t), comm, numbers[int64](n, comm.Rank()), peer, 1, got, peer, 1)
	require.NoError(t, err)
	require.Equal(t, numbers[int64](n, peer), got)
}

// TestSendrecvErrors shows that the error is that of the half that failed.
func TestSendrecvErrors(t *testing.T) {
	comm := mpitest.Comm(t)
	next, previous := ring(comm)
	ctx := mpitest.Context(t)
	_, err := coro.Sendrecv(ctx, comm, []byte{1}, comm.Size(), 1, make([]byte, 1), previous, 1)
	require.ErrorIs(t, err, mpicomm.ErrRank)
	_, err = coro.Sendrecv(ctx, comm, []byte{1}, next, 1, make([]byte, 1), previous, -5)
	require.ErrorIs(t, err, mpicomm.ErrTag)
	for _, n := range []int{300, 100000} {
		_, err = coro.Sendrecv(ctx, comm, make([]byte, n), next, 1, make([]byte, n-1), previous, 1)
		require.ErrorIs(t, err, mpicomm.ErrTruncate)
	}
	got := make([]byte, 1)
	_, err = coro.Sendrecv(ctx, comm, []byte{7}, next, 1, got, previous, 1)
	require.NoError(t, err)
	require.Equal(t, []byte{7}, got)
}

// TestSendrecvWithNobody is half an exchange.
func TestSendrecvWithNobody(t *testing.T) {
	comm := mpitest.Comm(t)
	ctx := mpitest.Context(t)
	status, err := coro.Sendrecv(ctx, comm, []byte{1}, mpicomm.ProcNull, 1, make([]byte, 1), mpicomm.ProcNull, 1)
	require.NoError(t, err)
	require.Equal(t, mpicomm.ProcNull, status.Source)
}

// exchange passes a slice around a ring.
func exchange[S mem.Data](t *testing.T, comm *mpicomm.Comm, send, recv S) {
	t.Helper()
	next, previous := ring(comm)
	_, err := coro.Sendrecv(mpitest.Context(t), comm, send, next, 1, recv, previous, 1)
	require.NoError(t, err)
	require.Equal(t, send, recv)
}

// checkRecvAlloc receives elements of a type into a slice made for them.
func checkRecvAlloc[T mem.Element](t *testing.T, comm *mpicomm.Comm) {
	t.Helper()
	next, previous := ring(comm)
	for _, n := range []int{0, 1, 100, 1000} {
		err := coro.Run(mpitest.Context(t), func(g *coro.Group) error {
			g.Go(func(ctx context.Context) error {
				return coro.Send(ctx, comm, mem.OfSlice(numbers[T](n, 5)), next, 2)
			})
			made, _, err := coro.RecvAlloc[T](g.Context(), comm, previous, 2)
			require.NoError(t, err)
			require.Equal(t, numbers[T](n, 5), made)
			return nil
		})
		require.NoError(t, err)
	}
}

// TestEveryType sends elements of every type, in slices of named types too.
func TestEveryType(t *testing.T) {
	comm := mpitest.Comm(t)
	for _, n := range []int{0, 1, 100, 1000} {
		exchange(t, comm, numbers[int8](n, 3), make([]int8, n))
		exchange(t, comm, numbers[int16](n, 3), make([]int16, n))
		exchange(t, comm, numbers[int32](n, 3), make([]int32, n))
		exchange(t, comm, numbers[int64](n, 3), make([]int64, n))
		exchange(t, comm, numbers[int](n, 3), make([]int, n))
		exchange(t, comm, numbers[uint8](n, 3), make([]uint8, n))
		exchange(t, comm, numbers[uint16](n, 3), make([]uint16, n))
		exchange(t, comm, numbers[uint32](n, 3), make([]uint32, n))
		exchange(t, comm, numbers[uint64](n, 3), make([]uint64, n))
		exchange(t, comm, numbers[uint](n, 3), make([]uint, n))
		exchange(t, comm, numbers[float32](n, 3), make([]float32, n))
		exchange(t, comm, numbers[float64](n, 3), make([]float64, n))
		exchange(t, comm, numbers[complex64](n, 3), make([]complex64, n))
		exchange(t, comm, numbers[complex128](n, 3), make([]complex128, n))
		type row []float32
		exchange(t, comm, row(numbers[float32](n, 3)), make(row, n))
	}
	checkRecvAlloc[int8](t, comm)
	checkRecvAlloc[int16](t, comm)
	checkRecvAlloc[int32](t, comm)
	checkRecvAlloc[int64](t, comm)
	checkRecvAlloc[int](t, comm)
	checkRecvAlloc[uint8](t, comm)
	checkRecvAlloc[uint16](t, comm)
	checkRecvAlloc[uint32](t, comm)
	checkRecvAlloc[uint64](t, comm)
	checkRecvAlloc[uint](t, comm)
	checkRecvAlloc[float32](t, comm)
	checkRecvAlloc[float64](t, comm)
	checkRecvAlloc[complex64](t, comm)
	checkRecvAlloc[complex128](t, comm)
	type celsius float32
	checkRecvAlloc[celsius](t, comm)
}

// TestRecvAllocElements shows that a message that is no whole number of elements
// is an error, and left to the next receive that matches it.
func TestRecvAllocElements(t *testing.T) {
	comm := mpitest.Comm(t)
	next, previous := ring(comm)
	for _, n := range []int{1, 7, 255, 257, 100001} {
		err := coro.Run(mpitest.Context(t), func(g *coro.Group) error {
			g.Go(func(ctx context.Context) error { return coro.Send(ctx, comm, numbers[byte](n, 1), next, 1) })
			for range 2 {
				words, _, err := coro.RecvAlloc[int32](g.Context(), comm, previous, 1)
				require.ErrorIs(t, err, mpicomm.ErrType)
				require.ErrorContains(t, err, fmt.Sprintf("a message of %d bytes is no whole number of 4-byte elements", n))
				require.Empty(t, words)
			}
			bytes, status, err := coro.RecvAlloc[byte](g.Context(), comm, previous, 1)
			require.NoError(t, err)
			require.Equal(t, n, status.Count)
			require.Equal(t, numbers[byte](n, 1), bytes)
			return nil
		})
		require.NoError(t, err)
	}
}

// TestBuffer sends and receives a mem.Buffer.
func TestBuffer(t *testing.T) {
	comm := mpitest.Comm(t)
	next, previous := ring(comm)
	block, err := mem.Alloc(1000)
	require.NoError(t, err)
	defer func() { require.NoError(t, block.Free()) }()
	_, err = coro.Sendrecv(mpitest.Context(t), comm, mem.OfSlice(numbers[int16](400, 1)), next, 1, block.Buffer().Slice(100, 900), previous, 1)
	require.NoError(t, err)
	require.Equal(t, mem.Of(numbers[int16](400, 1)).Bytes(), block.Bytes()[100:900])
	require.Equal(t, make([]byte, 100), block.Bytes()[:100])
	require.Equal(t, make([]byte, 100), block.Bytes()[900:])
}

// TestEverybodyToEverybody has every rank exchange with all others at the same
// time, from a goroutine each.
func TestEverybodyToEverybody(t *testing.T) {
	comm := mpitest.Comm(t)
	err := coro.Run(mpitest.Context(t), func(g *coro.Group) error {
		for peer := range comm.Size() {
			g.Go(func(ctx context.Context) error {
				for i, n := range lengths[:len(lengths)-2] {
					got := make([]int32, n)
					if _, err := coro.Sendrecv(ctx, comm, numbers[int32](n, comm.Rank()), peer, i, got, peer, i); err != nil {
						return err
					}
					if want := numbers[int32](n, peer); fmt.Sprint(want) != fmt.Sprint(got) {
						return fmt.Errorf("peer %d, %d elements: wrong message", peer, n)
					}
				}
				return nil
			})
		}
		return nil
	})
	require.NoError(t, err)
}
