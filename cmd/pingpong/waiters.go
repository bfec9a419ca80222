package main

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/mpi4go/mpi4go/coro"
)

type waitersCmd struct {
	pairFlags
	Goroutines positive `json:"goroutines" short:"g" default:"20000" placeholder:"N" help:"How many wait (${default})."`
}

// waitersRow is one order of the messages.
type waitersRow struct {
	Order        string  `json:"order"` // posting or reverse
	Goroutines   int     `json:"goroutines"`
	Us           float64 `json:"us"`                      // for each message
	Threads      int     `json:"threads"`                 // of the receiver, while all wait
	RSSPerWaiter float64 `json:"rss_bytes_per_goroutine"` // how much more memory the receiver has while all wait
	GOMAXPROCS   int     `json:"gomaxprocs"`              // of the receiver
}

func (r waitersRow) columns() []column {
	return []column{
		{"order", "%s", r.Order},
		{"goroutines", "%d", r.Goroutines},
		{"us", "%.3f", r.Us},
		{"threads", "%d", r.Threads},
		{"RSS_bytes", "%.0f", r.RSSPerWaiter},
		{"GOMAXPROCS", "%d", r.GOMAXPROCS},
	}
}

func (r waitersRow) bench() []benchLine {
	return []benchLine{{fmt.Sprintf("order=%s/goroutines=%d", r.Order, r.Goroutines), r.Goroutines, []benchValue{
		{r.Us * 1e3, "ns/op"}, {float64(r.Threads), "threads"}, {r.RSSPerWaiter, "B/goroutine"},
	}}}
}

// Run measures how long it takes to wake many goroutines.
func (c *waitersCmd) Run(j *job) error {
	return j.between(c.pairFlags, func(p *pair) error {
		n := int(c.Goroutines)
		if err := tagsNeeded(n, p.tagUB); err != nil {
			return err
		}
		p.report.begin(2,
			"each goroutine of the second rank waits in coro.Recv for a tag of its own; the first rank sends one message to each",
			"order: that of the messages, against the order in which the receives were posted",
			"us = time from the first send until all have received, for each message",
			"RSS_bytes: growth of the receiver's resident memory for each goroutine that waits, with what MPI takes for its receive")
		for _, order := range []string{"posting", "reverse"} {
			if err := p.barrier(); err != nil {
				return err
			}
			measure := p.wakeAll
			if !p.first {
				measure = p.waitAll
			}
			numbers, err := measure(n, order == "reverse")
			if err != nil {
				return err
			}
			if p.first {
				p.report.tick()
				p.report.row(waitersRow{order, n, numbers[0], int(numbers[1]), numbers[2], int(numbers[3])})
			}
		}
		return nil
	})
}

// wakeAll sends the messages and returns the numbers of the row.
func (p *pair) wakeAll(n int, reverse bool) ([]float64, error) {
	if err := p.barrier(); err != nil { // all wait
		return nil, err
	}
	start := time.Now()
	message := make([]byte, 8)
	for i := range n {
		if reverse {
			i = n - 1 - i
		}
		binary.LittleEndian.PutUint64(message, uint64(i))
		if err := coro.Send(p.ctx, p.world, message, p.peer, tagFirst+i); err != nil {
			return nil, err
		}
	}
	if err := p.barrier(); err != nil { // all have received
		return nil, err
	}
	us := usPer(time.Since(start), n)
	numbers, err := p.fromSecond(nil)
	return append([]float64{us}, numbers...), err
}

// waitAll receives the messages.
func (p *pair) waitAll(n int, _ bool) ([]float64, error) {
	runtime.GC()
	debug.FreeOSMemory()
	before := residentBytes()
	done, next := make(chan error, n), make(chan struct{})
	for i := range n {
		go func() {
			message := make([]byte, 8)
			next <- struct{}{} // the receives are posted in order
			_, err := coro.Recv(p.ctx, p.world, message, p.peer, tagFirst+i)
			if got := binary.LittleEndian.Uint64(message); err == nil && got != uint64(i) {
				err = fmt.Errorf("validation: the message with tag %d belongs to goroutine %d, not %d", tagFirst+i, got, i)
			}
			done <- err
		}()
		<-next
	}
	time.Sleep(100 * time.Millisecond) // until the last ones wait, and the process is quiet
	numbers := []float64{float64(threads()), float64(residentBytes()-before) / float64(n), float64(runtime.GOMAXPROCS(0))}
	if err := p.barrier(); err != nil { // all wait
		return nil, err
	}
	for range n {
		if err := <-done; err != nil {
			return nil, err
		}
	}
	if err := p.barrier(); err != nil { // all have received
		return nil, err
	}
	return p.fromSecond(numbers)
}
