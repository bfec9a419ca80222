package coro

import (
	"context"
	"errors"
	"fmt"

	"github.com/mpi4go/mpi4go/internal/device"
	"github.com/mpi4go/mpi4go/internal/inner"
	"github.com/mpi4go/mpi4go/internal/wire"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
)

// Frames of device memory go in chunks, after all others of their message: MPI gets a
// chunk when the device has it ready. Where MPI takes device memory, that is a part of the frame;
// elsewhere it is staged in page-locked memory, a few chunks at a time. Either side
// does what it has to: the header fixes the length of the chunks.

// chunked is a frame that goes in chunks.
type chunked struct {
	buf    mem.Buffer
	mem    device.Memory // nil for plain memory
	direct bool          // MPI gets the memory itself
	chunk  int
	behind bool // the frame's stream waits for the last copy
}

// ring is how many chunks of a message are staged at a time, and afloat how many are
// under way at all.
const (
	ring   = 8
	afloat = 64
)

// errPeerDevice is what a receiver gets when the sender cannot read its device's memory.
var errPeerDevice = errors.New("the sender could not read its device memory; its own error says why")

var forever = context.Background()

// memoryOf looks at a frame. It returns nil for one that needs no care.
func memoryOf(b mem.Buffer) (device.Memory, error) {
	if b.Plain() {
		return nil, nil
	}
	return memoryInUse(b)
}

func memoryInUse(b mem.Buffer) (device.Memory, error) {
	if b.Len() == 0 {
		return nil, nil
	}
	d := device.Registered()
	if d != nil {
		return d.Memory(b)
	}
	if b.Kind() == mem.Device {
		return nil, fmt.Errorf("device memory needs package gpu, which this program does not import: %w", errors.ErrUnsupported)
	}
	return nil, nil
}

// later makes a request for what a goroutine carries out.
func (ch *channel) later(sends bool, peer int, slot uint16, carryOut func() error) *mpicomm.Request {
	r, done := inner.Later(ch.comm, sends, peer, int(slot))
	go func() { done(carryOut()) }()
	return r.(*mpicomm.Request)
}

// settle waits for what cannot be taken back: if the context ends first, it goes on.
func settle(ctx context.Context, r *mpicomm.Request) error {
	_, err := r.Wait(ctx)
	if err == nil || ctx.Err() == nil {
		return err
	}
	if _, done, failed := r.Test(); done {
		return failed
	}
	return &mpicomm.InFlightError{Request: r, Err: ctx.Err()}
}

// part is a chunk of a frame.
type part struct {
	of    *chunked
	at, n int
	piece device.Piece // of page-locked memory, if it is staged
	work  device.Work  // the copy
	r     *mpicomm.Request
}

func (p *part) last() bool { return p.at+p.n == p.of.buf.Len() }

// buffer is the memory that MPI gets.
func (p *part) buffer() mem.Buffer {
	if p.piece != nil {
		return p.piece.Buffer()
	}
	return p.of.buf.Slice(p.at, p.at+p.n)
}

// parts goes through the chunks of frames.
type parts struct {
	frames []chunked
	at     int // in the first frame
}

func (s *parts) next() *part {
	if len(s.frames) == 0 {
		return nil
	}
	f := &s.frames[0]
	return &part{of: f, at: s.at, n: min(f.chunk, f.buf.Len()-s.at)}
}

func (s *parts) advance(p *part) {
	s.at += p.n
	if p.last() {
		s.frames, s.at = s.frames[1:], 0
	}
}

// stages are the chunks of a message that are under way.
type stages struct {
	parts
	copying fifo[*part] // on the device; in a sender also those that need no copy
	posted  fifo[*part] // MPI has them
	held    int         // pieces
	failed  error       // the first failure
}

func (s *stages) fail(err error) {
	if s.failed == nil {
		s.failed = err
	}
}

// free gives the piece of a chunk back.
func (s *stages) free(p *part) {
	if p.piece != nil {
		p.piece.Free()
		p.piece = nil
		s.held--
	}
}

// ready waits until the memory of a frame may be used, but not while other chunks are
// under way: then it says whether it may.
func (s *stages) ready(p *part) bool {
	if p.at > 0 || p.of.mem == nil {
		return true
	}
	if s.copying.len()+s.posted.len() > 0 && !p.of.mem.Ready() {
		return false
	}
	if err := p.of.mem.Await(forever); err != nil {
		s.fail(err)
		return false
	}
	if p.of.direct && p.of.mem.Device() >= 0 {
		device.Direct.Add(1)
	}
	return true
}

// take takes page-locked memory for a chunk that is staged. Who has some must not wait
// for more.
func (s *stages) take(p *part, dir device.Direction) bool {
	if p.of.mem == nil || p.of.direct {
		return true
	}
	if s.held >= ring {
		return false
	}
	piece, err := p.of.mem.Take(forever, dir, p.n, s.held == 0)
	if err != nil {
		s.fail(err)
	}
	if piece == nil {
		return false
	}
	p.piece = piece
	s.held++
	return true
}

// send sends the chunks of frames, in their order. Once the first is announced all have to
// go: after a failure they are empty, and the receiver knows.
func (ch *channel) send(frames []chunked, dest int, slot uint16) error {
	s := stages{parts: parts{frames: frames}}
	post := func(p *part, buf mem.Buffer) {
		op := ch.comm.SendOp(buf, dest, int(slot))
		op.Ready, op.Bound = true, true
		var err error
		if p.r, err = mpicomm.Post(op); err != nil {
			s.fail(err)
			s.free(p)
			return
		}
		s.posted.push(p)
	}
	for s.failed == nil {
		for s.copying.len()+s.posted.len() < afloat {
			p := s.next()
			if p == nil || !s.ready(p) || !s.take(p, device.Out) {
				break
			}
			if p.piece != nil {
				var err error
				if p.work, err = p.of.mem.Copy(device.Out, p.at, p.piece, p.last()); err != nil {
					s.fail(err)
					s.free(p)
					break
				}
			}
			s.advance(p)
			s.copying.push(p)
		}
		switch {
		case s.failed != nil:
		case s.copying.len() > 0:
			p := s.copying.pop()
			if p.work != nil {
				if err := p.work.Wait(forever); err != nil {
					s.fail(err)
					s.free(p)
					post(p, mem.Buffer{})
					break
				}
			}
			post(p, p.buffer())
			for s.posted.len() > 0 && s.posted.first().isDone() {
				s.sent()
			}
		case s.posted.len() > 0:
			s.sent()
		case s.next() == nil:
			return nil
		}
	}
	for s.copying.len() > 0 {
		p := s.copying.pop()
		if p.work != nil {
			_ = p.work.Wait(forever) // there is an error already
		}
		s.free(p)
		post(p, mem.Buffer{})
	}
	for p := s.next(); p != nil; p = s.next() {
		s.advance(p)
		post(p, mem.Buffer{})
	}
	for s.posted.len() > 0 {
		s.sent()
	}
	return s.failed
}

func (p *part) isDone() bool {
	_, done, _ := p.r.Test()
	return done
}

// sent waits until MPI has sent the oldest chunk.
func (s *stages) sent() {
	p := s.posted.pop()
	if _, err := p.r.Wait(forever); err != nil {
		s.fail(err)
	}
	s.free(p)
}

// receive receives the chunks of frames. After a failure it still receives what has been
// announced.
func (ch *channel) receive(frames []chunked, source int, slot uint16) error {
	s := stages{parts: parts{frames: frames}}
	for {
		for s.posted.len() < afloat {
			p := s.next()
			if p == nil || s.failed == nil && (!s.ready(p) || !s.take(p, device.In)) && s.failed == nil {
				break
			}
			buf := p.buffer
			if s.failed != nil { // it is lost
				s.free(p)
				buf = func() mem.Buffer { return mem.Of(make([]byte, p.n)) }
			}
			op := ch.comm.RecvOp(buf(), source, int(slot))
			op.Ready, op.Bound, op.Fits = true, true, true
			var err error
			if p.r, err = mpicomm.Post(op); err != nil {
				s.free(p)
				s.fail(err)
				return s.drain()
			}
			s.advance(p)
			s.posted.push(p)
		}
		for s.copying.len() > 0 && s.copying.first().work.Ready() {
			s.landed()
		}
		switch {
		case s.posted.len() > 0:
			s.arrived()
		case s.next() == nil:
			return s.drain()
		case s.copying.len() > 0:
			s.landed()
		}
	}
}

// arrived waits for the oldest chunk and copies it to the device.
func (s *stages) arrived() {
	p := s.posted.pop()
	status, err := p.r.Wait(forever)
	switch {
	case err != nil:
		s.fail(err)
	case status.Count != p.n:
		s.fail(errPeerDevice)
	}
	if p.piece == nil || s.failed != nil {
		s.free(p)
		return
	}
	if p.work, err = p.of.mem.Copy(device.In, p.at, p.piece, p.last()); err != nil {
		s.fail(err)
		s.free(p)
		return
	}
	p.of.behind = p.last() && p.work.Behind()
	s.copying.push(p)
}

// landed waits for the oldest copy to the device.
func (s *stages) landed() {
	p := s.copying.pop()
	if p.of.behind && s.failed == nil {
		p.work.Release(p.piece)
		s.held--
		return
	}
	if err := p.work.Wait(forever); err != nil {
		s.fail(err)
	}
	s.free(p)
}

// drain waits for what is left.
func (s *stages) drain() error {
	for s.posted.len() > 0 {
		s.arrived()
	}
	for s.copying.len() > 0 {
		s.landed()
	}
	return s.failed
}

// ---- a message with such frames ----

// sendLate posts what is in host memory, and lets a goroutine send the rest. The
// request is for all of it.
func (s *sending) sendLate(ops []mpicomm.Op) (*mpicomm.Request, error) {
	ch, dest, slot, frames := s.ch, s.dest, s.slot, s.late
	ready, err := mpicomm.Post(ops...)
	if err != nil {
		return nil, s.notSent(err)
	}
	s.onPosted()
	s.buffer = nil // it goes with what was posted
	return ch.later(true, dest, slot, func() error {
		err := ch.send(frames, dest, slot)
		if _, e := ready.Wait(forever); err == nil {
			err = e
		}
		return err
	}), nil
}

// landing is where a message goes that has frames in chunks, or for device memory.
type landing struct {
	frames  []mem.Buffer // what MPI gets for those that are not in chunks
	late    []chunked    // those in chunks
	bounced []bounced
}

// bounced is a frame that has arrived in host memory and belongs into a device's.
type bounced struct {
	chunked
	host []byte
}

// land sorts the frames of a message. It returns nil if none needs any care.
func (ch *channel) land(ctx context.Context, plan []wire.Frame, frames []mem.Buffer) (*landing, error) {
	var l *landing
	for i := range plan {
		f := &plan[i]
		if frames[i].Plain() && f.Plan != wire.Chunks { // nearly always
			continue
		}
		m, err := memoryOf(frames[i])
		if err != nil {
			return nil, fmt.Errorf("the buffer for frame %d: %w", i, err)
		}
		if m == nil && f.Plan != wire.Chunks {
			continue
		}
		if l == nil {
			l = &landing{frames: append([]mem.Buffer(nil), frames...)}
		}
		c := chunked{buf: frames[i], mem: m, direct: m == nil || ch.takes(m), chunk: f.Chunk}
		switch {
		case f.Plan == wire.Chunks:
			l.late = append(l.late, c)
		case m.Device() < 0: // host memory that a device may be using
			if err := m.Await(ctx); err != nil {
				return nil, fmt.Errorf("the buffer for frame %d: %w", i, err)
			}
		default:
			b := bounced{c, make([]byte, f.Len)}
			b.chunk = wire.ChunkFor(f.Len)
			b.direct = false
			l.frames[i] = mem.Of(b.host)
			l.bounced = append(l.bounced, b)
		}
	}
	return l, nil
}

// receive receives the message by the operations of the frames that are not in chunks,
// and acknowledges it.
func (l *landing) receive(ch *channel, a *arrival, ops []mpicomm.Op) (*mpicomm.Request, error) {
	var ready *mpicomm.Request
	if len(ops) > 0 {
		var err error
		if ready, err = mpicomm.Post(ops...); err != nil {
			return nil, err
		}
	}
	source, slot := a.source, a.prefix.Slot
	return ch.later(false, source, slot, func() error {
		err := ch.receive(l.late, source, slot)
		if ready != nil {
			if _, e := ready.Wait(forever); err == nil {
				err = e
			}
		}
		for i := range l.bounced {
			if err == nil {
				err = l.bounced[i].land()
			}
		}
		if e := ch.acknowledge(a); err == nil {
			err = e
		}
		return err
	}), nil
}

// receiveLate is what receive does with a message that has a landing.
func (r *receiving) receiveLate(ctx context.Context, m *Message, l *landing, plan []wire.Frame) (*Message, error) {
	err := ctx.Err()
	if err != nil {
		err = fmt.Errorf("recvmessage: %w", err)
	}
	var request *mpicomm.Request
	if err == nil {
		request, err = l.receive(r.ch, r.got, r.ch.receives(nil, r.got, plan, l.frames))
	}
	if err != nil { // it was not started
		r.ch.giveBack(r.got)
		return nil, err
	}
	err = settle(ctx, request)
	if err != nil && inFlight(err) == nil {
		return nil, err
	}
	return m, err
}

// land copies the frame to the device.
func (b *bounced) land() error {
	if err := b.mem.Await(forever); err != nil {
		return err
	}
	s := stages{parts: parts{frames: []chunked{b.chunked}}}
	for p := s.next(); p != nil && s.failed == nil; p = s.next() {
		if !s.take(p, device.In) {
			if s.copying.len() > 0 {
				s.landed()
			}
			continue
		}
		s.advance(p)
		copy(p.piece.Buffer().Bytes(), b.host[p.at:])
		var err error
		if p.work, err = p.of.mem.Copy(device.In, p.at, p.piece, p.last()); err != nil {
			s.fail(err)
			s.free(p)
			break
		}
		p.of.behind = p.last() && p.work.Behind()
		s.copying.push(p)
	}
	return s.drain()
}
