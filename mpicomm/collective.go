package mpicomm

import (
	"context"
	"fmt"
	"math"

	"github.com/mpi4go/mpi4go/internal/cmpi"
	"github.com/mpi4go/mpi4go/internal/progress"
	"github.com/mpi4go/mpi4go/mem"
)

// Collective operations (MPI-4.1 chapter 6) involve every rank of a
// communicator. All ranks start the collectives of a communicator in the same
// order, blocking and non-blocking ones together, with the same root, operation
// and lengths; so start those of one communicator from one goroutine, or see to
// the order by other means. Different communicators do not matter to each other.
// Config.Debug checks the rule, at the price of one more message exchange for
// each operation.
//
// Every operation comes in two forms. The plain one suspends the goroutine and
// borrows its buffers until it returns. The one with an I starts the operation
// and returns a Request, to which the buffers belong until it is done. MPI
// cannot cancel a collective: when the context of a plain form ends, the error is
// an [*InFlightError], and the library keeps the buffers until its Request is
// done, which needs the other ranks.
//
// The buffers that an operation sends and receives must not overlap, with one
// exception: where a rank's own contribution lies where its result will, the
// operation works in place (MPI_IN_PLACE).
//
// Lengths are in elements, and not limited: broadcasts and reductions of more than
// 2^30 are made of several operations.

// Barrier waits until every rank of the communicator has called it.
//
// Source: MPI_Ibarrier, MPI-4.1 6.12.1.
func (c *Comm) Barrier(ctx context.Context) error {
	return suspend(ctx, c.collective(cmpi.Barrier, mem.Buffer{}, progress.Coll{Root: none}), nil)
}

// Ibarrier starts a [Comm.Barrier].
func (c *Comm) Ibarrier() (*Request, error) {
	return begin(c.collective(cmpi.Barrier, mem.Buffer{}, progress.Coll{Root: none}), nil)
}

// Bcast sends the buffer of the root to every other rank, whose buffers must be
// as long. It travels as MPI_BYTE.
//
// Errors: [ErrRoot]; [ErrTruncate] where MPI notices that lengths differ.
//
// Source: MPI_Ibcast, MPI-4.1 6.12.2.
func Bcast[D mem.Data](ctx context.Context, c *Comm, buf D, root int) error {
	op, err := bcastOp(c, mem.Of(buf), root)
	return suspend(ctx, op, err)
}

// Ibcast starts a [Bcast].
func Ibcast[D mem.Data](c *Comm, buf D, root int) (*Request, error) {
	return begin(bcastOp(c, mem.Of(buf), root))
}

func bcastOp(c *Comm, buf mem.Buffer, root int) (Op, error) {
	op := c.collective(cmpi.Bcast, buf, progress.Coll{Type: cmpi.Byte, Size: 1, Count: buf.Len(), Root: int32(root)})
	return op, op.checkRoot()
}

// collective describes a collective operation.
func (c *Comm) collective(kind uint8, buf mem.Buffer, coll progress.Coll) Op {
	op := c.op(kind, buf, none, none)
	op.Coll = &coll
	return op
}

// suspend carries out a collective operation that was described without error.
func suspend(ctx context.Context, op Op, err error) error {
	if err != nil {
		return err
	}
	if op.comm.checksOrder() {
		r, err := op.comm.beginChecked(op)
		if err != nil {
			return err
		}
		_, err = r.Wait(ctx)
		if !r.op.Done() {
			return r.inFlight(ctx)
		}
		return err
	}
	if pieces := op.pieces(); pieces != nil {
		_, err = DoAll(ctx, nil, pieces...)
	} else {
		_, err = Do(ctx, op)
	}
	return err
}

// begin starts a collective operation that was described without error.
func begin(op Op, err error) (*Request, error) {
	if err != nil {
		return nil, err
	}
	if op.comm.checksOrder() {
		return op.comm.beginChecked(op)
	}
	if pieces := op.pieces(); pieces != nil {
		return Post(pieces...)
	}
	return post(op)
}

// piece is the number of elements up to which a broadcast or a reduction is one
// operation.
var piece = 1 << 30

// pieces divides a broadcast or a reduction of more elements than an int counts;
// nil if it need not be.
func (op *Op) pieces() (ops []Op) {
	c := op.Coll
	switch op.Kind {
	case cmpi.Bcast, cmpi.Reduce, cmpi.Allreduce, cmpi.Scan, cmpi.Exscan:
	default:
		return nil
	}
	if c.Count <= piece {
		return nil
	}
	part := func(b mem.Buffer, from, to int) mem.Buffer {
		if b.Len() == 0 { // not significant on this rank
			return b
		}
		return b.Slice(from*c.Size, to*c.Size)
	}
	for from := 0; from < c.Count; from += piece {
		to := min(from+piece, c.Count)
		coll := *c
		coll.Count, coll.Recv = to-from, part(c.Recv, from, to)
		ops = append(ops, op.comm.collective(op.Kind, part(op.Buf, from, to), coll))
	}
	return ops
}

// ---- what can be wrong ----

func (op *Op) fail(class Class, format string, a ...any) error {
	return &Error{Op: kindNames[op.Kind], Class: class, Peer: none, Tag: none, Text: fmt.Sprintf(format, a...)}
}

func (op *Op) checkRoot() error {
	if op.comm != nil && uint(op.Coll.Root) >= uint(op.comm.size) {
		return op.fail(ErrRoot, "root %d: the communicator has the ranks 0 to %d", op.Coll.Root, op.comm.size-1)
	}
	return nil
}

// isRoot tells whether this rank is the root, on which both buffers matter.
func (op *Op) isRoot() bool { return op.comm != nil && int(op.Coll.Root) == op.comm.rank }

func (op *Op) checkCount(what string, got int, want int) error {
	if got != want {
		return op.fail(ErrCount, "%s has %d elements; want %d", what, got, want)
	}
	return nil
}

// place finds out whether a rank's own contribution lies where its result will,
// n bytes from at in the whole. Any other overlap is an error.
func (op *Op) place(part, whole mem.Buffer, at, n int) error {
	a, b := part.Addr(), whole.Addr()
	if part.Len() == 0 || whole.Len() == 0 || a+uintptr(part.Len()) <= b || b+uintptr(whole.Len()) <= a {
		return nil
	}
	if a != b+uintptr(at) || part.Len() != n {
		return op.fail(ErrBuffer, "the buffers overlap: give this rank's contribution and its result the same place, for an operation in place, or memory of their own (MPI-4.1 6.2.3)")
	}
	op.Coll.InPlace = true
	return nil
}

// blocks are what each rank sends or receives: counts and displacements in
// elements.
type blocks struct {
	counts, displs []int
}

// blocks checks an array of counts and one of displacements, nil for blocks
// that lie one after the other, against a buffer of n elements.
func (op *Op) blocks(what string, n int, counts, displs []int) (blocks, error) {
	size := op.comm.size
	if len(counts) != size || displs != nil && len(displs) != size {
		return blocks{}, op.fail(ErrCount, "%s: %d counts and %d displacements for %d ranks; want one for each, or no displacements for blocks one after the other",
			what, len(counts), len(displs), size)
	}
	if displs == nil {
		displs = make([]int, size)
		for i := 1; i < size; i++ {
			displs[i] = displs[i-1] + counts[i-1]
		}
	}
	for i, count := range counts {
		if count < 0 || displs[i] < 0 || displs[i] > n-count {
			return blocks{}, op.fail(ErrCount, "%s: the block of rank %d is %d elements from %d, and the buffer has %d", what, i, count, displs[i], n)
		}
	}
	return blocks{counts, displs}, nil
}

// widen finds out whether counts or displacements need more than an int of C,
// and whether this MPI has calls that take them.
func (op *Op) widen(all ...blocks) error {
	for _, b := range all {
		for i := range b.counts {
			op.Coll.Wide = op.Coll.Wide || b.counts[i] > math.MaxInt32 || b.displs[i] > math.MaxInt32
		}
	}
	if op.Coll.Wide && !op.comm.p.lib.Wide() {
		return op.fail(ErrCount, "counts and displacements above 2^31-1 elements need the calls of MPI 4 (MPI_Igatherv_c and the like); %s has none: use larger elements or several calls",
			op.comm.p.lib.ShortVersion())
	}
	return nil
}

// ints gives counts or displacements the form that MPI takes.
func (op *Op) ints(values []int) (a progress.Ints) {
	if op.Coll.Wide {
		a.Wide = make([]int64, len(values))
	} else {
		a.Narrow = make([]int32, len(values))
	}
	for i, v := range values {
		if op.Coll.Wide {
			a.Wide[i] = int64(v)
		} else {
			a.Narrow[i] = int32(v)
		}
	}
	return a
}
