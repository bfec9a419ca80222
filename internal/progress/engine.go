package progress

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/mpi4go/mpi4go/internal/cmpi"
)

// Config tunes an engine.
type Config struct {
	Spins       int           // polls in one cgo call
	LeadTime    time.Duration // how long a waiter polls before the driver takes over
	Watch       time.Duration // how often the driver looks whether others still poll
	Yield       int           // polls between two sched_yield, 0 for never
	Patience    cmpi.Patience
	MaxDetached int64       // sends that may be queued without anybody waiting for them
	Trace       bool        // record where operations are started
	Funnel      bool        // one thread, which runs Engine.Funnel, makes every MPI call
	Bells       *cmpi.Bells // or nil
	AllRing     bool        // every message of this process comes with a bell

	// Describe names the kind of an operation, and says which it is, for an execution trace.
	Describe func(op *Op) (kind, which string)
}

// Engine drives the operations of one process.
type Engine struct {
	Config
	lib   *cmpi.Library
	c     *cmpi.Engine
	slots slots

	parked     atomic.Bool // the driver waits for wake
	urgent     atomic.Bool // it is to poll at once
	wake       chan struct{}
	driverDone chan struct{}
	calls      chan func() // for the funnel's thread
	stopping   atomic.Bool
	closed     atomic.Bool
	exclusives atomic.Uint64 // calls of Exclusive so far
	exclusive  atomic.Uint64 // the number of the one that has the lead, or 0

	owed     bool         // somebody was woken and has not had its turn; under the lead
	detached atomic.Int64 // queued sends that nobody waits for
	later    later
	// sync shows the race detector the order that the lead imposes, which it
	// cannot see in C memory.
	sync atomic.Int64
}

// New makes the engine of an initialised library and starts its driver.
func New(lib *cmpi.Library, quirks uint32, config Config) *Engine {
	e := &Engine{
		Config:     config,
		lib:        lib,
		c:          lib.NewEngine(quirks, config.Yield),
		wake:       make(chan struct{}, 1),
		driverDone: make(chan struct{}),
		calls:      make(chan func(), 1),
	}
	if config.Bells != nil {
		e.c.Sit(config.Bells, config.AllRing)
	}
	if config.Funnel {
		e.c.Lead.Store(cmpi.LeadDriver)
	} else {
		go e.drive()
	}
	return e
}

// tryLead takes the lead if it is free, or if the driver holds it.
func (e *Engine) tryLead() bool {
	if !e.c.Lead.CompareAndSwap(cmpi.LeadFree, cmpi.LeadWaiter) && !e.preemptDriver() {
		return false
	}
	if raceEnabled {
		e.sync.Add(1)
	}
	return true
}

// preemptDriver asks the driver to step back, and takes the lead when it does.
func (e *Engine) preemptDriver() bool {
	if e.Funnel {
		return false
	}
	const tries = 200 // of a few nanoseconds; the driver answers within a poll
	for i := range tries + 8 {
		switch e.c.Lead.Load() {
		case cmpi.LeadFree:
			if e.c.Lead.CompareAndSwap(cmpi.LeadFree, cmpi.LeadWaiter) {
				e.c.Preempt.Store(0)
				return true
			}
		case cmpi.LeadDriver:
			e.c.Preempt.Store(1)
			if i >= tries {
				runtime.Gosched()
			}
		default:
			return false
		}
	}
	e.c.Preempt.Store(0) // it may share our core: let it go on
	return false
}

// release gives the lead back. It does not leave behind what was pushed in the
// meantime, and sees to it that somebody polls for what is outstanding.
func (e *Engine) release() {
	if e.c.Tired() {
		e.owed = false
		defer runtime.Gosched()
	}
	for {
		if raceEnabled {
			e.sync.Add(1)
		}
		outstanding := e.c.Leave()
		if !e.c.Submitted() {
			if outstanding {
				e.wakeDriver(false)
			}
			return
		}
		if !e.tryLead() {
			return
		}
		e.reap(e.c.Poll(nil, 0, 0, 0))
	}
}

// Start makes an operation of spec and begins it, without waiting for it.
func (e *Engine) Start(op *Op, spec *Spec) {
	if e.Trace || !e.tryLead() {
		op.Init(e, *spec)
		e.Begin(op)
		return
	}
	s := e.slots.take()
	spec.reset(s)
	spec.load(s)
	op.attach(e, spec, s)
	e.reap(e.c.Poll(s, 0, 0, 0))
	e.release()
}

// Begin begins an operation or a set that Init or InitSet has made ready, and
// does not wait for it.
func (e *Engine) Begin(op *Op) { e.start(op.slot) }

// Attend makes the driver poll, for somebody who waits outside the engine.
func (e *Engine) Attend() { e.wakeDriver(true) }

// Progress polls once unless somebody else does.
func (e *Engine) Progress() {
	if e.tryLead() {
		e.reap(e.c.Poll(nil, 0, 0, 1))
		e.release()
	}
}

// start begins a chain of operations.
func (e *Engine) start(first *cmpi.Op) {
	if e.tryLead() {
		e.reap(e.c.Poll(first, 0, 0, 0))
		e.release()
		return
	}
	e.push(first)
}

// push submits a chain to whoever leads.
func (e *Engine) push(first *cmpi.Op) {
	if raceEnabled {
		e.sync.Add(1)
	}
	// The stack is last in, first out, so the chain goes onto it in reverse.
	var last *cmpi.Op
	for s := first; s != nil; {
		next := s.NextOp()
		s.Link(last)
		last, s = s, next
	}
	e.c.Push(last, first)
	switch {
	case e.Funnel:
		e.wakeDriver(true)
	case e.c.Lead.Load() == cmpi.LeadFree && e.tryLead():
		// The leader left before it could see the chain.
		e.reap(e.c.Poll(nil, 0, 0, 0))
		e.release()
	}
}

// reap hands over the operations that are done and wakes who waits for them; the
// leader owes them a turn then. The caller holds the lead.
func (e *Engine) reap(done *cmpi.Op) {
	if raceEnabled {
		e.sync.Add(1) // after what was pushed, whose order only C knows
	}
	for s := done; s != nil; {
		next := s.NextOp()
		owner := e.slots.owner(s).Load()
		switch {
		case owner.detach != nil:
			e.detached.Add(-1)
			if s.RC != 0 {
				owner.detach(s)
			}
			e.slots.owner(s).Store(nil)
			e.slots.give(s)
		case owner.finish():
			e.owed = true
		}
		s = next
	}
}

// Discard ends an operation that was made ready but is not to be begun, as if it
// were complete.
func (e *Engine) Discard(op *Op) {
	e.Exclusive(func() {
		if op.finish() {
			e.owed = true
		}
	})
}

// Exclusive runs f while nobody else calls MPI, on the one thread that may if
// there is one.
func (e *Engine) Exclusive(f func()) {
	if e.closed.Load() && !e.Funnel {
		f()
		return
	}
	if e.Funnel {
		gone := make(chan struct{})
		e.calls <- func() { defer close(gone); f() }
		e.wakeDriver(true)
		<-gone
		return
	}
	for i := 0; !e.tryLead(); i++ {
		switch {
		case i < 1000:
			runtime.Gosched()
		case i < 100000: // 5 s
			time.Sleep(50 * time.Microsecond)
		default: // a call into MPI does not return
			time.Sleep(10 * time.Millisecond)
		}
	}
	id := e.exclusives.Add(1)
	e.exclusive.Store(id)
	defer e.endExclusive(id)
	f()
}

// endExclusive gives the lead of a call of Exclusive back, once.
func (e *Engine) endExclusive(id uint64) {
	if id != 0 && e.exclusive.CompareAndSwap(id, 0) {
		e.release()
	}
}

// TakeBack takes the lead from a call of Exclusive whose function waits for the
// caller, and so does nothing else until that returns.
func (e *Engine) TakeBack() { e.endExclusive(e.exclusive.Load()) }

// Close takes the lead for good: from now on only the caller may call MPI, and
// no operation makes progress. It returns false if that took longer than the
// bound.
func (e *Engine) Close(bound time.Duration) bool {
	e.stopping.Store(true)
	e.c.Stop()
	e.wakeDriver(true)
	select {
	case <-e.driverDone:
	case <-time.After(bound):
		return false
	}
	if e.Funnel {
		e.closed.Store(true)
		return true
	}
	for end := time.Now().Add(bound); ; time.Sleep(50 * time.Microsecond) {
		if e.c.Lead.CompareAndSwap(cmpi.LeadFree, cmpi.LeadClosed) {
			e.closed.Store(true)
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

// Outstanding lists the operations in flight. It needs the lead; an error, which is
// the context's, means that whoever has it does not return from MPI.
func (e *Engine) Outstanding(ctx context.Context) ([]*Op, error) {
	listed := make(chan []*Op, 1)
	go e.Exclusive(func() {
		var ops []*Op
		e.slots.each(func(op *Op) {
			if op.detach == nil && !op.isPart {
				ops = append(ops, op)
			}
		})
		listed <- ops
	})
	select {
	case ops := <-listed:
		return append(ops, e.later.list()...), nil
	case <-ctx.Done():
		return e.later.list(), ctx.Err()
	}
}

// Detached counts the sends in flight that nobody waits for.
func (e *Engine) Detached() int64 { return e.detached.Load() }

// Busy tells whether anything is in flight or on its way.
func (e *Engine) Busy() bool { return e.polls() || e.later.any() }

// polls tells whether there is something to poll for.
func (e *Engine) polls() bool { return e.c.Outstanding() != 0 || e.c.Submitted() }

// Polls counts the polls so far by somebody who waits.
func (e *Engine) Polls() uint64 { return e.c.Epoch.Load() }

// Counters are the operations started and completed so far.
func (e *Engine) Counters() (started, completed uint64) {
	e.Exclusive(func() { started, completed = e.c.Counters() })
	return started, completed
}
