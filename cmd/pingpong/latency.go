package main

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/mpi4go/mpi4go/internal/cmpi"
)

type latencyCmd struct {
	pairFlags
	roundFlags
	sizeFlags `set:"sizes=0:4M"`
	memoryFlags
	compareFlags
	plotFlag
	transportFlags
}

// Validate refuses what does not go together.
func (c *latencyCmd) Validate() error {
	if len(c.Transport) > 0 && !c.Buffers.host() {
		return errors.New("--transport compares messages of host memory: leave out -d")
	}
	return c.memoryFlags.Validate()
}

// latencyRow is one message length. Times are one-way.
type latencyRow struct {
	Size int `json:"size"`
	timing
	path
	MinUs  float64 `json:"min_us"`
	P50Us  float64 `json:"p50_us"`
	P99Us  float64 `json:"p99_us"`
	MaxUs  float64 `json:"max_us"`
	Ratio  float64 `json:"ratio,omitempty"`
	Gompi  float64 `json:"gompi_us,omitempty"`
	MBPerS float64 `json:"mb_per_s"`
	Allocs float64 `json:"allocs_per_op"` // heap allocations of the whole process for each send and each receive
}

func (r latencyRow) columns() []column {
	columns := []column{
		{"size", "%d", r.Size},
		{"us", "%.2f", r.Us},
		{"min", "%.2f", r.MinUs},
		{"p50", "%.2f", r.P50Us},
		{"p99", "%.2f", r.P99Us},
		{"max", "%.2f", r.MaxUs},
		optional("C_us", "%.2f", r.CUs),
		optional("ratio", "%.2f", r.Ratio),
		{"MB/s", "%.2f", r.MBPerS},
	}
	if withGompi {
		columns = append(columns, optional("gompi_us", "%.2f", r.Gompi))
	}
	return append(columns, r.path.columns()...)
}

func (r latencyRow) bench() []benchLine {
	return r.timing.bench(fmt.Sprintf("size=%d", r.Size), float64(r.Size), "MB/s")
}

func (r latencyRow) point() (float64, float64, float64) { return float64(r.Size), r.Us, r.CUs }

// Run measures the one-way time of a message.
func (c *latencyCmd) Run(j *job) error {
	return j.between(c.pairFlags, func(p *pair) error {
		if len(c.Transport) > 0 {
			return c.measureTransports(p)
		}
		notes := append(latencyNotes(c.sizeFlags), p.memoryNotes(turnsNote(c.Rounds))...)
		passes := 3
		if withGompi {
			passes = 4
		}
		p.report.begin(len(c.Sizes)*int(c.Rounds)*passes, notes...)
		p.report.plot(c.Plot, "message size (bytes)", "one-way latency (us)")
		contents := c.contents(p.memory)
		for _, size := range c.Sizes {
			l, err := newLatency(p, size, c.roundFlags, latencyIterations(size), contents)
			if err != nil {
				return err
			}
			us, err := p.rounds(c.Rounds, l.passes(c.NoC)...)
			if err != nil {
				return err
			}
			row := l.row(us)
			if row.path, err = p.endRow(); err != nil {
				return err
			}
			p.report.row(row)
		}
		return nil
	})
}

func latencyNotes(f sizeFlags) []string {
	notes := []string{
		"one-way time = round trip / 2; us = mean of a round; MB = 10^6 bytes",
		"min, p50, p99, max: of single round trips / 2, timed in passes of their own (the clock costs them some 40 ns)",
		"C: blocking MPI_Send and MPI_Recv in a loop, the same MPI in the same process; ratio = us / C_us, below 1 we are faster",
	}
	if withGompi {
		notes = append(notes, "gompi: its blocking SendBytes and RecvPreallocBytes in a loop, likewise; it has no messages of 0 bytes")
	}
	if f.Validated {
		notes = append(notes, "validated: every message of ours; us is then the mean of single round trips, each after a barrier")
	}
	return notes
}

// latencyIterations is fewer for large messages.
func latencyIterations(size int) int { return min(50000, max(200, 50000*4096/max(size, 1))) }

// latency measures one message length.
type latency struct {
	exchange
	pair               *pair
	iterations, warmup int
	trips              *hdrhistogram.Histogram // of round trips, in nanoseconds
	allocs             []float64               // for each operation of a block
}

func newLatency(p *pair, size int, f roundFlags, iterations int, contents contents) (*latency, error) {
	l := &latency{
		exchange: exchange{ctx: p.ctx, world: p.world, peer: p.peer, tag: tagData, starts: p.first, contents: contents},
		pair:     p,
		trips:    hdrhistogram.New(1, longestTrip, 3),
	}
	l.iterations, l.warmup = f.iterations(iterations)
	var err error
	l.send, l.recv, err = p.memory.two(p.ctx, size)
	return l, err
}

const longestTrip = int64(time.Minute)

// passes are ours, C's, the one for the percentiles, and gompi's. If messages are
// validated, the last does for the first too.
func (l *latency) passes(noC bool) []pass {
	passes := []pass{l.block, l.c, l.single, l.gompi()}
	if l.contents != nil {
		passes[0], passes[2] = l.single, nil
	}
	if noC || !l.pair.cAble() || l.send.len() > math.MaxInt32 { // the C loop has a count of int
		passes[1] = nil
	}
	return passes
}

// block times all round trips as one.
func (l *latency) block() (float64, error) {
	if err := l.run(l.warmup); err != nil {
		return 0, err
	}
	before, _ := mallocs()
	start := time.Now()
	err := l.run(l.iterations)
	took := time.Since(start)
	after, _ := mallocs()
	l.allocs = append(l.allocs, float64(after-before)/float64(2*l.iterations))
	return usPer(took, 2*l.iterations), err
}

// single times every round trip by itself, without the validation.
func (l *latency) single() (float64, error) {
	var sum time.Duration
	for i := -l.warmup; i < l.iterations; i++ {
		if err := l.fill(); err != nil {
			return 0, err
		}
		if l.contents != nil {
			if err := l.pair.barrier(); err != nil {
				return 0, err
			}
		}
		start := time.Now()
		if err := l.turn(); err != nil {
			return 0, err
		}
		trip := time.Since(start)
		if err := l.verify(); err != nil {
			return 0, err
		}
		if i >= 0 {
			sum += trip
			_ = l.trips.RecordValue(min(trip.Nanoseconds(), longestTrip)) // never out of range
		}
	}
	return usPer(sum, 2*l.iterations), nil
}

// c times the C loop.
func (l *latency) c() (float64, error) {
	took, err := l.pair.cLoop(cmpi.BenchLatency, l.iterations, l.warmup, 1, l.send, l.recv)
	return usPer(took, 2*l.iterations), err
}

// row makes a row of what the passes have measured.
func (l *latency) row(us [][]float64) latencyRow {
	oneWay := func(trip int64) float64 { return float64(trip) / 2e3 }
	r := latencyRow{
		Size:   l.send.len(),
		timing: newTiming(l.iterations, us[0], us[1]),
		MinUs:  oneWay(l.trips.Min()),
		P50Us:  oneWay(l.trips.ValueAtQuantile(50)),
		P99Us:  oneWay(l.trips.ValueAtQuantile(99)),
		MaxUs:  oneWay(l.trips.Max()),
	}
	r.Ratio = r.ratio()
	r.Gompi = median(us[3])
	r.MBPerS = float64(r.Size) / r.Us
	r.Allocs = median(l.allocs)
	return r
}
