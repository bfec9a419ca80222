package progress

import "sync"

// later are operations that somebody else carries out by other operations, such as one
// whose bytes are copied from a device first: they have no slot, and MPI does not know
// them. They are waited for, listed and cancelled like all others.
type later struct {
	sync.Mutex
	ops map[*Op]func() // what cancels each
}

// Later makes a set of n operations that are done when Settle is called. The caller
// carries them out; cancel is called, any number of times, when somebody wants the
// receives among them cancelled. It must not block.
func (op *Op) Later(e *Engine, n int, spec func(i int) Spec, cancel func()) {
	op.reset(e, spec(0))
	op.slot, op.rest = nil, make([]part, n-1)
	for i := range op.rest {
		op.rest[i].Spec = spec(i + 1)
	}
	e.later.Lock()
	defer e.later.Unlock()
	if e.later.ops == nil {
		e.later.ops = map[*Op]func(){}
	}
	e.later.ops[op] = cancel
}

// Settle ends operations that Later has made, with the outcome of each.
func (op *Op) Settle(outcome func(i int) Result) {
	for i := range op.N() {
		op.at(i).Result = outcome(i)
	}
	e := op.engine
	e.later.Lock()
	delete(e.later.ops, op)
	e.later.Unlock()
	waiter := op.waiter.Swap(&complete)
	if op.ch.Load() != nil {
		op.closeChan()
	}
	if waiter != nil {
		waiter.notify()
	}
}

// CancelLater asks whoever carries operations out to cancel them; false if they are
// not of Later.
func (op *Op) CancelLater() bool {
	e := op.engine
	e.later.Lock()
	cancel := e.later.ops[op]
	e.later.Unlock()
	if cancel != nil {
		cancel()
	}
	return op.slot == nil
}

// Part makes an operation one of those by which a Later one is carried out: it is not
// listed by itself. Call it before Init or Later.
func (op *Op) Part() { op.isPart = true }

func (l *later) list() (ops []*Op) {
	l.Lock()
	defer l.Unlock()
	for op := range l.ops {
		if !op.isPart {
			ops = append(ops, op)
		}
	}
	return ops
}

func (l *later) any() bool {
	l.Lock()
	defer l.Unlock()
	return len(l.ops) > 0
}
