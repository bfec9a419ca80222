package mpicomm

import (
	"context"
	"slices"

	"github.com/mpi4go/mpi4go/internal/cmpi"
	"github.com/mpi4go/mpi4go/internal/progress"
)

// Alltoall sends the j-th of Size equal parts of send to rank j, and stores what
// comes from rank i as the i-th part of recv. All parts of all ranks are as long.
// The two may be the same slice.
//
// Errors: [ErrCount] if the lengths differ or are not a multiple of Size;
// [ErrBuffer] for buffers that overlap without being the same.
//
// Source: MPI_Ialltoall, MPI-4.1 6.12.6.
func Alltoall[T Reducible](ctx context.Context, c *Comm, send, recv []T) error {
	op, err := alltoallOp(c, send, recv)
	return suspend(ctx, op, err)
}

// Ialltoall starts an [Alltoall].
func Ialltoall[T Reducible](c *Comm, send, recv []T) (*Request, error) {
	return begin(alltoallOp(c, send, recv))
}

func alltoallOp[T Reducible](c *Comm, send, recv []T) (Op, error) {
	d := movedAs[T]()
	op := c.collective(cmpi.Alltoall, bufferOf(send), progress.Coll{Type: d.code, Size: d.size, Root: none, Recv: bufferOf(recv)})
	if c == nil {
		return op, nil
	}
	if len(send)%c.size != 0 {
		return op, op.fail(ErrCount, "send has %d elements, which is not a multiple of the %d ranks: use Alltoallv for parts that differ", len(send), c.size)
	}
	if err := op.checkCount("recv", len(recv), len(send)); err != nil {
		return op, err
	}
	op.Coll.Count = len(send) / c.size
	return op, op.place(op.Buf, op.Coll.Recv, 0, op.Buf.Len())
}

// Alltoallv is [Alltoall] of parts that differ: sendcounts[j] elements from
// sdispls[j] in send go to rank j, and recvcounts[i] from rank i are stored from
// rdispls[i] in recv. Displacements that are nil stand for parts one after the
// other. What a rank sends to another is as long as the other expects. The
// two may be the same slice if their counts and displacements are, too.
//
// Errors: those of [Alltoall]; [ErrCount] if a part does not lie within its
// buffer, or a count is too large for this MPI.
//
// Source: MPI_Ialltoallv, MPI-4.1 6.12.6.
func Alltoallv[T Reducible](ctx context.Context, c *Comm, send []T, sendcounts, sdispls []int, recv []T, recvcounts, rdispls []int) error {
	op, err := alltoallvOp(c, send, sendcounts, sdispls, recv, recvcounts, rdispls)
	return suspend(ctx, op, err)
}

// Ialltoallv starts an [Alltoallv]. The counts and displacements are copied.
func Ialltoallv[T Reducible](c *Comm, send []T, sendcounts, sdispls []int, recv []T, recvcounts, rdispls []int) (*Request, error) {
	return begin(alltoallvOp(c, send, sendcounts, sdispls, recv, recvcounts, rdispls))
}

func alltoallvOp[T Reducible](c *Comm, send []T, sendcounts, sdispls []int, recv []T, recvcounts, rdispls []int) (Op, error) {
	d := movedAs[T]()
	op := c.collective(cmpi.Alltoallv, bufferOf(send), progress.Coll{Type: d.code, Size: d.size, Root: none, Recv: bufferOf(recv)})
	if c == nil {
		return op, nil
	}
	from, err := op.blocks("send", len(send), sendcounts, sdispls)
	if err != nil {
		return op, err
	}
	to, err := op.blocks("recv", len(recv), recvcounts, rdispls)
	if err != nil {
		return op, err
	}
	if err := op.checkCount("the part of recv that is for this rank itself", to.counts[c.rank], from.counts[c.rank]); err != nil {
		return op, err
	}
	if err := op.widen(from, to); err != nil {
		return op, err
	}
	op.Coll.SendCounts, op.Coll.SDispls = op.ints(from.counts), op.ints(from.displs)
	op.Coll.RecvCounts, op.Coll.RDispls = op.ints(to.counts), op.ints(to.displs)
	if err := op.place(op.Buf, op.Coll.Recv, 0, op.Coll.Recv.Len()); err != nil {
		return op, err
	}
	if op.Coll.InPlace && !(slices.Equal(from.counts, to.counts) && slices.Equal(from.displs, to.displs)) {
		return op, op.fail(ErrBuffer, "send and recv are the same slice, but their counts or displacements differ (MPI-4.1 6.8)")
	}
	return op, nil
}
