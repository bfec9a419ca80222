package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/transport"
)

// transportFlags make latency compare ways to send a message.
type transportFlags struct {
	Transport   []string `json:"transport,omitempty" enum:"conn,netconn,tcp,unix,all" placeholder:"NAME,..." help:"Compare connections (conn: transport.Conn, netconn: its net.Conn, all) with coro, and with Go's TCP and Unix sockets."`
	Connections positive `json:"connections" default:"1" placeholder:"N" help:"With --transport: connections of conn that are open, and used in turn (${default})."`
}

// transportRow is one message length by one way. Times are one-way.
type transportRow struct {
	Size      int    `json:"size"`
	Transport string `json:"transport"`
	timing
	CoroUs float64 `json:"coro_us"`
	Ratio  float64 `json:"ratio"` // to coro
	MBPerS float64 `json:"mb_per_s"`
}

func (r transportRow) columns() []column {
	return []column{
		{"size", "%d", r.Size},
		{"transport", "%s", r.Transport},
		{"us", "%.2f", r.Us},
		{"to_coro", "%.2f", r.Ratio},
		{"MB/s", "%.2f", r.MBPerS},
	}
}

func (r transportRow) bench() []benchLine {
	return r.timing.bench(fmt.Sprintf("transport=%s/size=%d", r.Transport, r.Size), float64(r.Size), "MB/s")
}

// carrier is one way to send messages of one length.
type carrier struct {
	name       string
	send, recv func([]byte) error
	closers    []io.Closer
}

// measureTransports measures all lengths by all ways in turn.
func (c *latencyCmd) measureTransports(p *pair) error {
	carriers, err := c.carriers(p)
	defer func() {
		for _, w := range carriers {
			for _, x := range w.closers {
				_ = x.Close()
			}
		}
	}()
	if err != nil {
		return err
	}
	p.report.begin(len(c.Sizes)*int(c.Rounds)*len(carriers),
		"one-way time = round trip / 2; us = mean of a round; MB = 10^6 bytes; to_coro = us / that of coro",
		"coro: coro.Send and Recv; conn: Conn.SendMessage and RecvMessageInto of one frame; netconn: its net.Conn; tcp, unix: Go's own sockets",
		fmt.Sprintf("connections of conn, used in turn: %d", c.Connections),
		turnsNote(c.Rounds))
	for _, size := range c.Sizes {
		send, recv := newBuffer(size), newBuffer(size)
		iterations, warmup := c.iterations(min(20000, latencyIterations(size)))
		var passes []pass
		for _, w := range carriers {
			passes = append(passes, func() (float64, error) {
				var start time.Time
				for i := range warmup + iterations {
					if i == warmup {
						start = time.Now()
					}
					for _, sends := range []bool{p.first, !p.first} {
						var err error
						if sends {
							err = w.send(send)
						} else {
							err = w.recv(recv)
						}
						if err != nil {
							return 0, fmt.Errorf("%s: %w", w.name, err)
						}
					}
				}
				return usPer(time.Since(start), 2*iterations), nil
			})
		}
		us, err := p.rounds(c.Rounds, passes...)
		if err != nil {
			return err
		}
		for i, w := range carriers {
			row := transportRow{Size: size, Transport: w.name, timing: newTiming(iterations, us[i], nil), CoroUs: median(us[0])}
			row.Ratio, row.MBPerS = median(ratios(us[i], us[0])), float64(size)/row.Us
			p.report.row(row)
		}
	}
	return nil
}

// carriers opens what was asked for, coro first.
func (c *latencyCmd) carriers(p *pair) ([]carrier, error) {
	wants := func(name string) bool {
		return slices.Contains(c.Transport, name) || slices.Contains(c.Transport, "all")
	}
	all := []carrier{{
		name: "coro",
		send: func(b []byte) error { return coro.Send(p.ctx, p.world, b, p.peer, tagData) },
		recv: func(b []byte) error {
			_, err := coro.Recv(p.ctx, p.world, b, p.peer, tagData)
			return err
		},
	}}
	if wants("conn") || wants("netconn") {
		more, err := c.connections(p, wants("conn"), wants("netconn"))
		all = append(all, more...)
		if err != nil {
			return all, err
		}
	}
	for _, network := range []string{"tcp", "unix"} {
		conn, err := socket(p, network)
		if err != nil {
			return all, err
		}
		if conn != nil {
			all = append(all, streamCarrier(network, conn))
		}
	}
	return all, nil
}

// streamCarrier is one over a stream of bytes.
func streamCarrier(name string, conn net.Conn) carrier {
	return carrier{
		name: name, closers: []io.Closer{conn},
		send: func(b []byte) error {
			_, err := conn.Write(b)
			return err
		},
		recv: func(b []byte) error {
			_, err := io.ReadFull(conn, b)
			return err
		},
	}
}

// connections are those over MPI.
func (c *latencyCmd) connections(p *pair, messages, stream bool) (all []carrier, err error) {
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
	if messages {
		conns := make([]*transport.Conn, c.Connections)
		w := carrier{name: "conn"}
		for i := range conns {
			if conns[i], err = connect(); err != nil {
				return all, err
			}
			w.closers = append(w.closers, conns[i])
		}
		sent, received := 0, 0
		var one [1]mem.Buffer
		w.send = func(b []byte) error {
			one[0] = mem.Of(b)
			sent++
			return conns[sent%len(conns)].SendMessage(p.ctx, one[:])
		}
		w.recv = func(b []byte) error {
			one[0] = mem.Of(b)
			received++
			return conns[received%len(conns)].RecvMessageInto(p.ctx, one[:])
		}
		all = append(all, w)
	}
	if stream {
		conn, err := connect()
		if err != nil {
			return all, err
		}
		all = append(all, streamCarrier("netconn", conn.NetConn()))
	}
	return all, nil
}

// socket connects the two ranks by one of Go's own sockets. A Unix socket needs both
// on one host; otherwise there is none.
func socket(p *pair, network string) (net.Conn, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	theirs, err := p.swap(host)
	if err != nil || network == "unix" && theirs != host {
		return nil, err
	}
	if !p.first {
		addr, err := p.swap("")
		if err != nil {
			return nil, err
		}
		return (&net.Dialer{}).DialContext(p.ctx, network, addr)
	}
	at := ":0"
	if theirs == host {
		at = "127.0.0.1:0"
	}
	if network == "unix" {
		dir, err := os.MkdirTemp("", "pingpong")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		at = filepath.Join(dir, "socket")
	}
	l, err := (&net.ListenConfig{}).Listen(p.ctx, network, at)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	addr := l.Addr().String()
	if tcp, ok := l.Addr().(*net.TCPAddr); ok && theirs != host {
		addr = net.JoinHostPort(host, fmt.Sprint(tcp.Port))
	}
	if _, err := p.swap(addr); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(p.ctx, func() { _ = l.Close() })
	defer stop()
	return l.Accept()
}

// swap exchanges texts with the peer.
func (p *pair) swap(text string) (string, error) {
	sent := make(chan error, 1)
	go func() { sent <- coro.Send(p.ctx, p.world, []byte(text), p.peer, tagResult) }()
	theirs, _, err := coro.RecvAlloc[byte](p.ctx, p.world, p.peer, tagResult)
	if err != nil {
		return "", err
	}
	return string(theirs), <-sent
}
