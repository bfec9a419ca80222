package progress

import (
	"context"
	"runtime"

	"github.com/mpi4go/mpi4go/internal/cmpi"
)

// Short messages between two waiting goroutines are the common case, and the
// one where every nanosecond shows. With the lead in hand such an operation
// needs no Op, no pin and no atomic operation beside the lead's own two.

// Detach is an owner for short sends that nobody waits for; failed is called
// with the lead held for each that fails.
func Detach(failed func(*cmpi.Op)) *Op { return &Op{detach: failed} }

// SendShort sends a copy of a short buffer. Nobody waits for it: the owner, made
// by Detach, hears of a failure. It returns false, and does nothing, if the
// buffer is not short or too many such sends are queued.
func (e *Engine) SendShort(owner *Op, spec *Spec) bool {
	if !spec.short() || e.detached.Load() >= e.MaxDetached {
		return false
	}
	if !e.tryLead() {
		var slot [1]*cmpi.Op
		e.slots.get(slot[:])
		e.detached.Add(1)
		loadDetached(slot[0], spec)
		e.slots.owner(slot[0]).Store(owner)
		e.push(slot[0])
		return true
	}
	s := e.slots.take()
	loadDetached(s, spec)
	done := e.c.Poll(s, 0, 0, 0)
	if done == s && s.Next == 0 && s.RC == 0 { // the common case: complete, and nothing else is
		e.slots.give(s)
	} else {
		e.detached.Add(1)
		e.slots.owner(s).Store(owner)
		e.reap(done)
	}
	e.release()
	return true
}

func loadDetached(s *cmpi.Op, spec *Spec) {
	s.Reset(cmpi.Send, spec.Comm, spec.Peers, int32(spec.Peer), int32(spec.Tag))
	s.Flags = cmpi.InScratch | cmpi.Detached
	s.Len = int64(copy(s.Scratch[:], spec.Buf.Bytes()))
}

// Do carries out an operation and waits for it. If it is complete within the
// first poll it is done on return, with its result and a nil Op, having cost
// neither an Op nor a pin: its memory does not move during a call into C.
// Otherwise an Op of fresh stands for the operation; if the error, which is the
// context's, is not nil, it is still in flight.
func (e *Engine) Do(ctx context.Context, spec *Spec, fresh func() *Op) (Result, *Op, error) {
	if e.Trace || !e.tryLead() {
		op := fresh()
		op.Init(e, *spec)
		return Result{}, op, e.Run(ctx, op)
	}
	s := e.slots.take()
	spec.reset(s)
	spec.load(s)
	done := e.c.Poll(s, s.Index+1, 1, e.spins())
	if done == s && s.Next == 0 {
		r := ResultOf(s)
		received(s)
		e.slots.give(s)
		e.release()
		runtime.KeepAlive(spec.Buf)
		runtime.KeepAlive(spec.Coll)
		runtime.KeepAlive(spec.Parts)
		return r, nil, nil
	}
	op := fresh()
	op.attach(e, spec, s)
	e.reap(done)
	if op.Done() {
		e.release()
		return Result{}, op, nil
	}
	if e.leadOn(ctx, s.Index+1, 1, op) {
		return Result{}, op, nil
	}
	return Result{}, op, e.Wait(ctx, op)
}

// DoSet carries out n operations as one set. If all of them are complete within
// the first poll, each has been called with the outcome of every one, in order,
// and the Op is nil. Otherwise see Do.
func (e *Engine) DoSet(ctx context.Context, n int, spec func(i int) Spec, each func(i int, s *cmpi.Op), fresh func() *Op) (*Op, error) {
	const few = 64
	if n > few || e.Trace || !e.tryLead() {
		op := fresh()
		op.InitSet(e, n, spec)
		if op.Posted == nil {
			return op, e.Run(ctx, op)
		}
		e.Begin(op)
		op.Posted()
		return op, e.Wait(ctx, op)
	}
	posted := func() {}
	var slots [few]*cmpi.Op
	for i := range n {
		s, p := e.slots.take(), spec(i)
		if p.Posted != nil {
			posted = p.Posted
		}
		p.reset(s)
		p.load(s)
		slots[i] = s
		s.Join(slots[0], n)
		if i > 0 {
			slots[i-1].Link(s)
		}
	}
	head := slots[0]
	done := e.c.Poll(head, head.Index+1, 1, e.spins())
	if done == head && head.Next == 0 {
		for i, s := range slots[:n] {
			received(s)
			each(i, s)
			e.slots.give(s)
		}
		e.release()
		posted()
		return nil, nil
	}
	op := fresh()
	op.attachSet(e, slots[:n], spec)
	posted()
	e.reap(done)
	if op.Done() {
		e.release()
		return op, nil
	}
	if e.leadOn(ctx, head.Index+1, 1, op) {
		return op, nil
	}
	return op, e.Wait(ctx, op)
}
