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
// slot, until the receiver acknowledges it. slots.go has the slots, match.go who
// gets which message, keeper.go what is done while nobody waits, and
// connection.go the entry for package transport.
type channel struct {
	comm     *mpicomm.Comm // of all ranks of the job
	limits   wire.Limits
	plans    wire.Plans
	hosts    []string
	turn     chan struct{}    // held by the one goroutine that receives headers
	late     *mpicomm.Request // a receive of a header that outlived its caller; under turn
	lateIn   *slotBuffer
	received atomic.Uint64 // headers so far
	keeper   keeper

	mu       sync.Mutex
	peers    map[int]*peer // by rank of the job
	matching matching
	ends     map[uint32]*end // of connections, by their number here
	control  func(source int, kind uint32, body []byte)
	early    []controlMessage // that came before there was a function for them
	driving  chan struct{}    // the ready of the goroutine that receives headers
	handling bool             // which looks at a header at the moment
	wake     bool             // it has become ready for another reason than a header
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
	rank     int
	slots    slots
	streams  map[streamKey]*stream
	owed     []uint16 // slots of its messages that we have to acknowledge
	heard    uint64   // headers from it so far
	broken   error    // why nothing more can be understood of what it sends
	discards discards
}

// Tickets, and what waits, are used again: a message costs few allocations.
var (
	senders   = sync.Pool{New: func() any { return &sender{ready: make(chan struct{}, 1)} }}
	receivers = sync.Pool{New: func() any { return &receiver{ready: make(chan struct{}, 1)} }}
	arrivals  = sync.Pool{New: func() any { return new(arrival) }}
	plannings = sync.Pool{New: func() any { return new([]wire.Frame) }}
)

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
			comm: p.Private.(*mpicomm.Comm), limits: p.Limits, plans: plans, hosts: p.Hosts,
			turn: make(chan struct{}, 1), peers: map[int]*peer{}, ends: map[uint32]*end{},
			matching: matching{boxes: map[boxKey]*box{}},
		}
		ch.keeper.nudge = make(chan struct{}, 1)
		inner.BeforeFinalize(ch.finalize)
		theChannel.Store(ch)
	}
	return ch, nil
}

// peer is what is kept of a rank of the job. The caller holds mu.
func (ch *channel) peer(rank int) *peer {
	p := ch.peers[rank]
	if p == nil {
		p = &peer{rank: rank, streams: map[streamKey]*stream{}}
		ch.peers[rank] = p
	}
	return p
}

// signal makes somebody ready. The caller holds mu.
func (ch *channel) signal(ready chan struct{}) {
	ready <- struct{}{}
	ch.wake = ch.wake || ready == ch.driving && !ch.handling
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

// await waits until ready receives, and meanwhile receives headers for everybody
// unless somebody else does.
func (ch *channel) await(ctx context.Context, ready chan struct{}) error {
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
		return ch.drive(ctx, ready)
	}
}

// drive receives headers until its caller, who has the turn, has become ready, and
// gives the turn back.
func (ch *channel) drive(ctx context.Context, ready chan struct{}) error {
	ch.setDriving(ready)
	defer func() {
		ch.setDriving(nil)
		<-ch.turn
		ch.keeper.left()
	}()
	for len(ready) == 0 { // nobody else receives from it
		if err := ch.receiveHeader(ctx); err != nil {
			return err
		}
	}
	<-ready
	return nil
}

func (ch *channel) setDriving(ready chan struct{}) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.driving = ready
}

// receiveHeader receives one header and gives it to whom it belongs. The caller has
// the turn.
func (ch *channel) receiveHeader(ctx context.Context) error {
	if ch.late != nil {
		return ch.receiveLate(ctx)
	}
	in := slotBuffers.Get().(*slotBuffer)
	status, err := mpicomm.Do(ctx, ch.headerOp(in))
	if r := inFlight(err); r != nil {
		ch.late, ch.lateIn = r, in
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	ch.handle(status.Source, in, in[:status.Count])
	return nil
}

// headerOp describes a receive of the beginning of a header.
func (ch *channel) headerOp(in *slotBuffer) mpicomm.Op {
	op := ch.comm.RecvOp(mem.Of(in[:]), mpicomm.AnySource, headerTag)
	op.Fits = true
	return op
}

// post posts a receive for the next header, unless there is one. The caller has the
// turn.
func (ch *channel) post() error {
	if ch.late != nil {
		return nil
	}
	in := slotBuffers.Get().(*slotBuffer)
	r, err := mpicomm.Post(ch.headerOp(in))
	if err == nil {
		ch.late, ch.lateIn = r, in
	}
	return err
}

// receiveLate is receiveHeader with a receive that was posted before. If the context
// ends it is left for the next.
func (ch *channel) receiveLate(ctx context.Context) error {
	status, err := ch.late.Wait(ctx)
	if err != nil && ctx.Err() != nil {
		var done bool
		if status, done, err = ch.late.Test(); !done {
			return ctx.Err()
		}
	}
	in := ch.lateIn
	ch.late, ch.lateIn = nil, nil
	if err != nil {
		return err
	}
	ch.handle(status.Source, in, in[:status.Count])
	return nil
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
// waits for it. A header that cannot be understood concerns nobody but those who
// wait for its sender.
func (ch *channel) handle(source int, buffer *slotBuffer, b []byte) {
	ch.received.Add(1)
	var room [wire.MaxAcks]uint16
	prefix, acks, err := wire.ReadPrefix(b, ch.limits, room[:0])
	ch.mu.Lock()
	ch.handling = true
	p := ch.peer(source)
	p.heard++
	for _, slot := range acks {
		if err == nil && !ch.acknowledged(p, slot) {
			err = fmt.Errorf("%w: slot %d is acknowledged, but not in use", wire.ErrHeader, slot)
		}
	}
	var control func(source int, kind uint32, body []byte)
	switch {
	case err != nil:
		ch.breakPeer(p, err)
	case prefix.Slot != 0:
		a := arrivals.Get().(*arrival)
		*a = arrival{source: source, prefix: prefix, first: b, buffer: buffer}
		ch.arrive(p, a)
		buffer = nil
	case prefix.Comm == wire.Control:
		control = ch.control
		if control == nil && len(ch.early) < maxEarly {
			ch.early = append(ch.early, controlMessage{source, slices.Clone(b)})
		}
	}
	ch.handling, ch.wake = false, false // whoever drives looks anyway
	ch.mu.Unlock()
	if control != nil {
		ch.controlled(control, source, b)
	}
	if buffer != nil {
		slotBuffers.Put(buffer)
	}
}

// breakPeer notes that nothing more can be understood of what a rank sends: who
// waits for it, and will, fails. The caller holds mu.
func (ch *channel) breakPeer(p *peer, err error) {
	if p.broken != nil {
		return
	}
	p.broken = fmt.Errorf("from rank %d of the job: %w", p.rank, err)
	ch.matching.fail(ch, p.rank, p.broken)
	for _, s := range p.streams {
		ch.failSenders(s, p.broken)
	}
	for _, e := range ch.ends {
		if e.out.peer == p {
			ch.failSenders(&e.out, p.broken)
			ch.failReceivers(e, p.broken)
		}
	}
}

// misunderstood is breakPeer for who does not hold mu.
func (ch *channel) misunderstood(rank int, err error) {
	ch.mu.Lock()
	defer ch.unlock()
	ch.breakPeer(ch.peer(rank), err)
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
// are enough of them, or at once if the sender is short of slots.
func (ch *channel) acknowledge(a *arrival) error {
	source, slot := a.source, a.prefix.Slot
	slotBuffers.Put(a.buffer)
	if a.long != nil {
		a.long.free()
	}
	*a = arrival{}
	arrivals.Put(a)
	if ch.owe(source, slot) < ackBatch && slot <= manySlots {
		return nil
	}
	h := wire.Header{Acks: ch.takeAcks(source, nil)}
	b, err := h.Append(nil)
	if err != nil {
		return err
	}
	_, err = ch.comm.Isend(mem.Of(b), source, headerTag) // short: it is copied
	return err
}
