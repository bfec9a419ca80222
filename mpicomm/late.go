package mpicomm

import (
	"context"
	"sync"
	"sync/atomic"
)

// lateSends are sends and collectives of a communicator that MPI does not have yet,
// because a device has still to finish or copy their bytes. What comes after them to the
// same rank must not overtake them; collectives must not overtake each other.
type lateSends struct {
	busy atomic.Int32 // how many there are
	mu   sync.Mutex
	last map[int]*turn // the youngest, by its destination, or none for collectives
}

// turn is the place of one of them.
type turn struct {
	sends   *lateSends
	dest    int
	before  *turn         // the older one
	staged  chan struct{} // closed when it has taken its memory
	posted  chan struct{} // closed when MPI has it
	waiting bool          // staged is not closed
}

// join takes a place behind what is late, or, if it has to, at the front. It returns
// nil if there is nothing to be behind of.
func (l *lateSends) join(dest int, must bool) *turn {
	if !must && l.busy.Load() == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.last[dest]
	if before == nil && !must {
		return nil
	}
	t := &turn{sends: l, dest: dest, before: before, staged: make(chan struct{}), posted: make(chan struct{}), waiting: true}
	if l.last == nil {
		l.last = map[int]*turn{}
	}
	l.last[dest] = t
	l.busy.Add(1)
	return t
}

// awaitStaged waits until all before have taken their memory: who waits for memory
// then waits for what MPI has, or will get.
func (t *turn) awaitStaged() {
	if t.before != nil {
		<-t.before.staged
	}
}

func (t *turn) hasStaged() {
	if t.waiting {
		t.waiting = false
		close(t.staged)
	}
}

func (t *turn) awaitPosted() {
	if t.before != nil {
		<-t.before.posted
		t.before = nil
	}
}

// leave ends the turn, in its place.
func (t *turn) leave() {
	t.hasStaged()
	t.awaitPosted()
	t.sends.mu.Lock()
	if t.sends.last[t.dest] == t {
		delete(t.sends.last, t.dest)
	}
	t.sends.mu.Unlock()
	close(t.posted)
	t.sends.busy.Add(-1)
}

// wait waits until MPI has all collectives that were called so far.
func (l *lateSends) wait(ctx context.Context) error {
	t := l.join(none, false)
	if t == nil {
		return nil
	}
	defer func() { go t.leave() }()
	select {
	case <-t.before.posted:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
