package progress

import (
	"runtime"
	"time"

	"github.com/mpi4go/mpi4go/internal/cmpi"
)

// drive is the background driver: it polls when nobody else does. While others
// do it watches from a distance, because whoever posted or was woken last leads
// as a rule, and because a nap in C costs more than a Go timer: the runtime's
// monitor would keep waking to take its P.
func (e *Engine) drive() {
	defer close(e.driverDone)
	watch := time.NewTimer(e.Watch)
	period := e.Watch // shorter for a while after nobody has polled when somebody should
	woken := false
	for !e.stopping.Load() {
		// Who has woken it has left something outstanding, and may have gone for good.
		alone := woken && e.c.Lead.Load() == cmpi.LeadFree && e.polls()
		woken = false
		if !e.urgent.Swap(false) && !alone {
			epoch := e.c.Epoch.Load()
			watch.Reset(period)
			select {
			case <-watch.C:
			case <-e.wake:
				continue
			}
			if e.c.Epoch.Load() != epoch { // somebody else polls
				period = min(2*period, e.Watch)
				if !e.c.Abandoned() {
					woken = e.park()
				}
				continue
			}
			period = e.Watch / 8
		}
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
			// Those who were woken have had their turn. If none of them leads now nobody does.
			if e.c.Lead.Load() == cmpi.LeadFree && e.polls() {
				e.urgent.Store(true)
			}
		case idle:
			woken = e.park()
		}
	}
}

// park waits until there is something to poll for and nobody who does. Whoever
// gives the lead back then calls wakeDriver; the check in between sees what came
// first. It returns whether somebody has called.
func (e *Engine) park() (woken bool) {
	e.parked.Store(true)
	idle := e.c.Attended()
	if e.Funnel {
		idle = !e.polls()
	}
	if idle && !e.c.Submitted() && !e.stopping.Load() && !e.urgent.Load() && len(e.calls) == 0 {
		<-e.wake
		woken = true
	}
	e.parked.Store(false)
	return woken
}

// wakeDriver makes the driver watch if it is parked, and cuts a long nap short.
// If urgent it has to poll at once, because nobody else will.
func (e *Engine) wakeDriver(urgent bool) {
	if urgent {
		e.urgent.Store(true)
	}
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
		e.urgent.Store(false) // it polls all the time
		select {
		case f := <-e.calls:
			f()
		default:
		}
		if raceEnabled {
			e.sync.Add(1)
		}
		// A transfer moves only while it is polled, as m4g_drive knows as well.
		spins, spin := e.Spins, e.Patience.Spin
		transfers := e.c.Transferring()
		if transfers {
			spins, spin = 8, e.Patience.HotFor
		}
		before := time.Now()
		done := e.c.Poll(nil, 0, 0, spins)
		e.reap(done)
		e.owed = false
		if raceEnabled {
			e.sync.Add(1)
		}
		switch {
		case done != nil:
			event = time.Now()
			runtime.Gosched()
		case !e.polls():
			e.park()
		default:
			const work = 20 * time.Microsecond // a poll that takes this long has moved data
			if transfers && time.Since(before) > work || e.nap(time.Since(event), spin) {
				event = time.Now()
			}
		}
	}
}

// nap lets the others run, and sleeps if nothing has happened for longer than spin
// nanoseconds. It returns whether a bell ended that.
func (e *Engine) nap(idle time.Duration, spin int64) (rung bool) {
	switch p := &e.Patience; {
	case int64(idle) < spin:
		runtime.Gosched()
		return false
	case int64(idle) < p.HotFor:
		return e.c.Nap(p.Hot)
	case int64(idle) < p.WarmFor:
		return e.c.Nap(p.Warm)
	default:
		return e.c.Nap(p.Cold)
	}
}
