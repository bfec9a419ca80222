package main

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/transport"
)

type connectionsCmd struct {
	pairFlags
	Connections positive      `json:"connections" short:"c" default:"100" placeholder:"N" help:"How many are open at the same time (${default})."`
	After       time.Duration `json:"after_ns" default:"5s" placeholder:"5s" help:"How long without traffic counts as idle (${default})."`
	Samples     positive      `json:"samples" default:"20" placeholder:"N" help:"Wake-ups after idleness; each takes 5.5 s (${default})."`
}

// connectionsRow is what connections cost. Numbers of both sides are those of the
// dialing rank, then those of the listening one.
type connectionsRow struct {
	Connections  int        `json:"connections"`
	ConnectP50Us float64    `json:"connect_p50_us"` // Dial, from the call to the return
	ConnectP99Us float64    `json:"connect_p99_us"`
	OneWayUs     float64    `json:"one_way_us"`               // of a byte by coro, for comparison
	Bytes        [2]float64 `json:"bytes_per_connection"`     // growth of the heap in use
	RSSBytes     [2]float64 `json:"rss_bytes_per_connection"` // and of the resident memory
	CPUPercent   float64    `json:"cpu_percent"`              // of the dialing rank, where a goroutine for each waits
	WakeupP50Us  float64    `json:"wakeup_p50_us"`
	WakeupP99Us  float64    `json:"wakeup_p99_us"`
	WakeupsUs    []float64  `json:"wakeups_us"`
}

func (r connectionsRow) columns() []column {
	return []column{
		{"connections", "%d", r.Connections},
		{"connect_us", "%.2f", r.ConnectP50Us},
		{"p99", "%.2f", r.ConnectP99Us},
		{"to_one_way", "%.1f", r.ConnectP50Us / r.OneWayUs},
		{"B_dialed", "%.0f", r.Bytes[0]},
		{"B_accepted", "%.0f", r.Bytes[1]},
		{"RSS_dialed", "%.0f", r.RSSBytes[0]},
		{"RSS_accepted", "%.0f", r.RSSBytes[1]},
		{"CPU_%", "%.3f", r.CPUPercent},
		{"wakeup_us", "%.1f", r.WakeupP50Us},
		{"p99", "%.1f", r.WakeupP99Us},
	}
}

func (r connectionsRow) bench() []benchLine {
	return []benchLine{{fmt.Sprintf("connections=%d", r.Connections), r.Connections, []benchValue{
		{r.ConnectP50Us * 1e3, "ns/op"}, {r.Bytes[0], "B/dialed"}, {r.Bytes[1], "B/accepted"}, {r.CPUPercent, "cpu-%"}, {r.WakeupP50Us * 1e3, "wakeup-ns"},
	}}}
}

// Run measures what open connections cost.
func (c *connectionsCmd) Run(j *job) error {
	return j.between(c.pairFlags, func(p *pair) error {
		if err := p.sameClock(); err != nil {
			return err
		}
		p.report.begin(1+int(c.Samples),
			"the first rank listens and accepts, the second dials, one connection after the other; connect_us: Dial, median and p99; to_one_way: to that of a byte by coro.Send and Recv",
			"B and RSS: growth of the heap in use and of the resident memory for each connection, idle, on the side that dialed and on the one that accepted",
			fmt.Sprintf("then a goroutine of the second rank waits on each; after %v without traffic CPU_%% is counted for half a second: user and system time of all threads / wall time", c.After),
			"wakeup_us: median and p99, from before the send on a connection until its goroutine runs; doorbell: "+p.doorbell())
		r := connectionsRow{Connections: int(c.Connections)}
		if err := p.oneWay(&r); err != nil {
			return err
		}
		conns, err := p.connectAll(&r)
		defer func() {
			for _, conn := range conns {
				_ = conn.Close()
			}
		}()
		if err != nil {
			return err
		}
		p.report.tick()
		if err := c.wakeups(p, conns, &r); err != nil {
			return err
		}
		p.report.row(r)
		return nil
	})
}

// oneWay measures a byte by coro.
func (p *pair) oneWay(r *connectionsRow) error {
	const iterations = 20000
	e := exchange{ctx: p.ctx, world: p.world, peer: p.peer, tag: tagData, starts: p.first, send: hostBuffer(1), recv: hostBuffer(1)}
	var times []float64
	for range 5 {
		start := time.Now()
		if err := e.run(iterations); err != nil {
			return err
		}
		times = append(times, usPer(time.Since(start), 2*iterations))
	}
	r.OneWayUs = median(times)
	return nil
}

// memoryInUse is the heap in use and the resident memory.
func memoryInUse() [2]float64 {
	runtime.GC()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return [2]float64{float64(m.HeapAlloc), float64(residentBytes())}
}

// connectAll opens the connections and measures that and their memory.
func (p *pair) connectAll(r *connectionsRow) (conns []*transport.Conn, err error) {
	const service = "pingpong"
	connect := func() (*transport.Conn, error) {
		return transport.Dial(p.ctx, transport.Addr{Rank: p.peer, Service: service}.String(), transport.Config{})
	}
	if p.first {
		l, err := transport.Listen(p.ctx, "mpi://*/"+service, transport.Config{})
		if err != nil {
			return nil, err
		}
		defer l.Close()
		connect = func() (*transport.Conn, error) { return l.Accept(p.ctx) }
	}
	if err := p.barrier(); err != nil { // somebody listens
		return nil, err
	}
	warm, err := connect() // what only the first one takes
	if err != nil {
		return nil, err
	}
	defer warm.Close()
	conns, times := make([]*transport.Conn, 0, r.Connections), make([]float64, 0, r.Connections)
	before := memoryInUse()
	if err := p.barrier(); err != nil {
		return nil, err
	}
	for range r.Connections {
		start := time.Now()
		conn, err := connect()
		if err != nil {
			return conns, err
		}
		times = append(times, float64(time.Since(start))/1e3)
		conns = append(conns, conn)
	}
	if err := p.barrier(); err != nil {
		return conns, err
	}
	after := memoryInUse()
	mine := []float64{(after[0] - before[0]) / float64(r.Connections), (after[1] - before[1]) / float64(r.Connections)}
	theirs, err := p.fromSecond(append(times, mine...))
	if err != nil || !p.first {
		return conns, err
	}
	n := len(theirs) - 2
	r.ConnectP50Us, r.ConnectP99Us = median(theirs[:n]), p99(theirs[:n])
	r.Bytes, r.RSSBytes = [2]float64{theirs[n], mine[0]}, [2]float64{theirs[n+1], mine[1]}
	return conns, nil
}

// wakeups measures the second rank while a goroutine waits on each connection, and how
// soon one of them runs.
func (c *connectionsCmd) wakeups(p *pair, conns []*transport.Conn, r *connectionsRow) error {
	const window = 500 * time.Millisecond
	if p.first {
		for range c.Samples {
			if err := p.burst(); err != nil {
				return err
			}
			time.Sleep(c.After + window + time.Millisecond + rand.N(20*time.Millisecond))
			sent := []int64{monotonic()}
			if err := conns[rand.N(len(conns))].SendMessage(p.ctx, []mem.Buffer{mem.Of(sent)}); err != nil {
				return err
			}
			p.report.tick()
		}
		numbers, err := p.fromSecond(nil)
		if err != nil {
			return err
		}
		r.WakeupsUs, r.CPUPercent = numbers[:c.Samples], median(numbers[c.Samples:])
		r.WakeupP50Us, r.WakeupP99Us = median(r.WakeupsUs), p99(r.WakeupsUs)
		return p.barrier() // so that nothing is closed before all is there
	}
	woken := make(chan float64)
	failed := make(chan error, len(conns))
	for _, conn := range conns {
		go func() {
			sent := make([]int64, 1)
			for {
				if err := conn.RecvMessageInto(p.ctx, []mem.Buffer{mem.Of(sent)}); err != nil {
					failed <- err
					return
				}
				woken <- float64(monotonic()-sent[0]) / 1e3
			}
		}()
	}
	var wakeups, cpus []float64
	for range c.Samples {
		if err := p.burst(); err != nil {
			return err
		}
		time.Sleep(c.After)
		from, used := monotonic(), cpuTime()
		time.Sleep(window)
		cpus = append(cpus, 100*float64(cpuTime()-used)/float64(monotonic()-from))
		select {
		case w := <-woken:
			wakeups = append(wakeups, w)
		case err := <-failed:
			return err
		}
	}
	if err := coro.Send(p.ctx, p.world, slices.Concat(wakeups, cpus), p.peer, tagResult); err != nil {
		return err
	}
	return p.barrier()
}
