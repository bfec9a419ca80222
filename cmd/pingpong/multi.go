package main

import (
	"fmt"
	"math"
	"runtime/debug"
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
	Largest   size  `json:"largest" default:"1G" placeholder:"BYTES" help:"Leave out messages of more bytes (${default})."`
	Singles   bool  `json:"singles" help:"Also send the frames one by one, each by coro.Send."`
	Memory    bool  `json:"memory" help:"Also tell how much the resident memory of both sides grows above the payload, at its peak."`
	Validated bool  `json:"validate" name:"validate" help:"Fill every message with another pattern and verify what arrives."`
}

// multiShape is what a message is made of.
type multiShape struct{ frames, size int }

func (s multiShape) bytes() int { return s.frames * s.size }

// shapes are the messages to measure.
func (c *multiCmd) shapes() (shapes []multiShape) {
	for _, frames := range c.Frames {
		for _, bytes := range c.Sizes {
			if s := (multiShape{frames, bytes}); bytes == 0 || frames <= int(c.Largest)/bytes {
				shapes = append(shapes, s)
			}
		}
	}
	return shapes
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

	Allocs       float64    `json:"allocs_per_op"` // heap allocations of the whole process for each send and each receive
	AllocBytes   float64    `json:"alloc_bytes_per_op"`
	SinglesUs    float64    `json:"singles_us,omitempty"`
	SinglesRatio float64    `json:"singles_ratio,omitempty"` // us / singles_us
	Extra        *extraSize `json:"extra_bytes,omitempty"`
}

// extraSize is what each way takes in memory, both sides together, besides the
// payload.
type extraSize struct {
	Ours       int `json:"ours"`
	Packed     int `json:"c_packed,omitempty"`
	Requests   int `json:"c_requests,omitempty"`
	Datatype   int `json:"c_datatype,omitempty"`
	Contiguous int `json:"c_contiguous,omitempty"`
}

func (r multiRow) columns() []column {
	columns := []column{
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
		{"allocs", "%.1f", r.Allocs},
	}
	if r.SinglesUs > 0 {
		columns = append(columns, column{"singles", "%.2f", r.SinglesUs}, column{"to_singles", "%.3f", r.SinglesRatio})
	}
	if e := r.Extra; e != nil {
		columns = append(columns, column{"KiB", "%d", e.Ours / 1024})
		for _, way := range []struct {
			name  string
			bytes int
		}{{"packed_KiB", e.Packed}, {"requests_KiB", e.Requests}, {"datatype_KiB", e.Datatype}, {"contig_KiB", e.Contiguous}} {
			columns = append(columns, optional(way.name, "%.0f", float64(way.bytes)/1024))
		}
	}
	return append(columns, r.path.columns()...)
}

func (r multiRow) curve() string { return fmt.Sprintf("%d frames", r.Frames) }

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
			notes = append(notes, "validated: every message of ours, in the time and with the allocations that are reported")
		}
		if c.Singles {
			notes = append(notes, "singles = as many coro.Send as there are frames, one after the other; to_singles: ours to these")
		}
		if c.Memory {
			notes = append(notes,
				"KiB = growth of resident memory to its peak (VmHWM), both sides together, beyond the payload and what one frame of a 64th takes: the heaps of Go and C, stacks, and",
				"shared memory that a side has touched, but not program code that is read from files; measured before the rounds, ours first; what a way keeps is not counted for the next")
		}
		notes = p.memoryNotes(notes...)
		if !p.memory.uniform() {
			notes = append(notes, "no C columns: the frames of a message lie in different memory")
		}
		shapes := c.shapes()
		if left := len(c.Frames)*len(c.Sizes) - len(shapes); left > 0 {
			notes = append(notes, fmt.Sprintf("left out: %d messages of more than %s bytes", left, formatSize(int(c.Largest))))
		}
		passes := 1 + len(cPlans)
		if c.NoC {
			passes = 1
		}
		if c.Singles {
			passes++
		}
		p.report.begin(len(shapes)*int(c.Rounds)*passes, notes...)
		p.report.plot(c.Plot, "frame size (bytes)", "one-way time (us)")
		for _, shape := range shapes {
			row, err := c.measure(p, shape)
			if err != nil {
				return err
			}
			p.report.row(row)
		}
		return nil
	})
}

// The passes of a message, by their place in what rounds returns.
const (
	passOurs = iota
	passPacked
	passRequests
	passDatatype
	passContiguous
	passSingles
	passes
)

func (c *multiCmd) measure(p *pair, shape multiShape) (multiRow, error) {
	row := multiRow{Frames: shape.frames, Size: shape.size}
	m, err := newMulti(p, shape)
	if err != nil {
		return row, err
	}
	if c.Validated {
		m.contents = p.memory.contents(shape.size)
	}
	m.iterations, m.warmup = c.iterations(min(2000, max(6, 40<<20/max(1, shape.bytes()))))
	ways := [passes]func(*multi) (float64, error){passOurs: (*multi).ours}
	for i, mode := range cPlans {
		if !c.NoC && shape.bytes() <= math.MaxInt32 && p.cAble() && p.memory.planAble(mode) { // the C loop has a count of int
			ways[passPacked+i] = func(m *multi) (float64, error) { return m.c(mode) }
		}
	}
	if c.Singles {
		ways[passSingles] = (*multi).singles
	}
	if c.Memory {
		var extra [passes]int
		for i, way := range ways[:passSingles] {
			if way == nil {
				continue
			}
			if extra[i], err = m.extra(way); err != nil {
				return row, err
			}
		}
		row.Extra = &extraSize{extra[passOurs], extra[passPacked], extra[passRequests], extra[passDatatype], extra[passContiguous]}
	}
	var measures [passes]pass
	for i, way := range ways {
		if way != nil {
			measures[i] = func() (float64, error) { return way(m) }
		}
	}
	us, err := p.rounds(c.Rounds, measures[:]...)
	if err != nil {
		return row, err
	}
	if row.path, err = p.endRow(); err != nil {
		return row, err
	}
	row.timing = newTiming(m.iterations, us[passOurs], nil)
	row.MBPerS = float64(shape.bytes()) / row.Us
	row.Allocs, row.AllocBytes = median(m.allocs), median(m.allocBytes)
	row.SinglesUs, row.SinglesRatio = median(us[passSingles]), median(ratios(us[passOurs], us[passSingles]))
	row.PackedUs, row.RequestsUs, row.DatatypeUs, row.OneUs = median(us[passPacked]), median(us[passRequests]), median(us[passDatatype]), median(us[passContiguous])
	var best []float64
	for _, plan := range us[passPacked:passContiguous] {
		if len(best) == 0 || len(plan) > 0 && median(plan) < median(best) {
			best = plan
		}
	}
	row.CUs, row.CRoundsUs = median(best), best
	row.Ratio, row.OneRatio = median(ratios(us[passOurs], best)), median(ratios(us[passOurs], us[passContiguous]))
	return row, nil
}

// multi is a message that goes back and forth.
type multi struct {
	pair               *pair
	shape              multiShape
	stride             int
	iterations, warmup int
	buffers            [2]buffer   // what is sent, what is received: if the frames are parts of one buffer
	frames             [2][]buffer // of these
	mem                [2][]mem.Buffer
	contents           contents // nil: do not validate
	sent               int
	allocs, allocBytes []float64 // for each send or receive, of each pass of ours
}

func newMulti(p *pair, shape multiShape) (*multi, error) {
	m := &multi{pair: p, shape: shape}
	m.stride = (m.shape.size + 4095) / 4096 * 4096 // a page apart, so that they are not one buffer
	if m.shape.size < 2048 {
		m.stride = m.shape.size + 64
	}
	for i := range m.buffers {
		var err error
		if m.buffers[i], m.frames[i], err = p.memory.frames(p.ctx, shape.frames, shape.size, m.stride); err != nil {
			return nil, err
		}
		for _, f := range m.frames[i] {
			m.mem[i] = append(m.mem[i], f.mem)
		}
	}
	return m, nil
}

func (m *multi) ours() (float64, error) {
	if err := m.trips(m.warmup, m.half); err != nil {
		return 0, err
	}
	count, bytes := mallocs()
	start := time.Now()
	err := m.trips(m.iterations, m.half)
	took := time.Since(start)
	countAfter, bytesAfter := mallocs()
	m.allocs = append(m.allocs, float64(countAfter-count)/float64(2*m.iterations))
	m.allocBytes = append(m.allocBytes, float64(bytesAfter-bytes)/float64(2*m.iterations))
	return usPer(took, 2*m.iterations), err
}

// singles sends the frames one by one.
func (m *multi) singles() (float64, error) {
	if err := m.trips(m.warmup, m.halfSingles); err != nil {
		return 0, err
	}
	start := time.Now()
	err := m.trips(m.iterations, m.halfSingles)
	return usPer(time.Since(start), 2*m.iterations), err
}

// c runs a C loop.
func (m *multi) c(mode cmpi.BenchMode) (float64, error) {
	loop := cmpi.Bench{
		Mode: mode, Peer: m.pair.peer, Sender: m.pair.first,
		Size: m.shape.size, Frames: m.shape.frames, Stride: m.stride,
	}
	m.buffers[0].lend(&loop.Send, &loop.SendAt)
	m.buffers[1].lend(&loop.Recv, &loop.RecvAt)
	took, err := runLoop(m.pair.lib, loop, m.warmup, m.iterations)
	return usPer(took, 2*m.iterations), err
}

// extra is how much more memory both sides take at the peak of a few messages
// than at much shorter ones of one frame, for which threads, stacks and pools are
// there.
func (m *multi) extra(way func(*multi) (float64, error)) (int, error) {
	debug.FreeOSMemory()
	short, err := newMulti(m.pair, multiShape{1, max(64, m.shape.size/64)})
	if err != nil {
		return 0, err
	}
	short.iterations = 100
	if _, err := way(short); err != nil {
		return 0, err
	}
	few := *m
	few.iterations, few.warmup, few.contents = 4, 1, nil // validating takes memory too
	if err := m.pair.barrier(); err != nil {
		return 0, err
	}
	if err := resetPeak(); err != nil {
		return 0, fmt.Errorf("--memory: %w", err)
	}
	before, files := residentBytes(), residentFileBytes()
	if _, err := way(&few); err != nil {
		return 0, err
	}
	grown := peakBytes() - before - (residentFileBytes() - files)
	theirs, err := m.pair.fromSecond([]float64{float64(grown)})
	return grown + int(theirs[0]), err
}

// trips makes n round trips.
func (m *multi) trips(n int, half func(sends bool) error) error {
	for range n {
		for _, sends := range []bool{m.pair.first, !m.pair.first} {
			if err := half(sends); err != nil {
				return err
			}
		}
	}
	return nil
}

// halfSingles sends or receives the frames, each as a message of its own.
func (m *multi) halfSingles(sends bool) error {
	p := m.pair
	for i := range m.shape.frames {
		single := exchange{ctx: p.ctx, world: p.world, peer: p.peer, tag: tagSingle, send: m.frames[0][i], recv: m.frames[1][i]}
		half := single.receives
		if sends {
			half = single.sends
		}
		err := half()
		if err != nil {
			return err
		}
	}
	return nil
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
