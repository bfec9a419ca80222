package mpicomm

import (
	"fmt"
	"math"
	"slices"

	"github.com/mpi4go/mpi4go/internal/cmpi"
	"github.com/mpi4go/mpi4go/internal/progress"
	"github.com/mpi4go/mpi4go/mem"
)

// Op describes an operation that is not started yet, for [Post], [Do] and
// [DoAll]. It is made by methods of [Comm] and may be used any number of times.
type Op struct {
	comm *Comm
	progress.Spec
}

// op describes an operation; without a communicator it will not pass check.
func (c *Comm) op(kind uint8, buf mem.Buffer, peer, tag int) Op {
	op := Op{c, progress.Spec{Kind: kind, Peer: peer, Tag: tag, Buf: buf}}
	if c != nil {
		op.Comm, op.Peers = c.handle, c.peers
	}
	return op
}

// SendOp describes a standard send (MPI_Isend, MPI-4.1 3.7.2).
func (c *Comm) SendOp(buf mem.Buffer, dest, tag int) Op {
	return c.op(cmpi.Send, buf, dest, tag)
}

// SsendOp describes a synchronous send (MPI_Issend, MPI-4.1 3.7.2): it is
// complete only when a receive has matched it.
func (c *Comm) SsendOp(buf mem.Buffer, dest, tag int) Op {
	return c.op(cmpi.Ssend, buf, dest, tag)
}

// RecvOp describes a receive (MPI_Irecv, MPI-4.1 3.7.2). The source may be
// AnySource, the tag AnyTag.
func (c *Comm) RecvOp(buf mem.Buffer, source, tag int) Op {
	return c.op(cmpi.Recv, buf, source, tag)
}

// SendPartsOp describes a standard send of several buffers as one message, with
// their bytes one after the other and no copy made of them: MPI gathers them
// itself. Any receive of as many bytes takes it. A part has at most 2^31-1 bytes; the
// slice of parts must not change until the operation is done.
//
// Source: MPI_Isend of a datatype of MPI_Type_create_hindexed, MPI-4.1 5.1.2.
func (c *Comm) SendPartsOp(parts []mem.Buffer, dest, tag int) Op {
	op := c.op(cmpi.Send, mem.Buffer{}, dest, tag)
	op.Parts = progress.NewParts(parts)
	return op
}

// RecvPartsOp describes a receive of one message into several buffers, which it
// fills one after the other. The message must not be longer than all of them
// together: a length that is not known beforehand needs [Comm.RecvOp].
//
// Source: MPI_Irecv with a datatype of MPI_Type_create_hindexed, MPI-4.1 5.1.2.
func (c *Comm) RecvPartsOp(parts []mem.Buffer, source, tag int) Op {
	op := c.op(cmpi.Recv, mem.Buffer{}, source, tag)
	op.Parts, op.Fits = progress.NewParts(parts), true
	return op
}

// check finds the mistakes that can be seen without MPI.
func (op *Op) check() (*process, error) {
	if c := op.comm; c != nil && op.Parts == nil && c.ready() && uint(op.Peer) < uint(c.size) && uint(op.Tag) <= uint(c.tagUB) {
		return c.p, nil
	}
	p, err := op.comm.usable(op.Kind)
	if err != nil {
		return nil, err
	}
	return p, op.explain(p, kindNames[op.Kind])
}

// explain says what is wrong with the arguments of an operation; nil if nothing
// is.
func (op *Op) explain(p *process, name string) error {
	if op.Coll != nil {
		return nil // checked where it was described
	}
	receives := op.Kind != cmpi.Send && op.Kind != cmpi.Ssend
	fail := func(class Class, format string, a ...any) error {
		return &Error{Op: name, Class: class, Peer: op.Peer, Tag: op.Tag, Text: fmt.Sprintf(format, a...)}
	}
	switch {
	case op.Peer == ProcNull || receives && op.Peer == AnySource:
	case op.Peer == AnySource:
		return fail(ErrRank, "AnySource is for receives; a send needs a rank from 0 to %d (MPI-4.1 3.2.3)", op.comm.size-1)
	case op.Peer < 0 || op.Peer >= op.comm.size:
		return fail(ErrRank, "the communicator has the ranks 0 to %d (MPI-4.1 3.2.3)", op.comm.size-1)
	}
	switch {
	case receives && op.Tag == AnyTag:
	case op.Tag == AnyTag:
		return fail(ErrTag, "AnyTag is for receives; a send needs a tag from 0 to %d (MPI-4.1 3.2.3)", p.start.TagUB)
	case op.Tag < 0 || op.Tag > p.start.TagUB:
		return fail(ErrTag, "this MPI has the tags 0 to %d (MPI_TAG_UB, MPI-4.1 9.1.2)", p.start.TagUB)
	}
	if op.Parts != nil {
		for i, part := range op.Parts.Buffers {
			if part.Len() > math.MaxInt32 {
				return fail(ErrCount, "part %d has %d bytes; a part has at most 2^31-1: send it as a message of its own", i, part.Len())
			}
			if part.Kind() == mem.Device {
				return fmt.Errorf("%s: part %d is device memory: send it as a message of its own, or all parts with coro.SendMessage: %w", name, i, errUnsupported)
			}
		}
	}
	return nil
}

// Isend starts a standard send of the buffer to a rank. The buffer belongs to
// the request until that is done; one of up to 256 bytes is copied and free
// again on return, unless it is device memory.
//
// Errors: the rank or tag is out of range ([ErrRank], [ErrTag]), or an earlier
// send on this communicator failed after it was complete for its caller. Errors
// of MPI, and of a device, come with the request. Device memory that has to be staged and
// is longer than Config.StagingLimit is an error of class [ErrNoMem].
//
// Source: MPI_Isend, MPI-4.1 3.7.2.
func (c *Comm) Isend(buf mem.Buffer, dest, tag int) (*Request, error) {
	return post(c.SendOp(buf, dest, tag))
}

// Issend is Isend in synchronous mode: it is done only when the receive has
// started. Errors and ownership of the buffer are those of [Comm.Isend].
//
// Source: MPI_Issend, MPI-4.1 3.7.2.
func (c *Comm) Issend(buf mem.Buffer, dest, tag int) (*Request, error) {
	return post(c.SsendOp(buf, dest, tag))
}

// Irecv starts to receive a message into the buffer from a rank, or AnySource,
// with a tag, or AnyTag. The buffer belongs to the request until that is done.
// A message shorter than the buffer leaves the rest of it alone. One that is
// longer is consumed and fails with [ErrTruncate]; the buffer then holds
// anything, but nothing past its end was written.
//
// Errors: as for [Comm.Isend].
//
// Source: MPI_Irecv, MPI-4.1 3.7.2.
func (c *Comm) Irecv(buf mem.Buffer, source, tag int) (*Request, error) {
	return post(c.RecvOp(buf, source, tag))
}

// post starts one operation.
func post(op Op) (*Request, error) {
	p, err := op.check()
	if err != nil {
		return nil, err
	}
	if op.special() {
		c, err := p.carry(&op)
		if err != nil {
			return nil, err
		}
		if c != nil {
			r, queued := c.begin()
			if queued {
				return op.comm.sent, nil
			}
			r.watch()
			return r, nil
		}
	}
	if op.Kind == cmpi.Send && p.engine.SendShort(op.comm.sends, &op.Spec) {
		return op.comm.sent, nil
	}
	r := &Request{comm: op.comm}
	p.engine.Start(&r.op, &op.Spec)
	r.watch()
	return r, nil
}

// Post starts several operations as one set: in one call into MPI, in their
// order, and with one Request that is done when all of them are. None is
// started if any of them is in error. Request.Statuses tells the status of
// each; the error of the request is the first of theirs.
//
// The buffers belong to the request until it is done. Errors: as for
// [Comm.Isend]; a set without operations is an error of class [ErrCount].
func Post(ops ...Op) (*Request, error) {
	p, err := checkAll(ops)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(ops, func(op Op) bool { return op.special() }) {
		r, err := p.postSpecial(slices.Clone(ops))
		if r != nil {
			r.watch()
		}
		if r != nil || err != nil {
			return r, err
		}
	}
	r := &Request{comm: ops[0].comm}
	r.initSet(p, ops)
	p.engine.Begin(&r.op)
	r.watch()
	return r, nil
}

// checkAll finds the mistakes in a set.
func checkAll(ops []Op) (p *process, err error) {
	for i := range ops {
		if p, err = ops[i].check(); err != nil {
			return nil, fmt.Errorf("operation %d of %d: %w", i, len(ops), err)
		}
	}
	if p == nil {
		return nil, &Error{Op: "post", Class: ErrCount, Peer: none, Tag: none, Text: "a set needs at least one operation"}
	}
	return p, nil
}
