package coro

import (
	"context"
	"sync/atomic"

	"github.com/mpi4go/mpi4go/internal/inner"
	"github.com/mpi4go/mpi4go/internal/wire"
	"github.com/mpi4go/mpi4go/mem"
)

func init() {
	inner.OpenConnections = func() (inner.Connections, error) {
		ch, err := openedChannel()
		if err != nil {
			return nil, err
		}
		return (*connections)(ch), nil
	}
}

// connections is the channel as package transport sees it.
type connections channel

func (c *connections) Rank() int           { return c.comm.Rank() }
func (c *connections) Hosts() []string     { return c.hosts }
func (c *connections) Limits() wire.Limits { return c.limits }

func (c *connections) Control(dest int, kind uint32, body []byte) error {
	return (*channel)(c).sendControl(dest, kind, body)
}

func (c *connections) Await(ctx context.Context, ready chan struct{}) error {
	return (*channel)(c).await(ctx, ready)
}

func (c *connections) Attend() { (*channel)(c).attend() }

func (c *connections) Signal(ready chan struct{}) {
	ch := (*channel)(c)
	ch.mu.Lock()
	defer ch.unlock()
	if len(ready) == 0 {
		ch.signal(ready)
	}
}

func (c *connections) Serve(f func(source int, kind uint32, body []byte)) {
	ch := (*channel)(c)
	for {
		ch.mu.Lock()
		early := ch.early
		ch.early = nil
		if len(early) == 0 {
			ch.control = f
			ch.startKeeper()
			ch.mu.Unlock()
			return
		}
		ch.mu.Unlock()
		for _, m := range early {
			ch.controlled(f, m.source, m.header)
		}
	}
}

func (c *connections) Heard(peer int) (headers uint64, broken error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := (*channel)(c).peer(peer)
	return p.heard, p.broken
}

func (c *connections) Discarding() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.peers {
		if p != nil && p.discards.running {
			return true
		}
	}
	return false
}

func (c *connections) Open(peer int, local uint32) inner.End {
	ch := (*channel)(c)
	ch.mu.Lock()
	defer ch.mu.Unlock()
	p := ch.peer(peer)
	e := &end{ch: ch, id: local, limits: ch.limits, out: stream{peer: p, kept: true, failed: p.broken}, failed: p.broken}
	ch.ends[local] = e
	return e
}

// end is this process's end of a connection: a stream of messages to the other one,
// and those that come from it.
type end struct {
	ch     *channel
	id     uint32
	limits wire.Limits // of what may be sent: the lower ones of both sides
	out    stream
	in     box
	failed error // of receivers, when all that has arrived was received
	closed bool  // what arrives is discarded

	sent, sentBytes, received, receivedBytes, staged atomic.Uint64
	plans                                            [wire.NumPlans]atomic.Uint64
}

func (e *end) Connect(remote uint32, limits wire.Limits) {
	e.ch.mu.Lock()
	defer e.ch.mu.Unlock()
	e.out.key = streamKey{wire.Connections, remote}
	e.limits = wire.Limits{
		Frames: min(e.limits.Frames, limits.Frames), Header: min(e.limits.Header, limits.Header), Message: min(e.limits.Message, limits.Message),
	}
}

func (e *end) Send(ctx context.Context, frames []mem.Buffer) error {
	return e.send(ctx, frames, func(s *sending) error { return s.send(ctx) })
}

func (e *end) Post(ctx context.Context, frames []mem.Buffer) (request any, err error) {
	err = e.send(ctx, frames, func(s *sending) (err error) {
		request, err = s.post()
		return err
	})
	return request, err
}

func (e *end) send(ctx context.Context, frames []mem.Buffer, move func(*sending) error) error {
	s := sendings.Get().(*sending)
	defer s.free()
	s.ch, s.key, s.dest, s.limits = e.ch, e.out.key, e.out.peer.rank, e.limits
	if err := s.describe(frames); err != nil {
		return err
	}
	e.ch.mu.Lock()
	s.ask(&e.out)
	e.ch.unlock()
	if err := s.await(ctx); err != nil {
		return err
	}
	if err := move(s); err != nil {
		return err
	}
	bytes := 0
	for _, f := range s.plan {
		bytes += f.Len
		e.plans[f.Plan].Add(1)
	}
	e.sent.Add(1)
	e.sentBytes.Add(uint64(bytes))
	e.staged.Add(uint64(s.inline))
	return nil
}

func (e *end) Recv(ctx context.Context) ([]mem.Buffer, error) {
	return e.recv(ctx, nil, fresh)
}

func (e *end) RecvInto(ctx context.Context, frames []mem.Buffer) ([]mem.Buffer, error) {
	return e.recv(ctx, frames, nil)
}

func (e *end) RecvAlloc(ctx context.Context, alloc func([]wire.Frame) ([]mem.Buffer, error)) ([]mem.Buffer, error) {
	return e.recv(ctx, nil, func(in Incoming) ([]mem.Buffer, error) {
		frames := make([]wire.Frame, len(in.Frames))
		for i, f := range in.Frames {
			frames[i] = wire.Frame{Len: f.Len, Kind: uint8(f.Kind)}
		}
		return alloc(frames)
	})
}

var worldComm inner.Comm

func (e *end) recv(ctx context.Context, into []mem.Buffer, alloc func(Incoming) ([]mem.Buffer, error)) ([]mem.Buffer, error) {
	r := receivings.Get().(*receiving)
	defer r.free()
	r.ch, r.known, r.into, r.alloc = e.ch, &worldComm, into, alloc
	r.waits = e.ch.matchEnd(&r.receiver, e)
	if err := r.await(ctx); err != nil {
		return nil, err
	}
	m, err := r.receiveAs(ctx, &r.own)
	if err != nil {
		if m != nil { // it is in flight
			return m.Frames, err
		}
		return nil, err
	}
	bytes := 0
	for _, f := range m.Frames {
		bytes += f.Len()
	}
	e.received.Add(1)
	e.receivedBytes.Add(uint64(bytes))
	return m.Frames, nil
}

func (e *end) EndSend(err error, flush bool, quiet func()) {
	ch := e.ch
	ch.mu.Lock()
	s := &e.out
	if s.failed == nil {
		s.failed = err
	}
	if !flush {
		ch.failSenders(s, err)
	}
	if quiet != nil {
		s.quiet = append(s.quiet, quiet)
	}
	calls := s.isQuiet()
	ch.unlock()
	for _, f := range calls {
		f()
	}
}

func (e *end) EndRecv(err error, drop bool) {
	ch := e.ch
	ch.mu.Lock()
	defer ch.unlock()
	ch.failReceivers(e, err)
	if drop {
		e.closed = true
		for e.in.kept.len() > 0 {
			ch.discard(e.out.peer, e.in.kept.pop())
		}
	}
}

func (e *end) Forget() {
	ch := e.ch
	ch.mu.Lock()
	defer ch.mu.Unlock()
	delete(ch.ends, e.id) // what has arrived is still received, and may be given back
}

func (e *end) Stats() inner.EndStats {
	e.ch.mu.Lock()
	stalls, unacked, kept := e.out.stalls, e.out.unacked, e.in.kept.len()
	e.ch.mu.Unlock()
	st := inner.EndStats{
		Sent: e.sent.Load(), SentBytes: e.sentBytes.Load(), Received: e.received.Load(), ReceivedBytes: e.receivedBytes.Load(),
		Staged: e.staged.Load(), Stalls: stalls, Unacknowledged: unacked, Kept: kept,
	}
	for i := range e.plans {
		st.Plans[i] = e.plans[i].Load()
	}
	return st
}

// matchEnd takes the first message of a connection for the receiver, or makes it
// wait, which it returns.
func (ch *channel) matchEnd(r *receiver, e *end) (waits bool) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	switch {
	case e.in.kept.len() > 0:
		r.got = e.in.kept.pop()
	case e.failed != nil:
		r.err = e.failed
	default:
		r.box = &e.in
		e.in.waiting.push(r)
		return true
	}
	return false
}

// failReceivers fails those who wait for a message of a connection, and later ones.
// The caller holds mu.
func (ch *channel) failReceivers(e *end, err error) {
	if e.failed == nil {
		e.failed = err
	}
	for e.in.waiting.len() > 0 {
		r := e.in.waiting.pop()
		r.box, r.err = nil, err
		ch.signal(r.ready)
	}
}
