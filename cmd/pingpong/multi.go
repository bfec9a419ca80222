package main

import (
	"fmt"
	"time"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/internal/cmpi"
	"github.com/mpi4go/mpi4go/mem"
)

type multiCmd struct {
	pairFlags
	roundFlags
	mixedFlags
	compareFlags
	plotFlag
	Sizes     sizes `json:"sizes" default:"64,1K,4K,16K,64K,256K,1M" placeholder:"SIZES" help:"Bytes of each frame (${default})."`
	Frames    sizes `json:"frames" default:"16" placeholder:"N,..." help:"Frames of a message (${default})."`
	Validated bool  `json:"validate" name:"validate" help:"Fill every message with another pattern and verify what arrives."`
}

// multiRow is messages of one shape. The C columns are the ways to do it with
// MPI alone, with lengths that both sides know.
type multiRow struct {
	Frames int `json:"frames"`
	Size   int `json:"size"`
	timedPath
	PackedUs   float64 `json:"c_packed_us,omitempty"`
	RequestsUs float64 `json:"c_requests_us,omitempty"`
	DatatypeUs float64 `json:"c_datatype_us,omitempty"`
	OneUs      float64 `json:"c_contiguous_us,omitempty"`
	Ratio      float64 `json:"ratio,omitempty"`     // to the best of the three
	OneRatio   float64 `json:"one_ratio,omitempty"` // to one contiguous message
	MBPerS     float64 `json:"mb_per_s"`
}

func (r multiRow) columns() []column {
	return append([]column{
		{"frames", "%d", r.Frames},
		{"size", "%d", r.Size},
		{"us", "%.2f", r.Us},
		optional("packed", "%.2f", r.PackedUs),
		optional("requests", "%.2f", r.RequestsUs),
		optional("datatype", "%.2f", r.DatatypeUs),
		optional("contiguous", "%.2f", r.OneUs),
		optional("to_best", "%.2f", r.Ratio),
		optional("to_contig", "%.2f", r.OneRatio),
		{"MB/s", "%.2f", r.MBPerS},
	}, r.path.columns()...)
}

func (r multiRow) bench() []benchLine {
	return r.timing.bench(fmt.Sprintf("frames=%d/size=%d", r.Frames, r.Size), float64(r.Frames*r.Size), "MB/s")
}

func (r multiRow) point() (float64, float64, float64) { return float64(r.Size), r.Us, r.CUs }

var cPlans = []cmpi.BenchMode{cmpi.BenchFramesPacked, cmpi.BenchFramesRequests, cmpi.BenchFramesDatatype, cmpi.BenchFramesOne}

// Run measures messages of many buffers.
func (c *multiCmd) Run(j *job) error {
	return j.between(c.pairFlags, func(p *pair) error {
		notes := []string{
			"us = one-way time of a message (half a ping-pong); ours: coro.SendMessage and RecvMessageInto, whose receiver learns the lengths",
			"C, in the same process, with known lengths: packed = copied into one buffer, sent, copied out; requests = a header of 8 bytes and a request for each frame;",
			"datatype = one hindexed datatype, made before; contiguous = one buffer of as many bytes. to_best: to the best of the first three",
			turnsNote(c.Rounds),
		}
		if c.Validated {
			notes = append(notes, "validated: every message of ours")
		}
		passes := 1 + len(cPlans)
		if c.NoC {
			passes = 1
		}
		notes = p.memoryNotes(notes...)
		if !p.memory.uniform() {
			notes = append(notes, "no C columns: the frames of a message lie in different memory")
		}
		p.report.begin(len(c.Sizes)*len(c.Frames)*int(c.Rounds)*passes, notes...)
		p.report.plot(c.Plot, "one-way time (us)")
		for _, frames := range c.Frames {
			for _, size := range c.Sizes {
				row, err := c.measure(p, frames, size)
				if err != nil {
					return err
				}
				p.report.row(row)
			}
		}
		return nil
	})
}

func (c *multiCmd) measure(p *pair, frames, size int) (multiRow, error) {
	m := &multi{pair: p}
	stride := (size + 4095) / 4096 * 4096 // a page apart, so that they are not one buffer
	if size < 2048 {
		stride = size + 64
	}
	for i := range m.buffers {
		var err error
		if m.buffers[i], m.frames[i], err = p.memory.frames(p.ctx, frames, size, stride); err != nil {
			return multiRow{}, err
		}
		for _, f := range m.frames[i] {
			m.mem[i] = append(m.mem[i], f.mem)
		}
	}
	if c.Validated {
		m.contents = p.memory.contents(size)
	}
	m.iterations, m.warmup = c.iterations(min(2000, max(6, 40<<20/max(1, frames*size))))
	passes := []pass{m.ours}
	for _, mode := range cPlans {
		if c.NoC || !p.cAble() || !p.memory.uniform() || !p.memory.planAble(mode) {
			passes = append(passes, nil)
			continue
		}
		passes = append(passes, func() (float64, error) {
			loop := cmpi.Bench{Mode: mode, Peer: p.peer, Sender: p.first, Size: size, Frames: frames, Stride: stride}
			m.buffers[0].lend(&loop.Send, &loop.SendAt)
			m.buffers[1].lend(&loop.Recv, &loop.RecvAt)
			took, err := runLoop(p.lib, loop, m.warmup, m.iterations)
			return usPer(took, 2*m.iterations), err
		})
	}
	us, err := p.rounds(c.Rounds, passes...)
	if err != nil {
		return multiRow{}, err
	}
	way, err := p.endRow()
	row := multiRow{Frames: frames, Size: size, timedPath: timedPath{newTiming(m.iterations, us[0], nil), way}}
	row.MBPerS = float64(frames*size) / row.Us
	row.PackedUs, row.RequestsUs, row.DatatypeUs, row.OneUs = median(us[1]), median(us[2]), median(us[3]), median(us[4])
	var best []float64
	for _, plan := range us[1:4] {
		if len(best) == 0 || len(plan) > 0 && median(plan) < median(best) {
			best = plan
		}
	}
	row.CUs, row.CRoundsUs = median(best), best
	row.Ratio, row.OneRatio = median(ratios(us[0], best)), median(ratios(us[0], us[4]))
	return row, err
}

// multi is a message that goes back and forth.
type multi struct {
	pair               *pair
	iterations, warmup int
	buffers            [2]buffer   // what is sent, what is received: if the frames are parts of one buffer
	frames             [2][]buffer // of these
	mem                [2][]mem.Buffer
	contents           contents // nil: do not validate
	sent               int
}

func (m *multi) ours() (float64, error) {
	p := m.pair
	var start time.Time
	for i := range m.warmup + m.iterations {
		if i == m.warmup {
			start = time.Now()
		}
		for _, sends := range []bool{p.first, !p.first} {
			if err := m.half(sends); err != nil {
				return 0, err
			}
		}
	}
	return usPer(time.Since(start), 2*m.iterations), nil
}

// half sends or receives one message.
func (m *multi) half(sends bool) error {
	p := m.pair
	if sends {
		if err := m.fill(); err != nil {
			return err
		}
		return coro.SendMessage(p.ctx, p.world, m.mem[0], p.peer, tagData)
	}
	if _, err := coro.RecvMessageInto(p.ctx, p.world, m.mem[1], p.peer, tagData); err != nil {
		return err
	}
	return m.verify()
}

// fill prepares the next message.
func (m *multi) fill() error {
	if m.contents == nil {
		return nil
	}
	for i, f := range m.frames[0] {
		if err := m.contents.fill(m.pair.ctx, f, m.seed(m.sent, m.pair.first, i)); err != nil {
			return err
		}
	}
	m.sent++
	return nil
}

// verify compares what was received.
func (m *multi) verify() error {
	if m.contents == nil {
		return nil
	}
	p := m.pair
	round := m.sent
	if p.first {
		round--
	}
	for i, f := range m.frames[1] {
		if err := m.contents.verify(p.ctx, f, m.seed(round, !p.first, i)); err != nil {
			return fmt.Errorf("validation: message %d, frame %d of %d bytes from rank %d: %w", round, i, f.len(), p.peer, err)
		}
	}
	return nil
}

// seed numbers the frames of all messages.
func (m *multi) seed(round int, fromFirst bool, frame int) int {
	return seed(round, fromFirst)*len(m.frames[0]) + frame
}
