package mpicomm

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/mpi4go/mpi4go/internal/cmpi"
	"github.com/mpi4go/mpi4go/internal/progress"
	"github.com/mpi4go/mpi4go/mem"
)

// Message is a message that was matched and not received yet (MPI_Message).
// Receive it once, with Imrecv; until then it occupies memory of MPI.
type Message struct {
	comm   *Comm
	handle uint64
	status Status
	taken  atomic.Bool
}

// Status tells the message's source, tag and length in bytes.
func (m *Message) Status() Status { return m.status }

// Imrecv starts to receive the message. The buffer belongs to the request until
// that is done. If it is too short the request fails with [ErrTruncate]: as with
// [Comm.Irecv] the message is consumed, the buffer holds anything, and nothing
// past its end was written. A second Imrecv is an error of class
// [ErrRequest].
//
// Source: MPI_Imrecv, MPI-4.1 3.8.3.
func (m *Message) Imrecv(buf mem.Buffer) (*Request, error) {
	op := m.comm.op(cmpi.Imrecv, buf, m.status.Source, m.status.Tag)
	p, err := op.check()
	if err != nil {
		return nil, err
	}
	if m.taken.Swap(true) {
		return nil, &Error{Op: "imrecv", Class: ErrRequest, Peer: op.Peer, Tag: op.Tag, Text: "the message was received already"}
	}
	if !buf.Plain() {
		c, err := p.carry(&op)
		if err == nil && c != nil && !c.direct {
			err = c.checkLimit(m.status.Count)
		}
		if err != nil {
			m.taken.Store(false)
			return nil, fmt.Errorf("imrecv: %w", err)
		}
		if c != nil {
			c.held = m
			r := c.start()
			r.watch()
			return r, nil
		}
	}
	r := &Request{comm: m.comm}
	r.op.Init(p.engine, op.Spec)
	r.op.Matched(m.handle, int64(m.status.Count))
	p.engine.Begin(&r.op)
	r.watch()
	return r, nil
}

// Probe suspends the goroutine until there is a message from a rank, or
// AnySource, with a tag, or AnyTag, and returns its status. It does not reserve
// the message: another receive may take it first; use [Comm.Mprobe] if several
// goroutines receive. A context that ends gives its error.
//
// Source: MPI_Probe, MPI-4.1 3.8.1.
func (c *Comm) Probe(ctx context.Context, source, tag int) (Status, error) {
	return Do(ctx, c.op(cmpi.Probe, mem.Buffer{}, source, tag))
}

// Iprobe tells whether there is such a message, and its status. It does not
// block. A message that belongs to a receive that waits already is not shown.
//
// Source: MPI_Iprobe, MPI-4.1 3.8.1.
func (c *Comm) Iprobe(source, tag int) (Status, bool, error) {
	res, status, err := c.ask(cmpi.Iprobe, source, tag)
	return status, res.Found, err
}

// Mprobe suspends the goroutine until there is such a message and matches it:
// nobody else can receive it. A context that ends gives its error.
//
// Source: MPI_Mprobe, MPI-4.1 3.8.2.
func (c *Comm) Mprobe(ctx context.Context, source, tag int) (*Message, error) {
	op := c.op(cmpi.Mprobe, mem.Buffer{}, source, tag)
	p, err := op.check()
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("mprobe: %w", err)
	}
	r := &Request{comm: c}
	r.op.Init(p.engine, op.Spec)
	if p.engine.Run(ctx, &r.op) != nil && !r.settle() {
		return nil, r.inFlight(ctx)
	}
	status, err := r.settled(ctx)
	if err != nil {
		return nil, err
	}
	_, res := r.op.At(0)
	return &Message{comm: c, handle: res.Handle, status: status}, nil
}

// Improbe matches such a message if there is one. It does not block.
//
// Source: MPI_Improbe, MPI-4.1 3.8.2.
func (c *Comm) Improbe(source, tag int) (*Message, bool, error) {
	res, status, err := c.ask(cmpi.Improbe, source, tag)
	if err != nil || !res.Found {
		return nil, false, err
	}
	return &Message{comm: c, handle: res.Handle, status: status}, true, nil
}

// ask carries out an operation that completes at once.
func (c *Comm) ask(kind uint8, source, tag int) (progress.Result, Status, error) {
	op := c.op(kind, mem.Buffer{}, source, tag)
	p, err := op.check()
	if err != nil {
		return progress.Result{}, Status{}, err
	}
	res, waited, _ := p.engine.Do(context.Background(), &op.Spec, freshOp)
	if waited != nil {
		_, r := waited.At(0)
		res = *r
		recycle(requestOf(waited))
	}
	if res.Code != 0 {
		return progress.Result{}, Status{}, failure(c, &op.Spec, &res)
	}
	if !res.Found {
		return res, Status{}, nil
	}
	return res, status(&op.Spec, &res), nil
}
