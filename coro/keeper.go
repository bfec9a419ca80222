package coro

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/mpi4go/mpi4go/internal/wire"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
)

// keeper is a goroutine that receives headers while nobody waits for any, once
// there are connections: dials, closes and signs of life do not wait for somebody
// who receives. It keeps out of the way of those who do. After nobody has received a
// header for a while it posts a receive, and takes the turn when that is done. Who
// comes before that takes the turn, and the receive, over.
type keeper struct {
	cancel context.CancelFunc // nil before it runs; under ch.mu
	gone   chan struct{}
	nudge  chan struct{}
	urgent atomic.Bool // it is to post its receive at once
	parked atomic.Bool // until somebody gives the turn back
}

// keeperWatch is how long nobody must have received a header. A timer costs the
// core that it fires on 24 us.
const keeperWatch = 2 * time.Millisecond

// left is called after the turn was given back.
func (k *keeper) left() {
	if k.parked.Load() && k.parked.CompareAndSwap(true, false) {
		k.wake()
	}
}

func (k *keeper) wake() {
	select {
	case k.nudge <- struct{}{}:
	default:
	}
}

// keep is the goroutine.
func (ch *channel) keep(ctx context.Context) {
	k := &ch.keeper
	defer close(k.gone)
	watch := time.NewTimer(keeperWatch)
	for ctx.Err() == nil {
		if !k.urgent.Swap(false) {
			received := ch.received.Load()
			watch.Reset(keeperWatch)
			select {
			case <-watch.C:
			case <-k.nudge:
				continue
			case <-ctx.Done():
				return
			}
			if ch.received.Load() != received { // others receive them
				continue
			}
		}
		if !ch.stand(ctx) {
			k.parked.Store(true)
			if ch.turn.held.Load() {
				select {
				case <-k.nudge:
				case <-ctx.Done():
				}
			}
			k.parked.Store(false)
		}
	}
}

// stand receives headers as long as nobody else does. It returns false if somebody
// has the turn.
func (ch *channel) stand(ctx context.Context) bool {
	for {
		if !ch.turn.try() {
			return false
		}
		err := ch.post()
		posted := ch.late
		ch.turn.giveBack()
		if err != nil { // of MPI: others will meet it, too
			return true
		}
		select {
		case <-posted.Done():
		case <-ctx.Done():
			return true
		}
		if !ch.turn.try() {
			return false
		}
		mine := ch.late == posted
		if mine {
			err = ch.receiveHeader(ctx)
		}
		ch.turn.giveBack()
		if !mine || err != nil {
			return true
		}
	}
}

// attend makes the keeper receive headers unless somebody else does, for who waits
// without receiving any.
func (ch *channel) attend() {
	ch.keeper.urgent.Store(true)
	ch.keeper.wake()
}

// startKeeper starts the keeper, once. The caller holds mu.
func (ch *channel) startKeeper() {
	if ch.keeper.cancel != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ch.keeper.cancel, ch.keeper.gone = cancel, make(chan struct{})
	go ch.keep(ctx)
}

// finalize ends the keeper, and the receive of a header that is still posted.
func (ch *channel) finalize() {
	ch.mu.Lock()
	cancel, gone := ch.keeper.cancel, ch.keeper.gone
	ch.mu.Unlock()
	if cancel != nil {
		cancel()
		<-gone
	}
	if !ch.turn.try() {
		return // somebody waits for a message, and knows it
	}
	defer ch.turn.giveBack()
	if ch.late != nil && ch.late.Cancel() == nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		for ch.late != nil && ctx.Err() == nil {
			_ = ch.receiveHeader(ctx)
		}
	}
}

// controlMessage is one that came too early.
type controlMessage struct {
	source int
	header []byte
}

// maxEarly bounds them.
const maxEarly = 1 << 16

// controlled calls a function with what a control message says.
func (ch *channel) controlled(f func(source int, kind uint32, body []byte), source int, header []byte) {
	h, body, err := wire.Decode(header, ch.limits)
	if err == nil && len(h.Frames) == 1 && len(body) == h.Frames[0].Len {
		f(source, h.Tag, body)
		return
	}
	if err == nil {
		err = fmt.Errorf("%w: a control message of %d frames", wire.ErrHeader, len(h.Frames))
	}
	ch.misunderstood(source, err)
}

// sendControl sends a control message, which neither waits nor is acknowledged.
func (ch *channel) sendControl(dest int, kind uint32, body []byte) error {
	h := wire.Header{Comm: wire.Control, Tag: kind, Frames: []wire.Frame{{Len: len(body)}}}
	b, err := h.Append(make([]byte, 0, 256))
	if err != nil {
		return err
	}
	_, err = ch.comm.Isend(mem.Of(append(b, body...)), dest, headerTag)
	return err
}

// discards are messages to connections that are closed. What was announced is
// received, so that its sender is not held up.
type discards struct {
	queue   fifo[*arrival]
	running bool
}

// discard is called with mu held.
func (ch *channel) discard(p *peer, a *arrival) {
	a.end = nil
	p.discards.queue.push(a)
	if !p.discards.running {
		p.discards.running = true
		go ch.discardAll(p)
	}
}

func (ch *channel) discardAll(p *peer) {
	for {
		ch.mu.Lock()
		if p.discards.queue.len() == 0 || !mpicomm.Initialized() {
			p.discards.running = false
			ch.mu.Unlock()
			return
		}
		a := p.discards.queue.pop()
		ch.mu.Unlock()
		r := receivings.Get().(*receiving)
		r.ch, r.known, r.alloc, r.got = ch, &worldComm, fresh, a
		_, _ = r.receive(context.Background())
		r.free()
	}
}
