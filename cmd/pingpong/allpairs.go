package main

import "fmt"

type allpairsCmd struct {
	contextFlag
	roundFlags
	sizeFlags `set:"sizes=1"`
	memoryFlags
}

func (c *allpairsCmd) ranksNeeded() int { return 2 }

// allpairsRow is one message length. Us is the time for each message of all
// pairs together.
type allpairsRow struct {
	Ranks int `json:"ranks"`
	Cores int `json:"cores"` // of the first rank's host
	Size  int `json:"size"`
	timedPath
	OneWayUs     float64 `json:"one_way_us"` // as one pair sees it
	MessagesPerS float64 `json:"messages_per_s"`
}

func (r allpairsRow) columns() []column {
	return append([]column{
		{"ranks", "%d", r.Ranks},
		{"cores", "%d", r.Cores},
		{"size", "%d", r.Size},
		{"us", "%.2f", r.Us},
		{"one-way_us", "%.2f", r.OneWayUs},
		{"messages/s", "%.0f", r.MessagesPerS},
	}, r.path.columns()...)
}

func (r allpairsRow) bench() []benchLine {
	return r.timing.bench(fmt.Sprintf("ranks=%d/size=%d", r.Ranks, r.Size), 1e6, "messages/s")
}

// Run measures ping-pong between all ranks.
func (c *allpairsCmd) Run(j *job) error {
	ctx, cancel := c.context()
	defer cancel()
	rank, ranks := j.world.Rank(), j.world.Size()
	if rank == 0 {
		j.report = j.begin()
	}
	j.memory.side = rank % 2
	notes := j.memory.notes(
		"every rank does ping-pong with every other at the same time, a goroutine for each",
		"us = time / messages of all pairs, both directions; one-way_us = round trip / 2 as one pair sees it",
		roundsNote(c.Rounds))
	if j.memory.device != nil {
		notes = append(notes, "the ranks with even numbers have the first of the two memories; path is that of rank 0")
	}
	j.report.begin(len(c.Sizes)*int(c.Rounds), notes...)
	barrier := func() error { return j.barrier(ctx) }
	contents := c.contents(j.memory)
	for _, size := range c.Sizes {
		var exchanges []exchange
		for peer := range ranks {
			if peer == rank {
				continue
			}
			send, recv, err := j.memory.two(ctx, size)
			if err != nil {
				return err
			}
			exchanges = append(exchanges, exchange{
				ctx: ctx, world: j.world, peer: peer, tag: tagData, starts: rank < peer,
				send: send, recv: recv, contents: contents,
			})
		}
		iterations, warmup := c.iterations(200)
		pairs := ranks * (ranks - 1) / 2
		us, err := alternate(int(c.Rounds), barrier, j.report.tick, func() (float64, error) {
			return timeAll(exchanges, iterations, warmup, 2*iterations*pairs, barrier)
		})
		if err != nil {
			return err
		}
		var way path
		if j.memory.device != nil {
			way = pathOf(j.memory.traffic())
		}
		if err := j.memory.reset(); err != nil {
			return err
		}
		t := newTiming(iterations, us[0], nil)
		j.report.row(allpairsRow{
			Ranks: ranks, Cores: cores(), Size: size, timedPath: timedPath{t, way},
			OneWayUs: t.Us * float64(pairs), MessagesPerS: 1e6 / t.Us,
		})
	}
	return j.report.end()
}
