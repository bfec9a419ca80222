package progress

import (
	"context"
	"runtime"
	"runtime/trace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mpi4go/mpi4go/internal/cmpi"
)

// Waiter is a goroutine that waits for some of a number of operations.
type Waiter struct {
	id   uint32 // what the slots of its operations name, for the poll in C
	need atomic.Int32
	ch   chan struct{} // receives once, when need reaches 0
}

// notify counts one operation; it returns whether that woke the waiter.
func (w *Waiter) notify() bool {
	if w.need.Add(-1) != 0 {
		return false
	}
	w.ch <- struct{}{}
	return true
}

// target of a single operation that nobody has registered for: see cmpi.Op.Reset.
func (op *Op) target() uint32 { return op.slot.Index + 1 }

// Run starts an operation or a set that is ready and waits for it. An error is
// the context's: it is then still in flight.
func (e *Engine) Run(ctx context.Context, op *Op) error {
	first, target := op.slot, op.target()
	if e.tryLead() {
		if e.lead(ctx, first, target, 1, op) {
			return nil
		}
	} else {
		e.push(first)
	}
	return e.Wait(ctx, op)
}

// Wait waits for an operation that was started. An error is the context's: the
// operation is then still in flight.
func (e *Engine) Wait(ctx context.Context, op *Op) error {
	if op.Done() {
		return nil
	}
	if !op.awaited.CompareAndSwap(false, true) {
		return e.waitChan(ctx, op) // another goroutine waits for it already
	}
	defer op.awaited.Store(false)
	w := &op.own
	if w.ch == nil {
		w.ch = make(chan struct{}, 1)
	}
	w.need.Store(1)
	if !op.waiter.CompareAndSwap(nil, w) {
		return e.waitChan(ctx, op) // it is done, or among those of a WaitFor
	}
	if op.slot != nil && e.tryLead() && e.lead(ctx, nil, op.target(), 1, op) || !e.sleep(ctx, w, op) {
		// It is done, or the context has ended.
		if op.waiter.CompareAndSwap(w, nil) {
			return ctx.Err()
		}
		<-w.ch
	}
	return nil
}

// waitChan is Wait for those who are not the first.
func (e *Engine) waitChan(ctx context.Context, op *Op) error {
	if op.Done() {
		return nil
	}
	if trace.IsEnabled() {
		defer e.region(ctx, op).End()
	}
	select {
	case <-op.Chan():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sleep parks until the waiter, of an operation or the first of some, is notified or
// the context ends, which returns false.
func (e *Engine) sleep(ctx context.Context, w *Waiter, op *Op) bool {
	if trace.IsEnabled() {
		defer e.region(ctx, op).End()
	}
	if ctx.Done() == nil {
		<-w.ch
		return true
	}
	select {
	case <-w.ch:
		return true
	case <-ctx.Done():
		return false
	}
}

// region shows in an execution trace that the goroutine is about to park.
func (e *Engine) region(ctx context.Context, op *Op) *trace.Region {
	kind, which := e.Describe(op)
	r := trace.StartRegion(ctx, "mpi "+kind)
	trace.Log(ctx, "mpi", which)
	return r
}

// waited is what a leader polls for.
type waited interface{ Done() bool }

// spins is how long to poll in one go: briefly while somebody that was woken has
// not had its turn, because what it does next is worth more.
func (e *Engine) spins() int {
	if e.owed {
		return min(4, e.Spins)
	}
	return e.Spins
}

// yield lets those run that were woken. What they do next is pushed, because
// the caller keeps the lead, and is started by its next poll.
func (e *Engine) yield() {
	e.owed = false
	runtime.Gosched()
}

// lead polls until what is done, or the driver has to take over, or the context
// ends, and gives the lead back. It returns whether what is done.
func (e *Engine) lead(ctx context.Context, chain *cmpi.Op, target uint32, want int, what *Op) bool {
	e.reap(e.c.Poll(chain, target, want, e.spins()))
	if what.Done() {
		e.release()
		return true
	}
	return e.leadOn(ctx, target, want, what)
}

func (e *Engine) leadOn(ctx context.Context, target uint32, want int, what waited) bool {
	tired := false
	defer func() {
		e.release()
		if tired {
			e.wakeDriver(true)
		}
	}()
	// Only the time spent polling counts, not that in which the system let
	// somebody else have the core.
	const chunk = 50 * time.Microsecond // more than a poll takes
	led, last := time.Duration(0), time.Now()
	fruitless, turn := 0, 1 // polls, and after how many of them other goroutines have a turn
	for {
		if e.owed {
			led = 0
			fruitless, turn = 0, 1
		}
		// What the peer waits for may be a goroutine that is behind this one.
		if fruitless == turn && !e.c.Transferring() {
			turn *= 2
			e.yield()
		} else if e.owed || e.c.Tired() {
			e.yield()
		}
		fruitless++
		e.reap(e.c.Poll(nil, target, want, e.spins()))
		switch {
		case what.Done():
			return true
		case ctx.Err() != nil:
			return false
		}
		now := time.Now()
		led += min(now.Sub(last), chunk)
		last = now
		limit := e.LeadTime
		if e.c.Transferring() { // the driver would not nap either
			limit = max(limit, time.Duration(e.Patience.HotFor))
		}
		if led >= limit {
			tired = true
			return false
		}
	}
}

var waiters = sync.Pool{New: func() any { return &Waiter{ch: make(chan struct{}, 1)} }}

// ids numbers the waiters apart from the indices that Op.target uses.
var ids atomic.Uint32

// Done tells whether enough of the operations are done.
func (w *Waiter) Done() bool { return w.need.Load() <= 0 }

// WaitFor waits until at least want of n operations are done. An error is the
// context's.
func (e *Engine) WaitFor(ctx context.Context, want, n int, at func(int) *Op) error {
	const guard = 1 << 30 // keeps the count away from 0 until it is complete
	w := waiters.Get().(*Waiter)
	w.id = ids.Add(1) | 1<<31
	w.need.Store(guard)
	registered := 0
	var shared sharedOps
	for i := range n {
		op := at(i)
		switch {
		case op.waiter.CompareAndSwap(nil, w):
			if op.slot != nil {
				op.slot.Waiter = w.id // a hint: by now the slot may be another's
			}
			registered++
		case op.Done():
			want--
		default: // another goroutine waits for it
			shared.add(w, op)
		}
	}
	var err error
	token := false // whether w.ch has received, or will
	if left := w.need.Add(int32(want) - guard); left > 0 {
		token = true
		switch {
		case e.tryLead() && e.leadOn(ctx, w.id, int(left), w):
			<-w.ch
		case !e.sleep(ctx, w, at(0)):
			token, err = false, ctx.Err()
		}
	}
	for i := range n {
		if at(i).waiter.CompareAndSwap(w, nil) {
			registered--
		}
	}
	// What is still registered has completed, but its count may be on its way.
	final := int32(want - registered - shared.stop())
	for w.need.Load() != final {
		runtime.Gosched()
	}
	if err != nil && final <= 0 && !token {
		<-w.ch // it was enough after all
		err = nil
	}
	waiters.Put(w)
	return err
}

// sharedOps are operations that somebody else waits for as well.
type sharedOps struct {
	watching sync.WaitGroup
	gone     chan struct{}
	done     atomic.Int32
}

func (s *sharedOps) add(w *Waiter, op *Op) {
	if s.gone == nil {
		s.gone = make(chan struct{})
	}
	s.watching.Go(func() {
		select {
		case <-op.Chan():
			s.done.Add(1)
			w.notify()
		case <-s.gone:
		}
	})
}

// stop ends the watching and returns how many of the operations were done.
func (s *sharedOps) stop() int {
	if s.gone == nil {
		return 0
	}
	close(s.gone)
	s.watching.Wait()
	return int(s.done.Load())
}
