package mpicomm

import (
	"errors"
	"fmt"

	"github.com/mpi4go/mpi4go/internal/cmpi"
	"github.com/mpi4go/mpi4go/mem"
)

// Op describes an operation that is not started yet, for [Post] and [Do]. It is
// made by methods of [Comm] and may be used any number of times.
type Op struct {
	comm      *Comm
	buf       mem.Buffer
	peer, tag int
	kind      uint8
}

// SendOp describes a standard send (MPI_Isend, MPI-4.1 3.7.2).
func (c *Comm) SendOp(buf mem.Buffer, dest, tag int) Op {
	return Op{c, buf, dest, tag, cmpi.Send}
}

// SsendOp describes a synchronous send (MPI_Issend, MPI-4.1 3.7.2): it is
// complete only when a receive has matched it.
func (c *Comm) SsendOp(buf mem.Buffer, dest, tag int) Op {
	return Op{c, buf, dest, tag, cmpi.Ssend}
}

// RecvOp describes a receive (MPI_Irecv, MPI-4.1 3.7.2). The source may be
// AnySource, the tag AnyTag.
func (c *Comm) RecvOp(buf mem.Buffer, source, tag int) Op {
	return Op{c, buf, source, tag, cmpi.Recv}
}

// check finds the mistakes that can be seen without MPI.
func (op *Op) check() (*process, error) {
	p, err := op.comm.usable(kindNames[op.kind])
	if err != nil {
		return nil, err
	}
	if uint(op.peer) < uint(op.comm.size) && uint(op.tag) <= uint(p.start.TagUB) && op.buf.Kind() != mem.Device {
		return p, nil
	}
	return p, op.explain(p)
}

// explain says what is wrong with the arguments; nil if nothing is.
func (op *Op) explain(p *process) error {
	receives := op.kind != cmpi.Send && op.kind != cmpi.Ssend
	fail := func(class Class, format string, a ...any) error {
		return &Error{Op: kindNames[op.kind], Class: class, Peer: op.peer, Tag: op.tag, Text: fmt.Sprintf(format, a...)}
	}
	switch {
	case op.peer == ProcNull || receives && op.peer == AnySource:
	case op.peer == AnySource:
		return fail(ErrRank, "AnySource is for receives; a send needs a rank from 0 to %d (MPI-4.1 3.2.3)", op.comm.size-1)
	case op.peer < 0 || op.peer >= op.comm.size:
		return fail(ErrRank, "the communicator has the ranks 0 to %d (MPI-4.1 3.2.3)", op.comm.size-1)
	}
	switch {
	case receives && op.tag == AnyTag:
	case op.tag == AnyTag:
		return fail(ErrTag, "AnyTag is for receives; a send needs a tag from 0 to %d (MPI-4.1 3.2.3)", p.start.TagUB)
	case op.tag < 0 || op.tag > p.start.TagUB:
		return fail(ErrTag, "this MPI has the tags 0 to %d (MPI_TAG_UB, MPI-4.1 9.1.2)", p.start.TagUB)
	}
	if op.buf.Kind() == mem.Device {
		return fmt.Errorf("%s: device memory: this version passes host memory only; copy it to the host: %w", kindNames[op.kind], errors.ErrUnsupported)
	}
	return nil
}

// Isend starts a standard send of the buffer to a rank. The buffer belongs to
// the request until that is done; one of up to 256 bytes is copied and free
// again on return.
//
// Errors: the rank or tag is out of range ([ErrRank], [ErrTag]), or an earlier
// send on this communicator failed after it was complete for its caller. Errors
// of MPI come with the request.
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
	r := new(Request)
	r.init(op.comm, op.kind, op.peer, op.tag, op.buf)
	p.engine.Start(&r.op)
	r.watch()
	return r, nil
}

// Post starts several operations as one set: in one call into MPI, in their
// order, so the first does not wait for the last. None is started if any of
// them is in error. Wait for them with [Waitall].
//
// The buffers belong to their requests until those are done. Errors: as for
// [Comm.Isend].
func Post(ops ...Op) ([]*Request, error) {
	if len(ops) == 0 {
		return nil, nil
	}
	var p *process
	var err error
	for i := range ops {
		if p, err = ops[i].check(); err != nil {
			return nil, fmt.Errorf("operation %d of %d: %w", i, len(ops), err)
		}
	}
	set := make([]Request, len(ops))
	requests := make([]*Request, len(ops))
	for i, op := range ops {
		set[i].init(op.comm, op.kind, op.peer, op.tag, op.buf)
		requests[i] = &set[i]
	}
	p.engine.StartSet(len(set), func(i int) *progressOp { return &set[i].op })
	for i := range set {
		set[i].watch()
	}
	return requests, nil
}
