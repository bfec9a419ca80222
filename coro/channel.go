package coro

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mpi4go/mpi4go/internal/inner"
	"github.com/mpi4go/mpi4go/internal/wire"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
)

// channel carries the multi-buffer messages of a process: docs/wire.md. All of
// them, whatever their communicator, travel on one private communicator. Headers
// have tag 0; the payload of a message has the tag that its header names, its
// slot, until the receiver acknowledges it.
type channel struct {
	comm   *mpicomm.Comm // of all ranks of the job
	limits wire.Limits
	plans  wire.Plans
	turn   chan struct{}    // held by the one goroutine that receives headers
	late   *mpicomm.Request // a receive of a header that outlived its caller; under turn
	lateIn *slotBuffer

	mu      sync.Mutex
	peers   map[int]*peer // by rank of the job
	arrived []*arrival    // not received yet, in their order
	waiting []*receiver   // for a message, in call order
	driving chan struct{} // the ready of the goroutine that receives headers
	wake    bool          // it has become ready for another reason than a header
}

const (
	headerTag = 0
	slotSize  = 3840 // bytes of a header that are sent at once: below what MPIs send without asking
	window    = 64   // messages of a stream that are not acknowledged
	ackBatch  = 16   // acknowledgements that are not kept for the next header
)

type slotBuffer [slotSize]byte

var slotBuffers = sync.Pool{New: func() any { return new(slotBuffer) }}

// peer is what this process keeps of another, and of itself.
type peer struct {
	next    uint16   // the first slot that was never used
	free    []uint16 // slots that were acknowledged
	streams map[streamKey]*stream
	bySlot  map[uint16]*stream
	owed    []uint16 // slots of its messages that we have to acknowledge
}

// streamKey names the messages that a receiver gets in their order.
type streamKey struct{ comm, tag uint32 }

// stream bounds what a sender is ahead of the receiver.
type stream struct {
	key     streamKey
	unacked int
	posting bool      // somebody has a slot and is about to send: the next waits
	queue   []*sender // that wait for a slot, in call order
}

// sender waits for a slot.
type sender struct {
	ready chan struct{} // receives once
	slot  uint16
}

// Tickets, and what waits, are used again: a message costs few allocations.
var (
	senders   = sync.Pool{New: func() any { return &sender{ready: make(chan struct{}, 1)} }}
	receivers = sync.Pool{New: func() any { return &receiver{ready: make(chan struct{}, 1)} }}
	arrivals  = sync.Pool{New: func() any { return new(arrival) }}
	plannings = sync.Pool{New: func() any { return new([]wire.Frame) }}
)

// arrival is a message whose header is there.
type arrival struct {
	source int // of the job
	prefix wire.Prefix
	first  []byte // the beginning of the header
	buffer *slotBuffer
	whole  []byte        // all of the header, once it was read
	long   *headerBuffer // its memory, if that is not the buffer
}

// receiver waits for a message.
type receiver struct {
	comm   uint32
	source int           // of the job, or AnySource
	tag    int           // or AnyTag
	ready  chan struct{} // receives once
	got    *arrival
}

func (r *receiver) matches(a *arrival) bool {
	return a.prefix.Comm == r.comm && (r.source == mpicomm.AnySource || r.source == a.source) && (r.tag == mpicomm.AnyTag || uint32(r.tag) == a.prefix.Tag)
}

var (
	theChannel  atomic.Pointer[channel]
	openChannel sync.Mutex
)

// openedChannel is the channel of this process. Opening it is local.
func openedChannel() (*channel, error) {
	if ch := theChannel.Load(); ch != nil && mpicomm.Initialized() {
		return ch, nil
	}
	p, err := inner.ThisProcess()
	if err != nil {
		return nil, err
	}
	openChannel.Lock()
	defer openChannel.Unlock()
	ch := theChannel.Load()
	if ch == nil {
		plans, err := wire.ParsePlans(p.Plans)
		if err != nil {
			return nil, err
		}
		ch = &channel{
			comm: p.Private.(*mpicomm.Comm), limits: p.Limits, plans: plans,
			turn: make(chan struct{}, 1), peers: map[int]*peer{},
		}
		theChannel.Store(ch)
	}
	return ch, nil
}

// peer is what is kept of a rank of the job. The caller holds mu.
func (ch *channel) peer(rank int) *peer {
	p := ch.peers[rank]
	if p == nil {
		p = &peer{next: 1, streams: map[streamKey]*stream{}, bySlot: map[uint16]*stream{}}
		ch.peers[rank] = p
	}
	return p
}

// ---- slots ----

// lastSlot is the largest tag that every MPI has.
const lastSlot = 32767

// enqueue asks for a slot for a message, in call order. The sender is ready at
// once if there is one.
func (ch *channel) enqueue(dest int, key streamKey) *sender {
	ch.mu.Lock()
	defer ch.unlock()
	p := ch.peer(dest)
	s := p.streams[key]
	if s == nil {
		s = &stream{key: key}
		p.streams[key] = s
	}
	w := senders.Get().(*sender)
	w.slot = 0
	s.queue = append(s.queue, w)
	ch.grant(p, s)
	return w
}

// grant gives the first sender of a stream a slot, if it may have one.
func (ch *channel) grant(p *peer, s *stream) {
	if len(s.queue) == 0 || s.posting || s.unacked >= window {
		return
	}
	w := s.queue[0]
	switch {
	case len(p.free) > 0:
		last := len(p.free) - 1
		w.slot = p.free[last]
		p.free = p.free[:last]
	case p.next <= lastSlot:
		w.slot = p.next
		p.next++
	default:
		return
	}
	s.queue = slices.Delete(s.queue, 0, 1)
	s.posting = true
	s.unacked++
	p.bySlot[w.slot] = s
	ch.signal(w.ready)
}

// signal makes somebody ready. The caller holds mu.
func (ch *channel) signal(ready chan struct{}) {
	ready <- struct{}{}
	ch.wake = ch.wake || ready == ch.driving
}

// unlock gives mu back. If somebody has become ready who waits for a header, it
// gets an empty one from this rank itself, so that it looks.
func (ch *channel) unlock() {
	wake := ch.wake
	ch.wake = false
	ch.mu.Unlock()
	if !wake {
		return
	}
	h := wire.Header{}
	b, _ := h.Append(nil)                                                                         // it is of the shortest kind
	_, _ = mpicomm.Do(context.Background(), ch.comm.SendOp(mem.Of(b), ch.comm.Rank(), headerTag)) // short: it is copied
}

// posted tells that the message of a sender is on its way, or with sent false
// that it will never be.
func (ch *channel) posted(dest int, key streamKey, w *sender, sent bool) {
	ch.mu.Lock()
	defer ch.unlock()
	p := ch.peer(dest)
	s := p.streams[key]
	if w.slot == 0 { // it never had one
		s.queue = slices.DeleteFunc(s.queue, func(x *sender) bool { return x == w })
	} else {
		s.posting = false
		if !sent {
			ch.acknowledged(p, w.slot)
		}
	}
	ch.grant(p, s)
	p.forget(s)
	select {
	case <-w.ready: // it had a slot, and its context ended
	default:
	}
	senders.Put(w)
}

// acknowledged frees a slot, and returns whether it was in use.
func (ch *channel) acknowledged(p *peer, slot uint16) bool {
	s := p.bySlot[slot]
	if s == nil {
		return false
	}
	delete(p.bySlot, slot)
	p.free = append(p.free, slot)
	s.unacked--
	ch.grant(p, s)
	p.forget(s)
	// Another stream may have waited for any slot at all.
	if len(p.free) == 1 && p.next > lastSlot {
		for _, other := range p.streams {
			ch.grant(p, other)
		}
	}
	return true
}

func (p *peer) forget(s *stream) {
	if s.unacked == 0 && len(s.queue) == 0 && !s.posting {
		delete(p.streams, s.key)
	}
}

// ---- headers ----

// await waits until ready receives, and meanwhile receives headers for everybody
// unless somebody else does.
func (ch *channel) await(ctx context.Context, ready chan struct{}) error {
	for {
		select {
		case <-ready:
			return nil
		default:
		}
		select {
		case <-ready:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case ch.turn <- struct{}{}:
		}
		if err := ch.drive(ctx, ready); err != nil {
			return err
		}
	}
}

// drive receives one header, unless its caller, who has the turn, has become
// ready in the meantime, and gives the turn back.
func (ch *channel) drive(ctx context.Context, ready chan struct{}) error {
	ch.setDriving(ready)
	defer func() {
		ch.setDriving(nil)
		<-ch.turn
	}()
	if len(ready) > 0 { // nobody else receives from it
		return nil
	}
	return ch.receiveHeader(ctx)
}

func (ch *channel) setDriving(ready chan struct{}) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.driving = ready
}

// receiveHeader receives one header and gives it to whom it belongs.
func (ch *channel) receiveHeader(ctx context.Context) error {
	in, late := ch.lateIn, ch.late
	var status mpicomm.Status
	var err error
	if late != nil {
		if status, err = late.Wait(ctx); err != nil && ctx.Err() != nil {
			return ctx.Err()
		}
		ch.late, ch.lateIn = nil, nil
	} else {
		in = slotBuffers.Get().(*slotBuffer)
		op := ch.comm.RecvOp(mem.Of(in[:]), mpicomm.AnySource, headerTag)
		op.Fits = true
		status, err = mpicomm.Do(ctx, op)
		if r := inFlight(err); r != nil {
			ch.late, ch.lateIn = r, in
			return ctx.Err()
		}
	}
	if err != nil {
		return err
	}
	return ch.handle(status.Source, in, in[:status.Count])
}

// inFlight is the request of an InFlightError, or nil for another error or none.
func inFlight(err error) *mpicomm.Request {
	if err == nil {
		return nil
	}
	var flight *mpicomm.InFlightError
	if errors.As(err, &flight) {
		return flight.Request
	}
	return nil
}

// handle takes the acknowledgements out of a header and hands the message to who
// waits for it.
func (ch *channel) handle(source int, buffer *slotBuffer, b []byte) error {
	var room [wire.MaxAcks]uint16
	prefix, acks, err := wire.ReadPrefix(b, ch.limits, room[:0])
	if err != nil {
		return fmt.Errorf("from rank %d of the job: %w", source, err)
	}
	ch.mu.Lock()
	defer ch.mu.Unlock()
	p := ch.peer(source)
	for _, slot := range acks {
		if !ch.acknowledged(p, slot) {
			return fmt.Errorf("from rank %d of the job: %w: slot %d is acknowledged, but not in use", source, wire.ErrHeader, slot)
		}
	}
	if prefix.Slot == 0 {
		slotBuffers.Put(buffer)
	} else {
		a := arrivals.Get().(*arrival)
		*a = arrival{source: source, prefix: prefix, first: b, buffer: buffer}
		ch.offer(a, false)
	}
	ch.wake = false // we look anyway
	return nil
}

// offer gives a message to the first receiver that matches it, or keeps it: at
// the front if it was given back. The caller holds mu.
func (ch *channel) offer(a *arrival, back bool) {
	for i, r := range ch.waiting {
		if r.matches(a) {
			ch.waiting = slices.Delete(ch.waiting, i, i+1)
			r.got = a
			ch.signal(r.ready)
			return
		}
	}
	at := len(ch.arrived)
	if back {
		at = 0
	}
	ch.arrived = slices.Insert(ch.arrived, at, a)
}

// match takes the first message that has arrived for the receiver, or makes it
// wait.
func (ch *channel) match(r *receiver) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	for i, a := range ch.arrived {
		if r.matches(a) {
			ch.arrived = slices.Delete(ch.arrived, i, i+1)
			r.got = a
			ch.signal(r.ready)
			return
		}
	}
	ch.waiting = append(ch.waiting, r)
}

// giveUp ends the wait of a receiver; a message that it has got meanwhile goes
// back.
func (ch *channel) giveUp(r *receiver) {
	ch.mu.Lock()
	ch.waiting = slices.DeleteFunc(ch.waiting, func(x *receiver) bool { return x == r })
	got := r.got
	ch.mu.Unlock()
	if got != nil {
		ch.giveBack(got)
	}
}

// giveBack leaves a message to the next receiver that matches it.
func (ch *channel) giveBack(a *arrival) {
	ch.mu.Lock()
	defer ch.unlock()
	ch.offer(a, true)
}

// takeAcks takes acknowledgements that a header to a rank carries along, and
// appends them to acks.
func (ch *channel) takeAcks(rank int, acks []uint16) []uint16 {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	p := ch.peer(rank)
	n := min(len(p.owed), wire.MaxAcks)
	acks = append(acks, p.owed[:n]...)
	p.owed = slices.Delete(p.owed, 0, n)
	return acks
}

// owe notes slots that are to be acknowledged, and returns how many there are.
func (ch *channel) owe(rank int, slots ...uint16) int {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	p := ch.peer(rank)
	p.owed = append(p.owed, slots...)
	return len(p.owed)
}

// acknowledge notes that a message was received, and tells its sender when there
// are enough of them.
func (ch *channel) acknowledge(a *arrival) error {
	source, slot := a.source, a.prefix.Slot
	slotBuffers.Put(a.buffer)
	if a.long != nil {
		a.long.free()
	}
	*a = arrival{}
	arrivals.Put(a)
	if ch.owe(source, slot) < ackBatch {
		return nil
	}
	h := wire.Header{Acks: ch.takeAcks(source, nil)}
	b, err := h.Append(nil)
	if err != nil {
		return err
	}
	_, err = mpicomm.Do(context.Background(), ch.comm.SendOp(mem.Of(b), source, headerTag)) // short: it is copied
	return err
}
