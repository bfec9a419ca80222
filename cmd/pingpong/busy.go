package main

import (
	"fmt"
	"sync/atomic"
	"time"
)

type busyCmd struct {
	pairFlags
	roundFlags
	sizeFlags `set:"sizes=1"`
	memoryFlags
	compareFlags
}

// busyRow is one message length with or without the busy goroutine.
type busyRow struct {
	Busy bool `json:"busy"`
	latencyRow
}

func (r busyRow) columns() []column {
	return append([]column{{"busy", "%v", r.Busy}}, r.latencyRow.columns()...)
}

func (r busyRow) bench() []benchLine {
	return r.timing.bench(fmt.Sprintf("busy=%v/size=%d", r.Busy, r.Size), 0, "")
}

// Run measures the latency with and without a busy goroutine.
func (c *busyCmd) Run(j *job) error {
	return j.between(c.pairFlags, func(p *pair) error {
		notes := append(latencyNotes(c.sizeFlags), p.memoryNotes(turnsNote(c.Rounds),
			"busy: a goroutine of the second rank never stops computing, during our loop and during C's",
			fmt.Sprintf("without --iters, the iterations of a pass double until it takes %v", longEnough))...)
		p.report.begin(len(c.Sizes)*int(c.Rounds)*6, notes...)
		contents := c.contents(p.memory)
		for _, size := range c.Sizes {
			free, err := newLatency(p, size, c.roundFlags, 0, contents)
			if err != nil {
				return err
			}
			busy, err := newLatency(p, size, c.roundFlags, 0, contents)
			if err != nil {
				return err
			}
			passes := append(free.passes(c.NoC), busy.passes(c.NoC)...)
			n := len(passes) / 2
			for i, measure := range passes {
				if measure == nil {
					continue
				}
				if c.Iterations == 0 {
					measure = []*latency{free, busy}[i/n].long(measure)
				}
				if i >= n && !p.first {
					measure = besideBusy(measure)
				}
				passes[i] = measure
			}
			us, err := p.rounds(c.Rounds, passes...)
			if err != nil {
				return err
			}
			rows := []latencyRow{free.row(us[:n]), busy.row(us[n:])}
			if rows[0].path, err = p.endRow(); err != nil {
				return err
			}
			rows[1].path = rows[0].path
			p.report.row(busyRow{false, rows[0]})
			p.report.row(busyRow{true, rows[1]})
		}
		return nil
	})
}

// longEnough is many time slices of the system: a pass within one would not
// see that there is less processor time for it.
const longEnough = 100 * time.Millisecond

// long repeats a pass with twice the iterations until it takes long enough.
func (l *latency) long(measure pass) pass {
	return func() (us float64, err error) {
		l.iterations, l.warmup = 50, 10
		for again := true; again && err == nil; {
			l.iterations *= 2
			if us, err = measure(); err == nil {
				took := time.Duration(us * 1e3 * 2 * float64(l.iterations))
				again, err = l.pair.decide(took < longEnough)
			}
		}
		return us, err
	}
}

// besideBusy measures while a goroutine computes.
func besideBusy(measure pass) pass {
	return func() (float64, error) {
		var stop atomic.Bool
		defer stop.Store(true)
		go func() {
			for !stop.Load() { // as a rule never: nothing here gives way to other goroutines
			}
		}()
		return measure()
	}
}
