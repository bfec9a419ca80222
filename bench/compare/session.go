package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

// startSeconds is about how long a peer takes to start and to end.
const startSeconds = 1.5

// session measures all peers in turn, again and again.
type session struct {
	o       *runCmd
	peers   []*Peer
	gaps    []Gap
	items   []Item
	reps    int
	ms      int
	waitMs  int
	results map[string]map[Item]*Result // by the name of the peer
	begun   time.Time
}

func newSession(o *runCmd, p *preparation, items []Item) *session {
	s := &session{
		o: o, peers: p.peers, gaps: p.gaps, items: items, reps: max(o.Reps, 1), ms: o.Ms, waitMs: o.WaitMs,
		results: map[string]map[Item]*Result{}, begun: time.Now(),
	}
	if o.Quick {
		s.reps, s.waitMs = 2, 50
		if s.ms == 0 {
			s.ms = 5
		}
	}
	if s.ms == 0 {
		s.ms = timeForEach(o.Minutes, s.reps, len(s.peers), s.items, s.waitMs)
	}
	return s
}

// timeForEach is the milliseconds for a measurement with which the session takes about
// so many minutes. Warm-up and the measurements of large messages take half as much again.
func timeForEach(minutes float64, reps, peers int, items []Item, waitMs int) int {
	waits := 0
	for _, i := range items {
		if i.Kind == "wait" || i.Kind == "idle" {
			waits++
		}
	}
	timed := len(items) - waits
	if timed == 0 || peers == 0 {
		return 1
	}
	seconds := minutes*60/float64(reps*peers) - startSeconds - float64(waits*waitMs)/1e3
	return max(2, int(1e3*seconds/float64(timed)/1.5))
}

func (s *session) job(x *Peer, items []Item) job {
	return job{peer: x, items: items, ms: s.ms, waitMs: s.waitMs, timeout: time.Minute + 5*time.Duration(len(items)*s.ms+2*s.waitMs)*time.Millisecond}
}

// measure runs the repetitions. A peer that fails is left out from then on.
func (s *session) measure(ctx context.Context) error {
	s.choose(ctx)
	say("%d peers, %d measurements of %d ms, %d repetitions", len(s.peers), len(s.items), s.ms, s.reps)
	failed := map[string]bool{}
	for rep := range s.reps {
		began := time.Now()
		for _, x := range s.peers {
			if failed[x.Name] {
				continue
			}
			items := s.itemsOf(x)
			j := s.job(x, items)
			x.Command = j.commandLine()
			lines, f := j.run(ctx)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			s.take(x, lines)
			if f != nil {
				failed[x.Name] = true
				say("%s: a gap, see the report", x.Name)
				s.gaps = append(s.gaps, Gap{fmt.Sprintf("%s, repetition %d", x.Name, rep+1), f.command, f.output})
			}
		}
		took := time.Since(began)
		say("repetition %d of %d: %.0f s, %.1f minutes to go", rep+1, s.reps, took.Seconds(), (time.Duration(s.reps-rep-1) * took).Minutes())
	}
	return nil
}

// itemsOf are those that a peer can measure.
func (s *session) itemsOf(x *Peer) []Item {
	if !x.single {
		return s.items
	}
	return slices.DeleteFunc(slices.Clone(s.items), func(i Item) bool { return i.Kind == "rate" && i.N > 1 })
}

// take keeps the lines of one repetition.
func (s *session) take(x *Peer, lines []Line) {
	if s.results[x.Name] == nil {
		s.results[x.Name] = map[Item]*Result{}
	}
	for _, l := range lines {
		if l.Kind == "environment" {
			x.Environment = map[string]string{}
			for key, value := range l.Environment {
				x.Environment[key] = withoutPlaces(value)
			}
			continue
		}
		r := s.results[x.Name][l.Item]
		if r == nil {
			r = &Result{Peer: x.Name, Item: l.Item}
			s.results[x.Name][l.Item] = r
		}
		r.add(l)
	}
}

// choose tries the tunings of peers that have several, and takes the one that is best
// in the latency of 1 byte and in that of 1 MiB together.
func (s *session) choose(ctx context.Context) {
	probe := []Item{{"latency", 1, 1, 1}, {"latency", mib, 1, 1}}
	s.peers = slices.DeleteFunc(s.peers, func(x *Peer) bool {
		if len(x.candidates) == 0 {
			return false
		}
		best, at := math.Inf(1), -1
		var last *failure
		for i := range x.candidates {
			c := &x.candidates[i]
			try := *x
			try.env, try.program = append(slices.Clone(x.env), c.env...), append(slices.Clone(x.program), c.args...)
			lines, f := s.job(&try, probe).run(ctx)
			if f != nil {
				last = f
				continue
			}
			c.Us = []float64{lines[1].Us, lines[2].Us}
			if together := c.Us[0] * c.Us[1]; together < best {
				best, at = together, i
			}
		}
		if at < 0 {
			if ctx.Err() == nil {
				say("%s: a gap, see the report", x.Name)
				s.gaps = append(s.gaps, Gap{x.Name, last.command, last.output})
			}
			return true
		}
		c := &x.candidates[at]
		c.Chosen = true
		x.env, x.program = append(x.env, c.env...), append(x.program, c.args...)
		x.Tuning = c.Text + "; the fastest of these, as 1 B and 1 MiB took:"
		for _, c := range x.candidates {
			if c.Us == nil {
				x.Tuning += fmt.Sprintf(" %s: fails;", c.Text)
			} else {
				x.Tuning += fmt.Sprintf(" %s: %.1f us and %.0f us;", c.Text, c.Us[0], c.Us[1])
			}
		}
		return false
	})
}

// report is what the session has found.
func (s *session) report() *Report {
	r := &Report{
		Schema: 1, Date: s.begun.UTC().Format(time.DateTime), Machine: thisMachine(), Reps: s.reps, Ms: s.ms, WaitMs: s.waitMs,
		Quick: s.o.Quick, Minutes: time.Since(s.begun).Minutes(), Gaps: s.gaps,
	}
	for _, x := range s.peers {
		if len(s.results[x.Name]) == 0 {
			continue
		}
		r.Peers = append(r.Peers, x)
		for _, i := range s.items {
			if result := s.results[x.Name][i]; result != nil {
				r.Results = append(r.Results, result)
			}
		}
	}
	return r
}
