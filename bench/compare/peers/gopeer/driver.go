package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpi4go/mpi4go/mem"
)

// The orders that the first process gives to the second; any other is a number of turns.
const (
	orderEnd    = 0
	orderVerify = -1
)

// burst is how many turns come before a wait.
const burst = 200

// driver measures over a carrier. The first process tells the second how many turns
// come next, so that the time of an item, not its iterations, is what the user sets.
type driver struct {
	carrier  carrier
	control  conversation
	time     time.Duration // of an item
	wait     time.Duration // of an item that waits
	verified int
	pattern  []byte
	blocks   []*mem.Block // long buffers
	used     int          // of them by the measurement
}

func newDriver(c carrier) (*driver, error) {
	control, err := c.conversation(0)
	if err != nil {
		return nil, err
	}
	d := &driver{carrier: c, control: control}
	for name, into := range map[string]*time.Duration{"COMPARE_MS": &d.time, "COMPARE_WAIT_MS": &d.wait} {
		ms, err := strconv.Atoi(os.Getenv(name))
		if err != nil || ms < 1 {
			return nil, fmt.Errorf("%s=%q is not a number of milliseconds", name, os.Getenv(name))
		}
		*into = time.Duration(ms) * time.Millisecond
	}
	return d, nil
}

// result is a line of the output. Times are in microseconds for each message, one-way.
type result struct {
	Kind       string  `json:"kind"`
	Size       int     `json:"size"`
	Frames     int     `json:"frames"`
	N          int     `json:"n"`
	Iterations int     `json:"iterations,omitempty"`
	Us         float64 `json:"us,omitempty"`
	P50        float64 `json:"p50_us,omitempty"`
	P99        float64 `json:"p99_us,omitempty"`
	CPU        float64 `json:"cpu_percent"`
	Wakeup     float64 `json:"wakeup_us,omitempty"`
	RSS        float64 `json:"rss_bytes,omitempty"`
	Sender     float64 `json:"sender_bytes"`
	Receiver   float64 `json:"receiver_bytes"`
}

func (d *driver) measure(i item) error {
	r := result{Kind: i.kind, Size: i.size, Frames: i.frames, N: i.n}
	var err error
	switch i.kind {
	case "wait", "idle":
		err = d.waiting(&r)
	case "memory":
		err = d.memory(i, &r)
	default:
		err = d.timed(i, &r)
	}
	if err != nil || !d.carrier.first() {
		return err
	}
	return printLine(r)
}

// work is what an item does in one turn.
type work struct {
	messages int // of a turn, in both directions
	turn     func() error
	turns    func(n int) error // in place of turn
	fill     func(seed int)    // what is sent next
	check    func(seed int) error
}

func (w *work) run(n int) error {
	if w.turns != nil {
		return w.turns(n)
	}
	for range n {
		if err := w.turn(); err != nil {
			return err
		}
	}
	return nil
}

// timed measures what can be repeated.
func (d *driver) timed(i item, r *result) error {
	w, err := d.work(i)
	if err != nil {
		return err
	}
	if !d.carrier.first() {
		return d.obey(w)
	}
	if err := d.verify(w); err != nil {
		return err
	}
	n := 1
	var took time.Duration
	for { // the warm-up also says how long a turn takes
		if took, err = d.timeTurns(w, n); err != nil {
			return err
		}
		if took >= d.time/8 {
			break
		}
		n *= 2
	}
	n = max(2, int(float64(n)*float64(d.time/2)/float64(took)))
	if took, err = d.timeTurns(w, n); err != nil {
		return err
	}
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 / float64(w.messages) }
	r.Iterations, r.Us = n, us(took)/float64(n)
	if w.turns == nil {
		singles := make([]time.Duration, min(n, 50000))
		if err := d.order(len(singles)); err != nil {
			return err
		}
		for j := range singles {
			start := time.Now()
			if err := w.turn(); err != nil {
				return err
			}
			singles[j] = time.Since(start)
		}
		slices.Sort(singles)
		r.P50, r.P99 = us(singles[len(singles)/2]), us(singles[len(singles)*99/100])
	}
	if err := d.verify(w); err != nil {
		return err
	}
	return d.order(orderEnd)
}

func (d *driver) timeTurns(w *work, n int) (time.Duration, error) {
	if err := d.order(n); err != nil {
		return 0, err
	}
	start := time.Now()
	err := w.run(n)
	return time.Since(start), err
}

// obey is the second process's part of an item.
func (d *driver) obey(w *work) error {
	for {
		n, err := d.ordered()
		switch {
		case err != nil || n == orderEnd:
			return err
		case n == orderVerify:
			err = d.verifyTurn(w)
		default:
			err = w.run(n)
		}
		if err != nil {
			return err
		}
	}
}

func (d *driver) order(n int) error {
	return d.control.send(binary.LittleEndian.AppendUint64(nil, uint64(n)))
}

func (d *driver) ordered() (int, error) {
	var b [8]byte
	err := d.control.recv(b[:])
	return int(binary.LittleEndian.Uint64(b[:])), err
}

// verify makes a turn whose messages are looked at by both sides.
func (d *driver) verify(w *work) error {
	if err := d.order(orderVerify); err != nil {
		return err
	}
	return d.verifyTurn(w)
}

func (d *driver) verifyTurn(w *work) error {
	d.verified++
	mine, theirs := 2*d.verified, 2*d.verified+1
	if !d.carrier.first() {
		mine, theirs = theirs, mine
	}
	w.fill(mine)
	if err := w.run(1); err != nil {
		return err
	}
	if err := w.check(theirs); err != nil {
		return fmt.Errorf("verification %d: %w", d.verified, err)
	}
	return nil
}

// seeds is the number of different patterns.
const seeds = 251

// contents is what a message of a seed has in it.
func (d *driver) contents(size, seed int) []byte {
	for j := len(d.pattern); j < size+seeds; j++ {
		d.pattern = append(d.pattern, byte(j*131+j>>8*29+17))
	}
	seed %= seeds
	return d.pattern[seed : seed+size]
}

func (d *driver) checkContents(b []byte, seed int) error {
	if string(b) != string(d.contents(len(b), seed)) {
		return fmt.Errorf("a message of %d bytes is not what was sent", len(b))
	}
	return nil
}

// buffer is memory for a message: from 2 MiB on of mem.Alloc, which puts it into huge
// pages as numpy does. It is used again for the next measurement.
func (d *driver) buffer(size int) ([]byte, error) {
	if size < 2<<20 {
		return make([]byte, size), nil
	}
	for ; d.used < len(d.blocks); d.used++ {
		if b := d.blocks[d.used].Bytes(); len(b) >= size {
			d.used++
			return b[:size], nil
		}
	}
	b, err := mem.Alloc(max(size, 16<<20))
	if err != nil {
		return nil, err
	}
	d.blocks = append(d.blocks, b)
	d.used = len(d.blocks)
	return b.Bytes()[:size], nil
}

func (d *driver) work(i item) (*work, error) {
	switch i.kind {
	case "latency", "throughput", "multi":
		send, recv := make([][]byte, i.frames), make([][]byte, i.frames)
		d.used = 0
		for f := range i.frames {
			var err error
			if send[f], err = d.buffer(i.size); err != nil {
				return nil, err
			}
			if recv[f], err = d.buffer(i.size); err != nil {
				return nil, err
			}
		}
		w := &work{messages: 2}
		w.fill = func(seed int) {
			for f := range i.frames {
				copy(send[f], d.contents(i.size, seed+f))
				clear(recv[f])
			}
		}
		w.check = func(seed int) error {
			for f := range i.frames {
				if err := d.checkContents(recv[f], seed+f); err != nil {
					return err
				}
			}
			return nil
		}
		c := d.control
		halves := []func() error{func() error { return c.send(send[0]) }, func() error { return c.recv(recv[0]) }}
		switch i.kind {
		case "multi":
			halves = []func() error{c.message(send, true), c.message(recv, false)}
		case "throughput":
			answer := make([]byte, 8)
			w.messages = i.n
			if d.carrier.first() {
				halves = []func() error{c.window(send[0], i.n, true), func() error { return c.recv(answer) }}
				w.check = func(int) error { return nil } // nothing but the answer comes back
			} else {
				halves = []func() error{func() error { return c.send(answer) }, c.window(recv[0], i.n, false)}
			}
		}
		if !d.carrier.first() {
			slices.Reverse(halves)
		}
		w.turn = func() error {
			if err := halves[0](); err != nil {
				return err
			}
			return halves[1]()
		}
		return w, nil
	case "rate":
		return d.crowd(i)
	}
	return nil, fmt.Errorf("there is no measurement %q", i.kind)
}

// crowd is many conversations at the same time, each of ping-pongs, which half of them
// start on either side.
func (d *driver) crowd(i item) (*work, error) {
	type member struct {
		conversation
		out, into []byte
		starts    bool
	}
	members := make([]member, i.n)
	for m := range members {
		c, err := d.carrier.conversation(m)
		if err != nil {
			return nil, err
		}
		members[m] = member{c, make([]byte, i.size), make([]byte, i.size), (m%2 == 0) == d.carrier.first()}
	}
	return &work{
		messages: 2 * i.n,
		turns: func(n int) error {
			done := make(chan error, len(members))
			for m := range members {
				go func() { done <- pingPongs(members[m], members[m].out, members[m].into, members[m].starts, n) }()
			}
			for range members {
				if err := <-done; err != nil {
					return err
				}
			}
			return nil
		},
		fill: func(seed int) {
			for m := range members {
				copy(members[m].out, d.contents(i.size, seed+m))
				clear(members[m].into)
			}
		},
		check: func(seed int) error {
			for m := range members {
				if err := d.checkContents(members[m].into, seed+m); err != nil {
					return err
				}
			}
			return nil
		},
	}, nil
}

func pingPongs(c conversation, send, recv []byte, starts bool, n int) error {
	for range n {
		if starts {
			if err := c.send(send); err != nil {
				return err
			}
		}
		if err := c.recv(recv); err != nil {
			return err
		}
		if !starts {
			if err := c.send(send); err != nil {
				return err
			}
		}
	}
	return nil
}

// waiting measures the CPU time of the second process while it waits for a message,
// or does nothing at all.
func (d *driver) waiting(r *result) error {
	if err := pingPongs(d.control, make([]byte, 1), make([]byte, 1), d.carrier.first(), burst); err != nil {
		return err
	}
	if d.carrier.first() {
		time.Sleep(d.wait)
		if r.Kind == "wait" {
			if err := d.tell(float64(monotonic()), 0); err != nil {
				return err
			}
		}
		var err error
		r.CPU, r.Wakeup, err = d.told()
		return err
	}
	from, used := monotonic(), cpuTime()
	wakeup := 0.0
	if r.Kind == "wait" {
		sent, _, err := d.told()
		if err != nil {
			return err
		}
		wakeup = (float64(monotonic()) - sent) / 1e3
	} else {
		time.Sleep(d.wait)
	}
	return d.tell(100*float64(cpuTime()-used)/float64(monotonic()-from), wakeup)
}

// memory measures how much memory one message takes on both sides. What it is
// sent from is there before, what it is received into is not.
func (d *driver) memory(i item, r *result) error {
	if d.carrier.first() {
		frames := make([][]byte, i.frames)
		for f := range frames {
			frames[f] = append([]byte{}, d.contents(i.size, f)...)
		}
		if _, err := d.ordered(); err != nil {
			return err
		}
		before, err := resetPeak()
		if err != nil {
			return err
		}
		if err := d.control.message(frames, true)(); err != nil {
			return err
		}
		r.Sender = peakBytes() - before
		r.RSS, r.Receiver, err = d.told()
		return err
	}
	if err := d.order(orderEnd); err != nil { // so that connecting is over
		return err
	}
	before, err := resetPeak()
	if err != nil {
		return err
	}
	frames := make([][]byte, i.frames)
	for f := range frames {
		frames[f] = make([]byte, i.size)
	}
	if err := d.control.message(frames, false)(); err != nil {
		return err
	}
	peak := peakBytes()
	for f := range frames {
		if err := d.checkContents(frames[f], f); err != nil {
			return err
		}
	}
	return d.tell(before, peak-before)
}

// tell sends two numbers to the other process.
func (d *driver) tell(a, b float64) error {
	both := binary.LittleEndian.AppendUint64(nil, math.Float64bits(a))
	return d.control.send(binary.LittleEndian.AppendUint64(both, math.Float64bits(b)))
}

func (d *driver) told() (a, b float64, err error) {
	var both [16]byte
	err = d.control.recv(both[:])
	return math.Float64frombits(binary.LittleEndian.Uint64(both[:])), math.Float64frombits(binary.LittleEndian.Uint64(both[8:])), err
}

// monotonic is CLOCK_MONOTONIC in nanoseconds, which the processes of a host share.
func monotonic() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // it cannot fail for this clock
	return now.Nano()
}

// cpuTime is the user and system time of all threads in nanoseconds.
func cpuTime() int64 {
	var usage unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &usage) // it cannot fail for this process
	return usage.Utime.Nano() + usage.Stime.Nano()
}
