package mpicomm

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/mpi4go/mpi4go/internal/cmpi"
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
// that is done. A buffer that is too short takes the first bytes; the request
// then fails with [ErrTruncate]. A second Imrecv is an error of class
// [ErrRequest].
//
// Source: MPI_Imrecv, MPI-4.1 3.8.3.
func (m *Message) Imrecv(buf mem.Buffer) (*Request, error) {
	op := Op{comm: m.comm, buf: buf, peer: m.status.Source, tag: m.status.Tag, kind: cmpi.Imrecv}
	p, err := op.check()
	if err != nil {
		return nil, err
	}
	if m.taken.Swap(true) {
		return nil, &Error{Op: "imrecv", Class: ErrRequest, Peer: op.peer, Tag: op.tag, Text: "the message was received already"}
	}
	r := new(Request)
	r.init(m.comm, cmpi.Imrecv, op.peer, op.tag, buf)
	r.op.Matched(m.handle, m.status.Count)
	p.engine.Start(&r.op)
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
	return Do(ctx, Op{comm: c, peer: source, tag: tag, kind: cmpi.Probe})
}

// Iprobe tells whether there is such a message, and its status. It does not
// block. A message that belongs to a receive that waits already is not shown.
//
// Source: MPI_Iprobe, MPI-4.1 3.8.1.
func (c *Comm) Iprobe(source, tag int) (Status, bool, error) {
	r, err := c.ask(cmpi.Iprobe, source, tag)
	if err != nil || !r.op.Found {
		return Status{}, false, err
	}
	return r.status(), true, nil
}

// Mprobe suspends the goroutine until there is such a message and matches it:
// nobody else can receive it. A context that ends gives its error.
//
// Source: MPI_Mprobe, MPI-4.1 3.8.2.
func (c *Comm) Mprobe(ctx context.Context, source, tag int) (*Message, error) {
	op := Op{comm: c, peer: source, tag: tag, kind: cmpi.Mprobe}
	p, err := op.check()
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("mprobe: %w", err)
	}
	r := new(Request)
	r.init(c, op.kind, source, tag, mem.Buffer{})
	if p.engine.Do(ctx, &r.op) != nil && !r.settle(p) {
		return nil, r.inFlight(ctx)
	}
	if _, err := r.outcome(ctx); err != nil {
		return nil, err
	}
	return r.message(), nil
}

// Improbe matches such a message if there is one. It does not block.
//
// Source: MPI_Improbe, MPI-4.1 3.8.2.
func (c *Comm) Improbe(source, tag int) (*Message, bool, error) {
	r, err := c.ask(cmpi.Improbe, source, tag)
	if err != nil || !r.op.Found {
		return nil, false, err
	}
	return r.message(), true, nil
}

func (r *Request) message() *Message {
	return &Message{comm: r.comm, handle: r.op.Handle, status: r.status()}
}

// ask carries out an operation that completes at once.
func (c *Comm) ask(kind uint8, source, tag int) (*Request, error) {
	op := Op{comm: c, peer: source, tag: tag, kind: kind}
	p, err := op.check()
	if err != nil {
		return nil, err
	}
	r := new(Request)
	r.init(c, kind, source, tag, mem.Buffer{})
	if err := p.engine.Do(context.Background(), &r.op); err != nil {
		return nil, err
	}
	return r, r.err()
}
