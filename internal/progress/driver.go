package progress

import (
	"runtime"
	"time"
)

// drive is the background driver: it polls when nobody else does. While others
// do it watches from a distance, because whoever was woken last leads as a rule,
// and because a nap in C costs more than a Go timer: the runtime's monitor would
// keep waking to take its P.
func (e *Engine) drive() {
	defer close(e.driverDone)
	watch := time.NewTimer(time.Hour)
	for urgent := false; !e.stopping.Load(); {
		epoch := e.c.Epoch.Load()
		if !urgent {
			watch.Reset(e.Watch)
			select {
			case <-watch.C:
			case <-e.wake:
				urgent = true
			}
		}
		if !urgent && e.c.Epoch.Load() != epoch {
			if e.c.Abandoned() {
				continue // they leave something behind each time
			}
			urgent = e.park()
			continue
		}
		urgent = false
		done, leads := e.c.Drive(&e.Patience)
		if !leads {
			continue
		}
		if raceEnabled {
			e.sync.Add(1)
		}
		e.reap(done)
		owed := e.owed
		e.owed = false
		idle := e.c.Outstanding() == 0
		e.release()
		switch {
		case owed:
			runtime.Gosched()
		case idle:
			urgent = e.park()
		}
	}
}

// park waits until there is something to poll for and nobody who does. Whoever
// gives the lead back then calls wakeDriver; the check in between sees what came
// first. It returns true, for there is something to do at once.
func (e *Engine) park() bool {
	e.parked.Store(true)
	idle := e.c.Attended()
	if e.Funnel {
		idle = !e.Busy()
	}
	if idle && !e.c.Submitted() && !e.stopping.Load() && len(e.calls) == 0 {
		<-e.wake
	}
	e.parked.Store(false)
	return true
}

// wakeDriver makes the driver poll if it is parked or takes a long nap, and if
// urgent also if it takes a short one or just watches.
func (e *Engine) wakeDriver(urgent bool) {
	if e.parked.CompareAndSwap(true, false) || urgent {
		select {
		case e.wake <- struct{}{}:
		default: // it has been called already
		}
	}
	e.c.Ring(urgent || e.Funnel)
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
		e.reap(done)
		e.owed = false
		if raceEnabled {
			e.sync.Add(1)
		}
		switch {
		case done != nil:
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
