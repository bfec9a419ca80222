package coro

import (
	"context"
	"errors"
	"fmt"
	"runtime/trace"
	"slices"
	"sync"

	"github.com/mpi4go/mpi4go/internal/inner"
	"github.com/mpi4go/mpi4go/internal/wire"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
)

// Message is a multi-buffer message that was received.
type Message struct {
	Frames []mem.Buffer // in the order in which they were sent
	Source int          // the rank that sent it
	Tag    int
}

// FrameInfo describes a frame that is about to be received.
type FrameInfo struct {
	Len  int      // bytes
	Kind mem.Kind // of the memory that it comes from
}

// Incoming describes a message that is about to be received.
type Incoming struct {
	Source, Tag int
	Frames      []FrameInfo
}

// ErrFrames is the error of a receive whose destinations do not fit the message.
// The message is left to the next receive that matches it.
var ErrFrames = errors.New("the destinations do not fit the message")

// SendMessage sends a message of many buffers, its frames, to a rank, and
// suspends the goroutine until all of them are free again. They go out together,
// and are received together by one of the RecvMessage functions, which learn their
// number and lengths. No frame is copied but the short ones that travel in the
// header (Config.Plans). [mem.Frames] makes frames of slices and strings. Frames of
// device memory that MPI does not take are staged in pieces, of any length.
//
// A message is not a plain MPI message: see docs/wire.md. Messages of one
// goroutine to one rank with one tag arrive in their order. The frames are
// borrowed until SendMessage returns. A rank may be 64 messages ahead of the
// receiver on each communicator and tag; then SendMessage waits.
//
// Errors: mpicomm.ErrRank, mpicomm.ErrTag; mpicomm.ErrCount for more frames or
// longer inline frames than Config.MaxFrames and MaxHeader allow; when the context
// ends, its error if nothing was sent yet, else an [*mpicomm.InFlightError]; those
// of MPI.
func SendMessage(ctx context.Context, c *mpicomm.Comm, frames []mem.Buffer, dest, tag int) error {
	s := sendings.Get().(*sending)
	defer s.free()
	if err := s.init(c, frames, dest, tag); err != nil || s.null {
		return err
	}
	if err := s.await(ctx); err != nil {
		return err
	}
	return s.send(ctx)
}

// sending is a message on its way.
type sending struct {
	sender
	ch       *channel
	key      streamKey
	dest     int // of the job
	limits   wire.Limits
	frames   []mem.Buffer
	plan     []wire.Frame
	inline   int          // bytes of inline frames
	payload  bool         // not all frames are inline
	late     []chunked    // the frames that go in chunks
	buffer   headerBuffer // for the header
	null     bool         // it is to ProcNull
	waits    bool         // it has no slot yet
	acks     []uint16     // that it carries along, in owed
	owed     [wire.MaxAcks]uint16
	posted   bool // its place in MPI's order is fixed
	onPosted func()
}

// What a message needs is used again: it costs few allocations.
var sendings = sync.Pool{New: func() any {
	s := &sending{sender: sender{ready: make(chan struct{}, 1)}}
	s.onPosted = func() {
		s.posted = true
		s.ch.posted(&s.sender, true)
	}
	return s
}}

// free keeps s for another message. A header that MPI may still read must have been
// taken out of it.
func (s *sending) free() {
	s.ch, s.frames, s.plan, s.acks, s.late = nil, nil, s.plan[:0], nil, nil
	s.inline, s.payload, s.null, s.waits, s.posted = 0, false, false, false, false
	if cap(s.buffer) > maxSpareHeader {
		s.buffer = nil
	}
	sendings.Put(s)
}

// init checks the arguments and takes a place in the order of messages, but for
// ProcNull.
func (s *sending) init(c *mpicomm.Comm, frames []mem.Buffer, dest, tag int) error {
	ch, err := openedChannel()
	if err != nil {
		return err
	}
	known, err := inner.CommOf(c, "sendmessage", true, dest, tag)
	s.null = dest == mpicomm.ProcNull
	if err != nil || s.null {
		return err
	}
	s.ch, s.key, s.dest, s.limits = ch, streamKey{known.ID, uint32(tag)}, known.World(dest), ch.limits
	if err := s.describe(frames); err != nil {
		return err
	}
	ch.mu.Lock()
	s.ask(ch.peer(s.dest).stream(s.key))
	ch.unlock()
	return nil
}

// ask asks for a slot. With one it takes acknowledgements along. The caller holds mu.
func (s *sending) ask(from *stream) {
	if s.waits = s.ch.ask(from, &s.sender); !s.waits && s.err == nil {
		s.acks = from.peer.takeAcks(s.owed[:0])
	}
}

// describe chooses the plans of the frames.
func (s *sending) describe(frames []mem.Buffer) error {
	ch := s.ch
	s.frames = frames
	if len(frames) > s.limits.Frames {
		return fmt.Errorf("sendmessage: %d frames; Config.MaxFrames is %d: %w", len(frames), s.limits.Frames, mpicomm.ErrCount)
	}
	total := 0
	for i := range frames {
		total += frames[i].Len()
	}
	if total > s.limits.Message {
		return fmt.Errorf("sendmessage: %d bytes; Config.MaxMessage is %d: %w", total, s.limits.Message, mpicomm.ErrCount)
	}
	s.plan = slices.Grow(s.plan[:0], len(frames))
	short := ch.plans[0].Plan == wire.Inline && wire.FitsFirst(len(frames), total)
	like := wire.Frame{Len: -1} // the plain frame before: as a rule many are alike
	for i := range frames {
		f, p := &frames[i], like
		if f.Len() != like.Len || !f.Plain() {
			var err error
			if p, err = s.planFor(f, short); err != nil {
				return fmt.Errorf("sendmessage: frame %d: %w", i, err)
			}
			if f.Plain() && p.Plan != wire.Chunks {
				like = p
			}
		}
		switch p.Plan {
		case wire.Inline:
			s.inline += p.Len
		case wire.Chunks: // it is in s.late
		default:
			s.payload = true
		}
		s.plan = append(s.plan, p)
	}
	return nil
}

// planFor chooses the plan of a frame; short is whether the whole message is. A frame
// in chunks is added to late.
func (s *sending) planFor(f *mem.Buffer, short bool) (wire.Frame, error) {
	ch := s.ch
	p := wire.Frame{Len: f.Len(), Kind: uint8(f.Kind()), Plan: ch.plans.For(f.Len())}
	m, err := memoryOf(*f)
	if err != nil {
		return p, err
	}
	switch {
	case m != nil:
		p.Plan = wire.Chunks
	case p.Len == 0 || short:
		p.Plan = wire.Inline
	case p.Plan == wire.Datatype && p.Len > maxPart:
		p.Plan = wire.Request
	}
	if p.Plan == wire.Request && ch.stages[s.dest] {
		p.Plan = wire.Chunks
	}
	if p.Plan == wire.Chunks {
		p.Chunk = wire.ChunkFor(p.Len)
		s.late = append(s.late, chunked{buf: *f, mem: m, direct: m == nil || ch.takes(m), chunk: p.Chunk})
	}
	return p, nil
}

// maxPart is the longest part of a datatype.
const maxPart = 1<<31 - 1

// await waits for the message's turn.
func (s *sending) await(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return s.notSent(err)
	}
	if s.waits {
		defer trace.StartRegion(ctx, "mpi sendmessage").End()
		if err := s.ch.await(ctx, s.ready); err != nil {
			s.ch.posted(&s.sender, false)
			return fmt.Errorf("sendmessage: %w", err)
		}
	}
	if err := s.err; err != nil { // it will have no turn
		s.ch.posted(&s.sender, false)
		return fmt.Errorf("sendmessage: %w", err)
	}
	if s.waits {
		s.acks = s.ch.takeAcks(s.dest, s.owed[:0])
	}
	return nil
}

// send sends the message, whose turn it is, and waits for that.
func (s *sending) send(ctx context.Context) error {
	var room [4]mpicomm.Op
	ops, err := s.operations(room[:0])
	if err != nil {
		return err
	}
	if len(s.late) > 0 {
		r, err := s.sendLate(ops)
		if err != nil {
			return err
		}
		return settle(ctx, r)
	}
	if len(ops) > 1 {
		var statuses [4]mpicomm.Status
		ops[0].Posted = s.onPosted
		_, err = mpicomm.DoAll(ctx, statuses[:0], ops...)
	} else { // in the header alone: it does not wait for the receiver
		_, err = mpicomm.Do(ctx, ops[0])
		if err == nil || inFlight(err) != nil {
			s.onPosted()
		}
	}
	if !s.posted {
		return s.notSent(err)
	}
	if inFlight(err) != nil {
		s.buffer = nil // it goes with the request
	}
	return err
}

// post sends the message, whose turn it is, and does not wait for that.
func (s *sending) post() (*mpicomm.Request, error) {
	var room [4]mpicomm.Op
	ops, err := s.operations(room[:0])
	if err != nil {
		return nil, err
	}
	if len(s.late) > 0 {
		return s.sendLate(ops)
	}
	request, err := mpicomm.Post(ops...)
	if err != nil {
		return nil, s.notSent(err)
	}
	s.onPosted()
	s.buffer = nil // it goes with the request
	return request, nil
}

// operations appends those of the message to ops.
func (s *sending) operations(ops []mpicomm.Op) ([]mpicomm.Op, error) {
	ch, slot := s.ch, int(s.slot)
	header, err := s.header()
	if err != nil {
		return nil, s.notSent(err)
	}
	first := min(len(header), wire.First)
	ops = append(ops, ch.comm.SendOp(mem.Of(header[:first]), s.dest, headerTag))
	if rest := header[first:]; len(rest) > 0 {
		ops = append(ops, ch.comm.SendOp(mem.Of(rest), s.dest, slot))
	}
	if s.payload {
		ops = payload(ops, s.plan, s.frames, func(b mem.Buffer) mpicomm.Op { return ch.comm.SendOp(b, s.dest, slot) },
			func(parts []mem.Buffer) mpicomm.Op { return ch.comm.SendPartsOp(parts, s.dest, slot) })
	}
	for i := range ops {
		ops[i].Bound = true
	}
	return ops, nil
}

// notSent ends a message that was not sent, with the acknowledgements in it.
func (s *sending) notSent(err error) error {
	if len(s.acks) > 0 {
		s.ch.owe(s.dest, s.acks...)
	}
	s.ch.posted(&s.sender, false)
	return fmt.Errorf("sendmessage: %w", err)
}

// header encodes the message with its inline frames.
func (s *sending) header() ([]byte, error) {
	h := wire.Header{Comm: s.key.comm, Tag: s.key.tag, Slot: s.slot, Acks: s.acks, Frames: s.plan}
	b, err := h.Append(s.buffer[:0])
	if err != nil {
		return nil, err
	}
	if n := len(b) + s.inline; n > s.limits.Header {
		return nil, fmt.Errorf("a header of %d bytes; Config.MaxHeader is %d: %w", n, s.limits.Header, mpicomm.ErrCount)
	}
	at := len(b)
	b = slices.Grow(b, s.inline)[:at+s.inline]
	for i := range s.plan {
		if f := &s.plan[i]; f.Plan == wire.Inline && f.Len > 0 { // an empty one may be on a device
			at += copy(b[at:], s.frames[i].Bytes())
		}
	}
	s.buffer = b
	return b, nil
}

// headerBuffer is memory for a whole header. It keeps what it grows to, within
// reason.
type headerBuffer []byte

const maxSpareHeader = 256 << 10

var headers = sync.Pool{New: func() any { return new(headerBuffer) }}

func (b *headerBuffer) free() {
	if cap(*b) <= maxSpareHeader {
		headers.Put(b)
	}
}

// payload appends the operations of the frames that are not in the header, in
// the order that both sides know: those of the datatype, then the others.
func payload(ops []mpicomm.Op, plan []wire.Frame, frames []mem.Buffer, one func(mem.Buffer) mpicomm.Op, many func([]mem.Buffer) mpicomm.Op) []mpicomm.Op {
	var parts []mem.Buffer
	for i, f := range plan {
		if f.Plan == wire.Datatype {
			if parts == nil {
				parts = make([]mem.Buffer, 0, len(plan)-i)
			}
			parts = append(parts, frames[i])
		}
	}
	switch len(parts) {
	case 0:
	case 1:
		ops = append(ops, one(parts[0]))
	default:
		ops = append(ops, many(parts))
	}
	for i, f := range plan {
		if f.Plan == wire.Request {
			ops = append(ops, one(frames[i]))
		}
	}
	return ops
}

// RecvMessage receives a message of many buffers from a rank, or
// mpicomm.AnySource, with a tag, or mpicomm.AnyTag, into memory made for it, and
// suspends the goroutine until it is there.
//
// When the context ends before the frames of a message are under way, the error is
// the context's, and the message is left to the next receive that matches it; after
// that it is an [*mpicomm.InFlightError], unless the message is complete.
//
// Other errors: mpicomm.ErrRank, mpicomm.ErrTag; wire errors of a peer that runs
// another version; those of MPI.
func RecvMessage(ctx context.Context, c *mpicomm.Comm, source, tag int) (*Message, error) {
	return RecvMessageAlloc(ctx, c, source, tag, fresh)
}

// fresh allocates the frames: the short ones together.
func fresh(in Incoming) ([]mem.Buffer, error) {
	const short = 4096
	total := 0
	for _, f := range in.Frames {
		if f.Len <= short {
			total += f.Len
		}
	}
	block, frames := make([]byte, total), make([]mem.Buffer, len(in.Frames))
	for i, f := range in.Frames {
		if f.Len > short {
			frames[i] = mem.Of(make([]byte, f.Len))
			continue
		}
		frames[i] = mem.Of(block[:f.Len:f.Len])
		block = block[f.Len:]
	}
	return frames, nil
}

// RecvMessageInto is [RecvMessage] into buffers that are there. They are borrowed
// until it returns.
//
// Errors: [ErrFrames] if their number or a length is not the message's, which is
// then left to the next receive that matches it.
func RecvMessageInto(ctx context.Context, c *mpicomm.Comm, frames []mem.Buffer, source, tag int) (*Message, error) {
	return recvMessage(ctx, c, frames, source, tag, nil)
}

// RecvMessageAlloc is [RecvMessage] into buffers that a function supplies when it
// knows what comes: memory of a pool, of an Arrow allocator, of a device. Each must
// have the length of its frame. The function is called on the caller's goroutine,
// and may block; if it fails the message is left to the next receive that matches
// it.
//
// Errors: what the function returns, wrapped; those of [RecvMessageInto].
func RecvMessageAlloc(ctx context.Context, c *mpicomm.Comm, source, tag int, alloc func(Incoming) ([]mem.Buffer, error)) (*Message, error) {
	return recvMessage(ctx, c, nil, source, tag, alloc)
}

// recvMessage receives into the given buffers, or with alloc into what it
// supplies.
func recvMessage(ctx context.Context, c *mpicomm.Comm, into []mem.Buffer, source, tag int, alloc func(Incoming) ([]mem.Buffer, error)) (*Message, error) {
	r := receivings.Get().(*receiving)
	defer r.free()
	if err := r.init(c, source, tag, into, alloc); err != nil {
		return nil, err
	}
	if err := r.await(ctx); err != nil {
		return nil, err
	}
	return r.receive(ctx)
}

// receiving is a message that is waited for.
type receiving struct {
	receiver
	ch    *channel
	known *inner.Comm
	into  []mem.Buffer
	alloc func(Incoming) ([]mem.Buffer, error)
	waits bool // none has matched yet
	plan  []wire.Frame
	own   Message // for who wants only the frames
}

var receivings = sync.Pool{New: func() any { return &receiving{receiver: receiver{ready: make(chan struct{}, 1)}} }}

func (r *receiving) free() {
	*r = receiving{receiver: receiver{ready: r.ready}, plan: r.plan[:0]}
	receivings.Put(r)
}

// init checks the arguments and takes a place in the order of receives, but for
// ProcNull.
func (r *receiving) init(c *mpicomm.Comm, source, tag int, into []mem.Buffer, alloc func(Incoming) ([]mem.Buffer, error)) (err error) {
	r.into, r.alloc = into, alloc
	if r.ch, err = openedChannel(); err != nil {
		return err
	}
	if r.known, err = inner.CommOf(c, "recvmessage", false, source, tag); err != nil || source == mpicomm.ProcNull {
		return err
	}
	r.comm, r.source, r.tag = r.known.ID, source, tag
	if source != mpicomm.AnySource {
		r.source = r.known.World(source)
	}
	r.waits = r.ch.match(&r.receiver)
	return nil
}

// await waits until a message has matched.
func (r *receiving) await(ctx context.Context) error {
	if r.waits {
		defer trace.StartRegion(ctx, "mpi recvmessage").End()
		if err := r.ch.await(ctx, r.ready); err != nil {
			r.ch.giveUp(&r.receiver)
			return fmt.Errorf("recvmessage: %w", err)
		}
	}
	if r.err != nil {
		return fmt.Errorf("recvmessage: %w", r.err)
	}
	return nil
}

// receive receives the rest of the message that has matched.
func (r *receiving) receive(ctx context.Context) (*Message, error) {
	return r.receiveAs(ctx, new(Message))
}

// receiveAs is receive for who has a Message.
func (r *receiving) receiveAs(ctx context.Context, m *Message) (*Message, error) {
	ch, a := r.ch, r.got
	if a == nil {
		m.Source, m.Tag = mpicomm.ProcNull, mpicomm.AnyTag
		return m, nil
	}
	if err := ch.readHeader(ctx, a); err != nil {
		return nil, err
	}
	plan, inline, err := wire.DecodeFrames(a.whole, ch.limits, r.plan[:0])
	if err != nil {
		ch.misunderstood(a.source, err)
		return nil, fmt.Errorf("recvmessage: from rank %d of the job: %w", a.source, err)
	}
	r.plan = plan
	m.Source, m.Tag = r.known.Rank(a.source), int(a.prefix.Tag)
	if m.Frames, err = destinations(m, plan, r.into, r.alloc); err != nil {
		ch.giveBack(a)
		return nil, fmt.Errorf("recvmessage: peer %d tag %d: %w", m.Source, m.Tag, err)
	}
	late, err := ch.land(ctx, plan, m.Frames)
	if err != nil {
		ch.giveBack(a)
		return nil, fmt.Errorf("recvmessage: peer %d tag %d: %w", m.Source, m.Tag, err)
	}
	frames := m.Frames
	if late != nil {
		frames = late.frames
	}
	more := false
	for i := range plan {
		if plan[i].Plan != wire.Inline {
			more = true
		} else if plan[i].Len > 0 {
			inline = inline[copy(frames[i].Bytes(), inline):]
		}
	}
	if late != nil {
		return r.receiveLate(ctx, m, late, plan)
	}
	if !more {
		return m, ch.acknowledge(a)
	}
	err = ch.receivePayload(ctx, a, plan, frames)
	flying := inFlight(err) != nil
	if err != nil && !flying && ctx.Err() != nil && errors.Is(err, ctx.Err()) { // it was not started
		ch.giveBack(a)
		return nil, fmt.Errorf("recvmessage: %w", ctx.Err())
	}
	if failed := ch.acknowledge(a); err == nil && failed != nil {
		return nil, failed
	}
	if err != nil && !flying {
		return nil, err
	}
	return m, err
}

// receivePayload receives the frames that are not in the header.
func (ch *channel) receivePayload(ctx context.Context, a *arrival, plan []wire.Frame, frames []mem.Buffer) (err error) {
	var room [4]mpicomm.Op
	ops := ch.receives(room[:0], a, plan, frames)
	if len(ops) == 1 {
		_, err = mpicomm.Do(ctx, ops[0])
		return err
	}
	var statuses [4]mpicomm.Status
	_, err = mpicomm.DoAll(ctx, statuses[:0], ops...)
	return err
}

// receives appends the operations of the payload to ops.
func (ch *channel) receives(ops []mpicomm.Op, a *arrival, plan []wire.Frame, frames []mem.Buffer) []mpicomm.Op {
	slot := int(a.prefix.Slot)
	ops = payload(ops, plan, frames, func(b mem.Buffer) mpicomm.Op {
		op := ch.comm.RecvOp(b, a.source, slot)
		op.Fits = true
		return op
	}, func(parts []mem.Buffer) mpicomm.Op { return ch.comm.RecvPartsOp(parts, a.source, slot) })
	for i := range ops {
		ops[i].Bound = true // they are on their way
	}
	return ops
}

// readHeader receives what did not fit into the header's own message.
func (ch *channel) readHeader(ctx context.Context, a *arrival) error {
	if a.whole != nil {
		return nil
	}
	if a.prefix.Length == len(a.first) {
		a.whole = a.first
		return nil
	}
	a.long = headers.Get().(*headerBuffer)
	whole := slices.Grow((*a.long)[:0], a.prefix.Length)[:a.prefix.Length]
	*a.long = whole
	op := ch.comm.RecvOp(mem.Of(whole[copy(whole, a.first):]), a.source, int(a.prefix.Slot))
	op.Fits = true
	// It is on its way: what comes after it would be mistaken for it.
	if _, err := mpicomm.Do(context.WithoutCancel(ctx), op); err != nil {
		return err
	}
	a.whole = whole
	return nil
}

// destinations is the memory of a message: buffers, or what alloc supplies.
func destinations(m *Message, frames []wire.Frame, buffers []mem.Buffer, alloc func(Incoming) ([]mem.Buffer, error)) (_ []mem.Buffer, err error) {
	if alloc != nil {
		in := Incoming{Source: m.Source, Tag: m.Tag, Frames: make([]FrameInfo, len(frames))}
		for i, f := range frames {
			in.Frames[i] = FrameInfo{f.Len, mem.Kind(f.Kind)}
		}
		if buffers, err = alloc(in); err != nil {
			return nil, err
		}
	}
	if len(buffers) != len(frames) {
		return nil, fmt.Errorf("%w: %d frames into %d buffers", ErrFrames, len(frames), len(buffers))
	}
	for i := range buffers {
		if n := buffers[i].Len(); n != frames[i].Len {
			return nil, fmt.Errorf("%w: frame %d of %d bytes into a buffer of %d", ErrFrames, i, frames[i].Len, n)
		}
	}
	return buffers, nil
}
