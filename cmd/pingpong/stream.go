package main

import (
	"fmt"
	"math"
	"time"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/internal/cmpi"
	"github.com/mpi4go/mpi4go/mpicomm"
)

// streamFlags are those of the modes that send windows of messages.
type streamFlags struct {
	pairFlags
	roundFlags
	sizeFlags
	memoryFlags
	compareFlags
	plotFlag
	Window positive `json:"window" default:"64" placeholder:"N" help:"Messages in flight (${default})."`
	Post   string   `json:"post" enum:"set,single" default:"set" placeholder:"set|single" help:"Start a window as one set with mpicomm.DoAll, or its messages one by one with Isend and Irecv (${default})."`
}

type bandwidthCmd struct {
	streamFlags `set:"sizes=1:4M"`
}

type bibandwidthCmd struct {
	streamFlags `set:"sizes=1:4M"`
}

type rateCmd struct {
	streamFlags `set:"sizes=1:64K"`
}

// Run measures the bandwidth in one direction.
func (c *bandwidthCmd) Run(j *job) error {
	return c.run(j, cmpi.BenchBandwidth, "bandwidth (MB/s)", "a window of sends, a window of receives, then an answer of 4 bytes",
		func(s *stream, t timedPath) row { return newBandwidthRow(s.send.len(), s.window, t) })
}

// Run measures the bandwidth in both directions.
func (c *bibandwidthCmd) Run(j *job) error {
	return c.run(j, cmpi.BenchBibandwidth, "bandwidth, both directions (MB/s)", "a window of receives, then one of sends, on both ranks; both directions count",
		func(s *stream, t timedPath) row { return newBandwidthRow(s.send.len(), s.window, t) })
}

// Run measures the message rate.
func (c *rateCmd) Run(j *job) error {
	return c.run(j, cmpi.BenchBandwidth, "message rate (messages/s)", "a window of sends, a window of receives, then an answer of 4 bytes",
		func(s *stream, t timedPath) row { return newRateRow(s.send.len(), s.window, t) })
}

func (f *streamFlags) run(j *job, mode cmpi.BenchMode, axis, form string, newRow func(*stream, timedPath) row) error {
	return j.between(f.pairFlags, func(p *pair) error {
		ours := "mpicomm.DoAll of a set of Isend and Irecv"
		if f.Post == "single" {
			ours = "Isend and Irecv one by one"
		}
		notes := []string{
			fmt.Sprintf("window %d: %s", f.Window, form),
			fmt.Sprintf("ours: %s, so receives are posted; C: MPI_Isend and posted MPI_Irecv, then MPI_Waitall, the same MPI in the same process", ours),
			"MB = 10^6 bytes; ratio = ours / C in what the table shows, above 1 we are faster",
			turnsNote(f.Rounds),
		}
		if f.Validated {
			notes = append(notes, "validated: every message of ours, each in a buffer of its own, after a barrier for each window")
		}
		p.report.begin(len(f.Sizes)*int(f.Rounds)*2, p.memoryNotes(notes...)...)
		p.report.plot(f.Plot, "message size (bytes)", axis)
		contents := f.contents(p.memory)
		for _, size := range f.Sizes {
			s, err := newStream(p, f, mode, size, contents)
			if err != nil {
				return err
			}
			us, err := p.rounds(f.Rounds, s.passes(f.NoC)...)
			if err != nil {
				return err
			}
			way, err := p.endRow()
			if err != nil {
				return err
			}
			p.report.row(newRow(s, timedPath{newTiming(s.iterations, us[0], us[1]), way}))
		}
		return nil
	})
}

// bandwidthRow is one message length. Times are for each message.
type bandwidthRow struct {
	Size   int `json:"size"`
	Window int `json:"window"`
	timedPath
	MBPerS  float64 `json:"mb_per_s"`
	CMBPerS float64 `json:"c_mb_per_s,omitempty"`
	Ratio   float64 `json:"ratio,omitempty"`
}

func newBandwidthRow(size, window int, t timedPath) row {
	r := bandwidthRow{Size: size, Window: window, timedPath: t, MBPerS: float64(size) / t.Us, Ratio: t.speedRatio()}
	if t.CUs > 0 {
		r.CMBPerS = float64(size) / t.CUs
	}
	return r
}

func (r bandwidthRow) columns() []column {
	return append([]column{
		{"size", "%d", r.Size},
		{"MB/s", "%.2f", r.MBPerS},
		optional("C_MB/s", "%.2f", r.CMBPerS),
		optional("ratio", "%.2f", r.Ratio),
	}, r.path.columns()...)
}

func (r bandwidthRow) bench() []benchLine {
	return r.timing.bench(fmt.Sprintf("size=%d", r.Size), float64(r.Size), "MB/s")
}

func (r bandwidthRow) point() (float64, float64, float64) {
	return float64(r.Size), r.MBPerS, r.CMBPerS
}

// rateRow is one message length. Times are for each message.
type rateRow struct {
	Size   int `json:"size"`
	Window int `json:"window"`
	timedPath
	MessagesPerS  float64 `json:"messages_per_s"`
	CMessagesPerS float64 `json:"c_messages_per_s,omitempty"`
	Ratio         float64 `json:"ratio,omitempty"`
}

func newRateRow(size, window int, t timedPath) row {
	r := rateRow{Size: size, Window: window, timedPath: t, MessagesPerS: 1e6 / t.Us, Ratio: t.speedRatio()}
	if t.CUs > 0 {
		r.CMessagesPerS = 1e6 / t.CUs
	}
	return r
}

func (r rateRow) columns() []column {
	return append([]column{
		{"size", "%d", r.Size},
		{"messages/s", "%.0f", r.MessagesPerS},
		optional("C_messages/s", "%.0f", r.CMessagesPerS),
		optional("ratio", "%.2f", r.Ratio),
	}, r.path.columns()...)
}

func (r rateRow) bench() []benchLine {
	return r.timing.bench(fmt.Sprintf("size=%d", r.Size), 1e6, "messages/s")
}

func (r rateRow) point() (float64, float64, float64) {
	return float64(r.Size), r.MessagesPerS, r.CMessagesPerS
}

// stream sends windows of messages of one length, as the C loop does.
type stream struct {
	pair               *pair
	mode               cmpi.BenchMode
	window             int
	single             bool // start the operations one by one
	iterations, warmup int
	send, recv         buffer // of the C loop, and of all messages that are not validated
	messages           []message
	ops                []mpicomm.Op
	requests           []*mpicomm.Request
	statuses           []mpicomm.Status
	contents           contents
	windows            int // that were validated
}

// message is one of the window.
type message struct {
	receives bool
	buf      buffer
}

func newStream(p *pair, f *streamFlags, mode cmpi.BenchMode, size int, contents contents) (*stream, error) {
	s := &stream{pair: p, mode: mode, window: int(f.Window), single: f.Post == "single", contents: contents}
	var err error
	if s.send, s.recv, err = p.memory.two(p.ctx, size); err != nil {
		return nil, err
	}
	s.iterations, s.warmup = f.iterations(min(3000, max(8, 3000*1024/max(size, 1))))
	for _, receives := range []bool{true, false} { // the receives first, as in the C loop
		if mode != cmpi.BenchBibandwidth && receives == p.first {
			continue
		}
		for range s.window {
			buf := s.send
			switch {
			case s.contents != nil:
				if buf, err = p.memory.alloc(p.ctx, size, 0); err != nil {
					return nil, err
				}
			case receives:
				buf = s.recv
			}
			s.messages = append(s.messages, message{receives, buf})
			if receives {
				s.ops = append(s.ops, p.world.RecvOp(buf.mem, p.peer, tagData))
			} else {
				s.ops = append(s.ops, p.world.SendOp(buf.mem, p.peer, tagData))
			}
		}
	}
	return s, nil
}

func (s *stream) passes(noC bool) []pass {
	passes := []pass{s.ours, s.c}
	if noC || !s.pair.cAble() || s.send.len() > math.MaxInt32 { // the C loop has a count of int
		passes[1] = nil
	}
	return passes
}

// usPerMessage counts the messages of both directions.
func (s *stream) usPerMessage(took time.Duration) float64 {
	messages := s.iterations * s.window
	if s.mode == cmpi.BenchBibandwidth {
		messages *= 2
	}
	return usPer(took, messages)
}

// ours times all windows as one, or each by itself if they are validated.
func (s *stream) ours() (float64, error) {
	if s.contents != nil {
		return s.validated()
	}
	for range s.warmup {
		if err := s.turn(); err != nil {
			return 0, err
		}
	}
	start := time.Now()
	for range s.iterations {
		if err := s.turn(); err != nil {
			return 0, err
		}
	}
	return s.usPerMessage(time.Since(start)), nil
}

func (s *stream) validated() (float64, error) {
	var sum time.Duration
	for i := -s.warmup; i < s.iterations; i++ {
		if err := s.fill(); err != nil {
			return 0, err
		}
		if err := s.pair.barrier(); err != nil {
			return 0, err
		}
		start := time.Now()
		if err := s.turn(); err != nil {
			return 0, err
		}
		if i >= 0 {
			sum += time.Since(start)
		}
		if err := s.verify(); err != nil {
			return 0, err
		}
	}
	return s.usPerMessage(sum), nil
}

// turn sends one window.
func (s *stream) turn() error {
	err := s.transfer()
	var answer [4]byte
	switch {
	case err != nil || s.mode == cmpi.BenchBibandwidth:
	case s.pair.first:
		_, err = coro.Recv(s.pair.ctx, s.pair.world, answer[:], s.pair.peer, tagAnswer)
	default:
		err = coro.Send(s.pair.ctx, s.pair.world, answer[:], s.pair.peer, tagAnswer)
	}
	return err
}

// transfer starts the messages of a window and waits for them.
func (s *stream) transfer() error {
	if !s.single {
		var err error
		s.statuses, err = mpicomm.DoAll(s.pair.ctx, s.statuses[:0], s.ops...)
		return err
	}
	s.requests = s.requests[:0]
	for _, m := range s.messages {
		start := s.pair.world.Isend
		if m.receives {
			start = s.pair.world.Irecv
		}
		request, err := start(m.buf.mem, s.pair.peer, tagData)
		if err != nil {
			return err
		}
		s.requests = append(s.requests, request)
	}
	return mpicomm.Waitall(s.pair.ctx, s.requests...)
}

// c times the C loop.
func (s *stream) c() (float64, error) {
	took, err := s.pair.cLoop(s.mode, s.iterations, s.warmup, s.window, s.send, s.recv)
	return s.usPerMessage(took), err
}

func (s *stream) fill() error {
	for i, m := range s.messages {
		if m.receives {
			continue
		}
		if err := s.contents.fill(s.pair.ctx, m.buf, s.seed(i, s.pair.first)); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) verify() error {
	for i, m := range s.messages {
		if !m.receives {
			continue
		}
		if err := s.contents.verify(s.pair.ctx, m.buf, s.seed(i, !s.pair.first)); err != nil {
			return fmt.Errorf("validation: window %d, message %d of %d bytes from rank %d: %w", s.windows, i, m.buf.len(), s.pair.peer, err)
		}
	}
	s.windows++
	return nil
}

// seed numbers the messages of both directions.
func (s *stream) seed(i int, fromFirst bool) int {
	return seed(s.windows*s.window+i%s.window, fromFirst)
}
