package gpu

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/mpi4go/mpi4go/internal/cuda"
)

// mark stands for what is queued on a stream up to a moment, with an event that is
// the library's own.
type mark struct {
	d     *Device
	event cuda.Event
	w     *waiter
}

// newMark takes an event before anything is queued, because that may fail. Then
// either put or record must follow.
func (d *Device) newMark() (*mark, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	d.own.Lock()
	defer d.own.Unlock()
	if n := len(d.events); n > 0 {
		m := &mark{d: d, event: d.events[n-1]}
		d.events = d.events[:n-1]
		return m, nil
	}
	event, err := cuda.EventCreate(d.ctx)
	if err != nil {
		d.leave()
		return nil, err
	}
	return &mark{d: d, event: event}, nil
}

// put gives the event back.
func (m *mark) put() {
	m.d.own.Lock()
	m.d.events = append(m.d.events, m.event)
	m.d.own.Unlock()
	m.d.leave()
}

// record sets the mark and has it polled; what is to be kept is kept until it is
// reached. If that fails the mark is gone.
func (m *mark) record(s *Stream, keep ...any) error {
	if err := cuda.EventRecord(m.d.ctx, m.event, s.handle); err != nil {
		m.put()
		return err
	}
	m.watch(keep...)
	return nil
}

// watch has a mark that was recorded polled.
func (m *mark) watch(keep ...any) {
	m.w = newWaiter(m.d.ctx, m.event, m.put)
	m.w.keep = keep
	polling.add(m.w)
}

// waiter is an event that somebody waits for.
type waiter struct {
	query cuda.Query
	done  chan struct{} // closed when the event is complete or given up
	err   error         // then
	gone  bool          // nobody waits any more; under poller.mu
	after func()        // called before done is closed
	keep  []any         // must not be collected before
}

func newWaiter(ctx cuda.Context, event cuda.Event, after func()) *waiter {
	return &waiter{query: cuda.NewQuery(ctx, event), done: make(chan struct{}), after: after}
}

// wait waits until the event is complete or the context ends.
func (w *waiter) wait(ctx context.Context) error {
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ready tells whether wait would not wait.
func (w *waiter) ready() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// waitOrGiveUp waits likewise, and then the poller is done with the event in any case.
func (w *waiter) waitOrGiveUp(ctx context.Context) error {
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
	}
	polling.giveUp(w)
	<-w.done
	return context.Cause(ctx)
}

// poller asks the driver for the events of all that wait, from one goroutine that
// exists while there are any.
type poller struct {
	mu      sync.Mutex
	waiters []*waiter
	running bool
	wake    chan struct{} // has room for one
}

var polling = poller{wake: make(chan struct{}, 1)}

// How long the poller asks again at once, and how long it then sleeps.
const (
	pollSpin  = 50 * time.Microsecond
	pollFirst = 20 * time.Microsecond
	pollLast  = time.Millisecond
)

func (p *poller) add(w *waiter) {
	p.mu.Lock()
	p.waiters = append(p.waiters, w)
	start := !p.running
	p.running = true
	p.mu.Unlock()
	if start {
		go p.run()
	} else {
		p.ring()
	}
}

func (p *poller) giveUp(w *waiter) {
	p.mu.Lock()
	w.gone = true
	p.mu.Unlock()
	p.ring()
}

func (p *poller) ring() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *poller) run() {
	var queries []cuda.Query
	moved, nap := time.Now(), pollFirst
	for {
		p.mu.Lock()
		asked := append([]*waiter(nil), p.waiters...)
		p.mu.Unlock()
		queries = queries[:0]
		for _, w := range asked {
			queries = append(queries, w.query)
		}
		cuda.QueryAll(queries)
		left, progress := p.sort(asked, queries)
		switch {
		case left == 0:
			return
		case progress:
			moved, nap = time.Now(), pollFirst
		}
		if time.Since(moved) < pollSpin {
			runtime.Gosched()
			continue
		}
		select {
		case <-p.wake:
			moved, nap = time.Now(), pollFirst
		case <-time.After(nap):
			nap = min(2*nap, pollLast)
		}
	}
}

// sort lets those go whose events are complete, and counts the others. The poller
// stops if there are none.
func (p *poller) sort(asked []*waiter, queries []cuda.Query) (left int, progress bool) {
	var finished []*waiter
	p.mu.Lock()
	rest := p.waiters[len(asked):] // who came since
	kept := make([]*waiter, 0, len(p.waiters))
	for i, w := range asked {
		done, err := queries[i].Done()
		if !done && err == nil && !w.gone {
			kept = append(kept, w)
			continue
		}
		w.err = err
		finished = append(finished, w)
	}
	p.waiters = append(kept, rest...)
	left = len(p.waiters)
	p.running = left > 0
	p.mu.Unlock()
	for _, w := range finished {
		w.after()
		close(w.done)
	}
	return left, len(finished) > 0
}
