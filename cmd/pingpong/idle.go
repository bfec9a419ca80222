package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/mpicomm"
)

type idleCmd struct {
	pairFlags
	After   time.Duration `json:"after_ns" default:"5s" placeholder:"5s" help:"How long without traffic counts as idle (${default})."`
	Samples positive      `json:"samples" default:"5" placeholder:"N" help:"Wake-ups after idleness; each takes 7 s (${default})."`
}

// idleRow is one state of the process that waits.
type idleRow struct {
	State        string    `json:"state"`    // recent (0 to 100 ms after traffic) or idle
	WindowS      float64   `json:"window_s"` // in which CPU time was counted
	Samples      int       `json:"samples"`
	CPUPercent   float64   `json:"cpu_percent"` // of one core, user and system, all threads; the median
	WakeupMinUs  float64   `json:"wakeup_min_us"`
	WakeupP50Us  float64   `json:"wakeup_p50_us"`
	WakeupP99Us  float64   `json:"wakeup_p99_us"`
	WakeupMaxUs  float64   `json:"wakeup_max_us"`
	WakeupsUs    []float64 `json:"wakeups_us"`
	CPUsPercents []float64 `json:"cpu_percents"`
}

func (r idleRow) columns() []column {
	return []column{
		{"state", "%s", r.State},
		{"window_s", "%.1f", r.WindowS},
		{"CPU_%", "%.2f", r.CPUPercent},
		{"samples", "%d", r.Samples},
		{"wakeup_us", "%.1f", r.WakeupP50Us},
		{"min", "%.1f", r.WakeupMinUs},
		{"p99", "%.1f", r.WakeupP99Us},
		{"max", "%.1f", r.WakeupMaxUs},
	}
}

func (r idleRow) bench() []benchLine {
	lines := make([]benchLine, r.Samples)
	for i := range lines {
		lines[i] = benchLine{"state=" + r.State, 1, []benchValue{{r.WakeupsUs[i] * 1e3, "ns/op"}, {r.CPUsPercents[i], "cpu-%"}}}
	}
	return lines
}

// idleState is when to look at a process that waits.
type idleState struct {
	name          string
	after, window time.Duration // without traffic; then CPU time is counted
	jitter        time.Duration // the message then comes at a random time within
	samples       int
}

// Run measures what waiting costs and how soon it ends.
func (c *idleCmd) Run(j *job) error {
	return j.between(c.pairFlags, func(p *pair) error {
		if err := p.sameClock(); err != nil {
			return err
		}
		states := []idleState{
			{"recent", 0, 100 * time.Millisecond, 20 * time.Millisecond, 20},
			{"idle", c.After, 2 * time.Second, 50 * time.Millisecond, int(c.Samples)},
		}
		p.report.begin(states[0].samples+states[1].samples,
			"the second rank waits in coro.Recv, after a burst of ping-pong; the first rank sleeps and then sends one message",
			fmt.Sprintf("recent: the first 100 ms after traffic; idle: 2 s after %v without any", c.After),
			"CPU_%: user and system time of all threads of the second rank / wall time; wakeup_us: median, and p99, from before the send until the goroutine runs",
			"doorbell: "+p.doorbell(),
			"both ranks read CLOCK_MONOTONIC, which they share because they are on one host")
		for _, state := range states {
			r, err := p.wait(state)
			if err != nil {
				return err
			}
			p.report.row(r)
		}
		return nil
	})
}

// wait takes the samples of one state.
func (p *pair) wait(state idleState) (row, error) {
	var wakeups, cpus []float64
	for range state.samples {
		if err := p.burst(); err != nil {
			return nil, err
		}
		if p.first {
			time.Sleep(state.after + state.window + time.Millisecond + rand.N(state.jitter))
			if err := coro.Send(p.ctx, p.world, []int64{monotonic()}, p.peer, tagData); err != nil {
				return nil, err
			}
			p.report.tick()
			continue
		}
		woken := make(chan error, 1)
		go func() {
			sent := make([]int64, 1)
			_, err := coro.Recv(p.ctx, p.world, sent, p.peer, tagData)
			wakeups = append(wakeups, float64(monotonic()-sent[0])/1e3)
			woken <- err
		}()
		time.Sleep(state.after)
		from, used := monotonic(), cpuTime()
		time.Sleep(state.window)
		cpus = append(cpus, 100*float64(cpuTime()-used)/float64(monotonic()-from))
		if err := <-woken; err != nil {
			return nil, err
		}
	}
	wakeups, err := p.fromSecond(wakeups)
	if err != nil {
		return nil, err
	}
	cpus, err = p.fromSecond(cpus)
	if err != nil {
		return nil, err
	}
	return idleRow{
		State: state.name, WindowS: state.window.Seconds(), Samples: state.samples, CPUPercent: median(cpus),
		WakeupMinUs: slices.Min(wakeups), WakeupP50Us: median(wakeups), WakeupP99Us: p99(wakeups), WakeupMaxUs: slices.Max(wakeups),
		WakeupsUs: wakeups, CPUsPercents: cpus,
	}, nil
}

// p99 is the value that 99 of 100 do not exceed: of fewer than 100, the largest.
func p99(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)*99+99)/100-1]
}

// doorbell says whether the first rank wakes the second.
func (p *pair) doorbell() string {
	info, err := mpicomm.Info()
	if err != nil {
		return err.Error()
	}
	return info.Doorbell
}

// burst is the traffic before the silence.
func (p *pair) burst() error {
	e := exchange{ctx: p.ctx, world: p.world, peer: p.peer, tag: tagBarrier, starts: p.first, send: hostBuffer(1), recv: hostBuffer(1)}
	return e.run(1000)
}

// sameClock tells whether both ranks read the same CLOCK_MONOTONIC.
func (p *pair) sameClock() error {
	mine := clockIdentity()
	theirs := make([]byte, 256)
	status, err := coro.Sendrecv(p.ctx, p.world, []byte(mine), p.peer, tagResult, theirs, p.peer, tagResult)
	if err != nil {
		return err
	}
	if mine == "" || string(theirs[:status.Count]) != mine {
		return errors.New("the two ranks are on different hosts, whose clocks cannot be compared: put both on one host, or choose others with --ranks")
	}
	return nil
}
