package main

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

type coroutinesCmd struct {
	pairFlags
	roundFlags
	sizeFlags `set:"sizes=1"`
	memoryFlags
	Goroutines sizes `json:"goroutines" short:"g" default:"1,10,100,1K,10K" placeholder:"N" help:"Pairs of goroutines, one number or several (${default})."`
}

// Validate refuses no goroutines at all.
func (c *coroutinesCmd) Validate() error {
	if slices.Contains(c.Goroutines, 0) {
		return errors.New("--goroutines: 0 is not a number from 1")
	}
	return c.memoryFlags.Validate()
}

// coroutinesRow is one number of goroutines and one message length. Times are
// for each message of all goroutines together.
type coroutinesRow struct {
	Goroutines int `json:"goroutines"`
	Size       int `json:"size"`
	timedPath
	Messages     int     `json:"messages"` // of a round, in both directions
	MessagesPerS float64 `json:"messages_per_s"`
	Threads      int     `json:"threads"` // of the first rank
}

func (r coroutinesRow) columns() []column {
	return append([]column{
		{"goroutines", "%d", r.Goroutines},
		{"size", "%d", r.Size},
		{"messages/s", "%.0f", r.MessagesPerS},
		{"us", "%.3f", r.Us},
		{"threads", "%d", r.Threads},
	}, r.path.columns()...)
}

func (r coroutinesRow) bench() []benchLine {
	return r.timing.bench(fmt.Sprintf("goroutines=%d/size=%d", r.Goroutines, r.Size), 1e6, "messages/s")
}

// Run measures the message rate of many goroutines.
func (c *coroutinesCmd) Run(j *job) error {
	return j.between(c.pairFlags, func(p *pair) error {
		if err := tagsNeeded(c.Goroutines.max(), p.tagUB); err != nil {
			return err
		}
		p.report.begin(len(c.Goroutines)*len(c.Sizes)*int(c.Rounds), p.memoryNotes(
			"each goroutine does ping-pong with its own one on the other rank, with a tag of its own; half of them start on either rank",
			"messages/s and us count every message, both directions, all goroutines together",
			roundsNote(c.Rounds))...)
		contents := c.contents(p.memory)
		for _, n := range c.Goroutines {
			for _, size := range c.Sizes {
				r, err := c.measure(p, n, size, contents)
				if err != nil {
					return err
				}
				p.report.row(r)
			}
		}
		return nil
	})
}

func (c *coroutinesCmd) measure(p *pair, n, size int, contents contents) (row, error) {
	crowd := make([]exchange, n)
	for i := range crowd {
		send, recv, err := p.memory.two(p.ctx, size)
		if err != nil {
			return nil, err
		}
		crowd[i] = exchange{
			ctx: p.ctx, world: p.world, peer: p.peer, tag: tagFirst + i, starts: (i%2 == 0) == p.first,
			send: send, recv: recv, contents: contents,
		}
	}
	iterations, warmup := c.iterations(max(5, 20000/n))
	us, err := p.rounds(c.Rounds, func() (float64, error) {
		return timeAll(crowd, iterations, warmup, 2*iterations*n, p.barrier)
	})
	if err != nil {
		return nil, err
	}
	way, err := p.endRow()
	t := newTiming(iterations, us[0], nil)
	return coroutinesRow{
		Goroutines: n, Size: size, timedPath: timedPath{t, way}, Messages: 2 * iterations * n,
		MessagesPerS: 1e6 / t.Us, Threads: threads(),
	}, err
}

// timeAll times all exchanges until every rank has finished.
func timeAll(exchanges []exchange, iterations, warmup, messages int, barrier func() error) (float64, error) {
	if err := runAll(exchanges, warmup); err != nil {
		return 0, err
	}
	if err := barrier(); err != nil {
		return 0, err
	}
	start := time.Now()
	if err := runAll(exchanges, iterations); err != nil {
		return 0, err
	}
	if err := barrier(); err != nil {
		return 0, err
	}
	return usPer(time.Since(start), messages), nil
}
