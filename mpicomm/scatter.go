package mpicomm

import (
	"context"

	"github.com/mpi4go/mpi4go/internal/cmpi"
	"github.com/mpi4go/mpi4go/internal/progress"
)

// Scatter deals out the elements of the root: rank i receives len(recv) of them,
// those from i*len(recv) in send. All ranks receive as many; elsewhere send has no
// meaning and may be nil. On the root recv may be its own part of send.
//
// Errors: [ErrRoot]; [ErrCount] if send does not have Size times as many elements
// as recv; [ErrBuffer] for buffers that overlap in another way.
//
// Source: MPI_Iscatter, MPI-4.1 6.12.4.
func Scatter[T Reducible](ctx context.Context, c *Comm, send, recv []T, root int) error {
	op, err := scatterOp(c, send, recv, root)
	return suspend(ctx, op, err)
}

// Iscatter starts a [Scatter].
func Iscatter[T Reducible](c *Comm, send, recv []T, root int) (*Request, error) {
	return begin(scatterOp(c, send, recv, root))
}

func scatterOp[T Reducible](c *Comm, send, recv []T, root int) (Op, error) {
	d := movedAs[T]()
	op := c.collective(cmpi.Scatter, bufferOf(send[:0]), progress.Coll{Type: d.code, Size: d.size, Count: len(recv), Root: int32(root), Recv: bufferOf(recv)})
	if err := op.checkRoot(); err != nil || !op.isRoot() {
		return op, err
	}
	if err := op.checkCount("send", len(send), len(recv)*c.size); err != nil {
		return op, err
	}
	op.Buf = bufferOf(send)
	n := op.Coll.Recv.Len()
	return op, op.place(op.Coll.Recv, op.Buf, c.rank*n, n)
}

// Scatterv is [Scatter] of a different number of elements to each rank: on the
// root, counts[i] of them, from displs[i] in send, or, if displs is nil, one block
// after the other, go to rank i. Elsewhere send, counts and displs have no meaning.
//
// Errors: those of [Scatter]; [ErrCount] if a block does not lie within send, or
// the root's own count is not len(recv), or a count is too large for this MPI.
//
// Source: MPI_Iscatterv, MPI-4.1 6.12.4.
func Scatterv[T Reducible](ctx context.Context, c *Comm, send []T, counts, displs []int, recv []T, root int) error {
	op, err := scattervOp(c, send, counts, displs, recv, root)
	return suspend(ctx, op, err)
}

// Iscatterv starts a [Scatterv]. The counts and displacements are copied.
func Iscatterv[T Reducible](c *Comm, send []T, counts, displs []int, recv []T, root int) (*Request, error) {
	return begin(scattervOp(c, send, counts, displs, recv, root))
}

func scattervOp[T Reducible](c *Comm, send []T, counts, displs []int, recv []T, root int) (Op, error) {
	d := movedAs[T]()
	op := c.collective(cmpi.Scatterv, bufferOf(send[:0]), progress.Coll{Type: d.code, Size: d.size, Count: len(recv), Root: int32(root), Recv: bufferOf(recv)})
	if c == nil {
		return op, nil
	}
	if err := op.checkRoot(); err != nil {
		return op, err
	}
	if !op.isRoot() {
		return op, op.widen(blocks{counts: []int{len(recv)}, displs: []int{0}})
	}
	b, err := op.blocks("send", len(send), counts, displs)
	if err != nil {
		return op, err
	}
	if err := op.checkCount("recv", len(recv), b.counts[c.rank]); err != nil {
		return op, err
	}
	op.Buf = bufferOf(send)
	if err := op.widen(b); err != nil {
		return op, err
	}
	op.Coll.SendCounts, op.Coll.SDispls = op.ints(b.counts), op.ints(b.displs)
	return op, op.place(op.Coll.Recv, op.Buf, b.displs[c.rank]*d.size, b.counts[c.rank]*d.size)
}
