package coro

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mpi4go/mpi4go/internal/device"
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
	stages   []bool                   // by rank: whether it may have device memory
	takes    func(device.Memory) bool // whether MPI does
	turn     turn
	late     *mpicomm.Request // a receive of a header that outlived its caller; under turn
	lateIn   *arrival
	received atomic.Uint64 // headers so far
	keeper   keeper

	mu       sync.Mutex
	peers    []*peer // by rank of the job; nil where there was nothing yet
	matching matching
	ends     map[uint32]*end // of connections, by their number here
	control  func(source int, kind uint32, body []byte)
	early    []controlMessage // that came before there was a function for them
	driving  chan struct{}    // the ready of the goroutine that receives headers
	handling bool             // which looks at a header at the moment
	served   bool             // by which it has become ready
	wake     bool             // it has become ready for another reason
}

const (
	headerTag = 0
	window    = 64 // messages of a stream that are not acknowledged
	ackBatch  = 16 // acknowledgements that are not kept for the next header
)

// peer is what this process keeps of another, and of itself.
type peer struct {
	rank     int
	slots    slots
	streams  map[streamKey]*stream // in use, and some that were
	recent   *stream               // one of them, which was used last
	owed     []uint16              // slots of its messages that we have to acknowledge
	heard    uint64                // headers from it so far
	broken   error                 // why nothing more can be understood of what it sends
	discards discards
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
			comm: p.Private.(*mpicomm.Comm), limits: p.Limits, plans: plans, hosts: p.Hosts, stages: p.Stages, takes: p.Takes,
			turn: turn{freed: make(chan struct{}, 1)}, ends: map[uint32]*end{},
			matching: matching{boxes: map[boxKey]*box{}},
		}
		ch.peers = make([]*peer, ch.comm.Size())
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
	if ready == ch.driving {
		if ch.handling { // its own call
			ch.served, ch.driving = true, nil
			return
		}
		ch.wake = true
	}
	ready <- struct{}{}
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
	b, _ := h.Append(nil)                                      // it is of the shortest kind
	_, _ = ch.comm.Isend(mem.Of(b), ch.comm.Rank(), headerTag) // the caller may have the lead, and must not wait
}

// turn is held by the one goroutine that receives headers.
type turn struct {
	held    atomic.Bool
	waiting atomic.Int32  // who wants it
	freed   chan struct{} // receives, if there is room, when it is given back and somebody wants it
}

func (t *turn) try() bool { return t.held.CompareAndSwap(false, true) }

func (t *turn) giveBack() {
	t.held.Store(false)
	if t.waiting.Load() > 0 {
		select {
		case t.freed <- struct{}{}:
		default:
		}
	}
}

// await waits until ready receives, and meanwhile receives headers for everybody
// unless somebody else does.
func (ch *channel) await(ctx context.Context, ready chan struct{}) error {
	if len(ready) > 0 { // nobody else receives from it
		<-ready
		return nil
	}
	if ch.turn.try() {
		return ch.drive(ctx, ready)
	}
	ch.turn.waiting.Add(1)
	for !ch.turn.try() {
		select {
		case <-ready:
			ch.turn.waiting.Add(-1)
			return nil
		case <-ctx.Done():
			ch.turn.waiting.Add(-1)
			return ctx.Err()
		case <-ch.turn.freed:
		}
	}
	ch.turn.waiting.Add(-1)
	return ch.drive(ctx, ready)
}

// drive receives headers until its caller, who has the turn, has become ready, and
// gives the turn back.
func (ch *channel) drive(ctx context.Context, ready chan struct{}) (err error) {
	ch.mu.Lock()
	ch.driving, ch.served = ready, false
	ch.mu.Unlock()
	for err == nil && !ch.served && len(ready) == 0 {
		err = ch.receiveHeader(ctx)
	}
	if !ch.served {
		ch.mu.Lock()
		ch.driving = nil
		ch.mu.Unlock()
		if err == nil {
			<-ready
		}
	}
	ch.turn.giveBack()
	ch.keeper.left()
	return err
}

// receiveHeader receives one header and gives it to whom it belongs. The caller has
// the turn.
func (ch *channel) receiveHeader(ctx context.Context) error {
	if ch.late != nil {
		return ch.receiveLate(ctx)
	}
	in := arrivals.Get().(*arrival)
	status, err := mpicomm.Do(ctx, ch.headerOp(in))
	if r := inFlight(err); r != nil {
		ch.late, ch.lateIn = r, in
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	ch.handle(status.Source, in, status.Count)
	return nil
}

// headerOp describes a receive of the beginning of a header.
func (ch *channel) headerOp(in *arrival) mpicomm.Op {
	op := ch.comm.RecvOp(mem.Of(in.buffer[:]), mpicomm.AnySource, headerTag)
	op.Fits = true
	return op
}

// post posts a receive for the next header, unless there is one. The caller has the
// turn.
func (ch *channel) post() error {
	if ch.late != nil {
		return nil
	}
	in := arrivals.Get().(*arrival)
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
	switch {
	case errors.Is(err, context.Canceled) && ctx.Err() == nil: // whoever left it had it cancelled
		return nil
	case err != nil:
		return err
	}
	ch.handle(status.Source, in, status.Count)
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

// handle takes the acknowledgements out of a header of n bytes and hands the message
// to who waits for it. A header that cannot be understood concerns nobody but those
// who wait for its sender.
func (ch *channel) handle(source int, a *arrival, n int) {
	ch.received.Add(1)
	b := a.buffer[:n]
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
	used := false
	switch {
	case err != nil:
		ch.breakPeer(p, err)
	case prefix.Slot != 0:
		a.source, a.prefix, a.first = source, prefix, b
		ch.arrive(p, a)
		used = true
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
	if !used {
		a.free()
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
	return ch.peer(rank).takeAcks(acks)
}

func (p *peer) takeAcks(acks []uint16) []uint16 {
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
	a.free()
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
