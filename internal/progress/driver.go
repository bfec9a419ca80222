package progress

import (
	"runtime"
	"time"
)

// drive is the background driver: it polls when nobody else does.
func (e *Engine) drive() {
	defer close(e.driverDone)
	for !e.stopping.Load() {
		done, leads := e.c.Drive(&e.Patience)
		if leads {
			if raceEnabled {
				e.sync.Add(1)
			}
			woken := e.reap(done)
			e.release()
			if woken > 0 {
				runtime.Gosched()
			}
		}
		e.park()
	}
}

// park waits until there is something to poll for and nobody who does. Whoever
// gives the lead back then calls wakeDriver; the check in between sees what came
// first.
func (e *Engine) park() {
	e.parked.Store(true)
	idle := e.c.Attended()
	if e.Funnel {
		idle = !e.Busy()
	}
	if !idle || e.c.Submitted() || e.c.Handover.Load() != 0 || e.stopping.Load() || len(e.calls) > 0 {
		if e.parked.CompareAndSwap(true, false) {
			return
		}
	}
	<-e.wake
}

// wakeDriver makes the driver look, soon, at what there is to poll.
func (e *Engine) wakeDriver() {
	if e.parked.Load() {
		if e.parked.CompareAndSwap(true, false) {
			e.wake <- struct{}{}
		}
		return
	}
	e.c.Ring(e.Funnel || e.c.Handover.Load() != 0 || e.stopping.Load())
}

// RunFunnel is the driver for an MPI that may be called by one thread only.
// The caller has locked itself to the thread that initialised MPI. After Close
// it serves Exclusive alone, until EndFunnel.
func (e *Engine) RunFunnel() {
	e.runFunnel()
	close(e.driverDone)
	for f := range e.calls {
		f()
	}
}

// EndFunnel makes RunFunnel return.
func (e *Engine) EndFunnel() { close(e.calls) }

func (e *Engine) runFunnel() {
	var event time.Time // when something last happened
	for !e.stopping.Load() {
		select {
		case f := <-e.calls:
			f()
		default:
		}
		if raceEnabled {
			e.sync.Add(1)
		}
		done := e.c.Poll(nil, 0, 0, e.Spins)
		woken := e.reap(done)
		if raceEnabled {
			e.sync.Add(1)
		}
		switch {
		case woken > 0 || done != nil:
			event = time.Now()
			runtime.Gosched()
		case !e.Busy():
			e.park()
		default:
			e.nap(time.Since(event))
		}
	}
}

func (e *Engine) nap(idle time.Duration) {
	switch p := &e.Patience; {
	case int64(idle) < p.Spin:
		runtime.Gosched()
	case int64(idle) < p.HotFor:
		e.c.Nap(p.Hot)
	case int64(idle) < p.WarmFor:
		e.c.Nap(p.Warm)
	default:
		e.c.Nap(p.Cold)
	}
}
