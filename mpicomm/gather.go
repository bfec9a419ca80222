package mpicomm

import (
	"context"

	"github.com/mpi4go/mpi4go/internal/cmpi"
	"github.com/mpi4go/mpi4go/internal/progress"
)

// Gather collects the elements of all ranks on the root: those of rank i are
// from i*len(send) in recv. All ranks send as many; elsewhere recv has no meaning
// and may be nil. On the root send may be its own part of recv.
//
// Errors: [ErrRoot]; [ErrCount] if recv does not have Size times as many elements
// as send; [ErrBuffer] for buffers that overlap in another way.
//
// Source: MPI_Igather, MPI-4.1 6.12.3.
func Gather[T Reducible](ctx context.Context, c *Comm, send, recv []T, root int) error {
	op, err := gatherOp(c, cmpi.Gather, send, recv, root)
	return suspend(ctx, op, err)
}

// Igather starts a [Gather].
func Igather[T Reducible](c *Comm, send, recv []T, root int) (*Request, error) {
	return begin(gatherOp(c, cmpi.Gather, send, recv, root))
}

// Allgather is [Gather] with the result on every rank.
//
// Source: MPI_Iallgather, MPI-4.1 6.12.5.
func Allgather[T Reducible](ctx context.Context, c *Comm, send, recv []T) error {
	op, err := gatherOp(c, cmpi.Allgather, send, recv, none)
	return suspend(ctx, op, err)
}

// Iallgather starts an [Allgather].
func Iallgather[T Reducible](c *Comm, send, recv []T) (*Request, error) {
	return begin(gatherOp(c, cmpi.Allgather, send, recv, none))
}

func gatherOp[T Reducible](c *Comm, kind uint8, send, recv []T, root int) (Op, error) {
	d := movedAs[T]()
	op := c.collective(kind, bufferOf(send), progress.Coll{Type: d.code, Size: d.size, Count: len(send), Root: int32(root)})
	if c == nil {
		return op, nil
	}
	if root != none {
		if err := op.checkRoot(); err != nil {
			return op, err
		}
		if !op.isRoot() {
			return op, nil
		}
	}
	if err := op.checkCount("recv", len(recv), len(send)*c.size); err != nil {
		return op, err
	}
	op.Coll.Recv = bufferOf(recv)
	n := op.Buf.Len()
	return op, op.place(op.Buf, op.Coll.Recv, c.rank*n, n)
}

// Gatherv is [Gather] of a different number of elements from each rank: on the
// root, counts[i] of them come from rank i and are stored in recv from displs[i],
// or, if displs is nil, one after the other. The blocks must not overlap.
// Elsewhere recv, counts and displs have no meaning.
//
// Errors: those of [Gather]; [ErrCount] if a block does not lie within recv, or the
// root's own count is not len(send), or a count is too large for this MPI.
//
// Source: MPI_Igatherv, MPI-4.1 6.12.3.
func Gatherv[T Reducible](ctx context.Context, c *Comm, send, recv []T, counts, displs []int, root int) error {
	op, err := gathervOp(c, cmpi.Gatherv, send, recv, counts, displs, root)
	return suspend(ctx, op, err)
}

// Igatherv starts a [Gatherv]. The counts and displacements are copied.
func Igatherv[T Reducible](c *Comm, send, recv []T, counts, displs []int, root int) (*Request, error) {
	return begin(gathervOp(c, cmpi.Gatherv, send, recv, counts, displs, root))
}

// Allgatherv is [Gatherv] with the result on every rank, all of which give the
// same counts.
//
// Source: MPI_Iallgatherv, MPI-4.1 6.12.5.
func Allgatherv[T Reducible](ctx context.Context, c *Comm, send, recv []T, counts, displs []int) error {
	op, err := gathervOp(c, cmpi.Allgatherv, send, recv, counts, displs, none)
	return suspend(ctx, op, err)
}

// Iallgatherv starts an [Allgatherv]. The counts and displacements are copied.
func Iallgatherv[T Reducible](c *Comm, send, recv []T, counts, displs []int) (*Request, error) {
	return begin(gathervOp(c, cmpi.Allgatherv, send, recv, counts, displs, none))
}

func gathervOp[T Reducible](c *Comm, kind uint8, send, recv []T, counts, displs []int, root int) (Op, error) {
	d := movedAs[T]()
	op := c.collective(kind, bufferOf(send), progress.Coll{Type: d.code, Size: d.size, Count: len(send), Root: int32(root)})
	if c == nil {
		return op, nil
	}
	if root != none {
		if err := op.checkRoot(); err != nil {
			return op, err
		}
		if !op.isRoot() {
			return op, op.widen(blocks{counts: []int{len(send)}, displs: []int{0}})
		}
	}
	b, err := op.blocks("recv", len(recv), counts, displs)
	if err != nil {
		return op, err
	}
	if err := op.checkCount("send", len(send), b.counts[c.rank]); err != nil {
		return op, err
	}
	op.Coll.Recv = bufferOf(recv)
	if err := op.widen(b); err != nil {
		return op, err
	}
	op.Coll.RecvCounts, op.Coll.RDispls = op.ints(b.counts), op.ints(b.displs)
	return op, op.place(op.Buf, op.Coll.Recv, b.displs[c.rank]*d.size, b.counts[c.rank]*d.size)
}
