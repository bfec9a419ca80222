package transport

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// side is one direction of a connection as far as waiting goes: it has a deadline,
// and an end.
type side struct {
	current atomic.Pointer[sideContext] // nil before the first use
	mu      sync.Mutex
	timer   *time.Timer
	failed  error
}

type sideContext struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// get is the context that ends at the deadline and with the connection.
func (s *side) get() *sideContext {
	if c := s.current.Load(); c != nil {
		return c
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fresh()
}

// fresh is get for who holds mu, in the place of a context that has ended.
func (s *side) fresh() *sideContext {
	c := s.current.Load()
	if c == nil || c.ctx.Err() != nil && s.failed == nil {
		c = &sideContext{}
		c.ctx, c.cancel = context.WithCancelCause(context.Background())
		if s.failed != nil {
			c.cancel(s.failed)
		}
		s.current.Store(c)
	}
	return c
}

// set sets the deadline; the zero Time is none.
func (s *side) set(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return
	}
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	c := s.fresh()
	if t.IsZero() {
		return
	}
	left := time.Until(t)
	if left <= 0 {
		c.cancel(os.ErrDeadlineExceeded)
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(left, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.timer == timer {
			c.cancel(os.ErrDeadlineExceeded)
		}
	})
	s.timer = timer
}

// fail ends the side for good.
func (s *side) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return
	}
	s.failed = err
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	if c := s.current.Load(); c != nil {
		c.cancel(err)
	}
}

// merged is a caller's context that also ends with a side. What that costs is paid
// only when somebody waits on it.
type merged struct {
	context.Context
	side *sideContext
	err  atomic.Pointer[error]
	once sync.Once
	done context.Context
	free func()
}

var mergers = sync.Pool{New: func() any { return new(merged) }}

// with merges a caller's context with the side. What it returns last, which may be
// nil, has to be released when the context is no longer needed.
func (s *side) with(ctx context.Context) (context.Context, *sideContext, *merged) {
	c := s.get()
	if ctx.Done() == nil {
		return c.ctx, c, nil
	}
	m := mergers.Get().(*merged)
	m.Context, m.side = ctx, c
	return m, c, m
}

// Err is that of whichever had ended first when it was asked.
func (m *merged) Err() error {
	err := m.Context.Err()
	if err == nil {
		err = m.side.ctx.Err()
	}
	if err == nil {
		return nil
	}
	return m.keep(err)
}

// keep makes err what Err returns from now on.
func (m *merged) keep(err error) error {
	if m.err.CompareAndSwap(nil, &err) {
		return err
	}
	return *m.err.Load()
}

// Done is closed when either has ended.
func (m *merged) Done() <-chan struct{} {
	m.once.Do(func() {
		done, cancel := context.WithCancel(m.Context)
		stop := context.AfterFunc(m.side.ctx, cancel)
		m.done, m.free = done, func() { stop(); cancel() }
	})
	return m.done.Done()
}

func (m *merged) release() {
	switch {
	case m == nil:
	case m.free != nil:
		m.free()
	case m.err.Load() == nil: // nobody knows it
		m.Context, m.side = nil, nil
		mergers.Put(m)
	}
}
