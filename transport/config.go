package transport

import (
	"fmt"
	"log/slog"
	"time"
)

// Config says how a listener or a connection behaves. The zero value is right for
// most programs.
type Config struct {
	// ConnectTimeout is how long Dial tries, with the listener not there yet or the
	// rank not answering. Zero: 30 s; negative: as long as its context lives.
	ConnectTimeout time.Duration

	// FlushTimeout is how long Close waits for messages that other goroutines are
	// sending at that time and that the peer makes no room for. Zero: 10 s;
	// negative: it does not wait.
	FlushTimeout time.Duration

	// KeepAlive is after how much silence of a peer it is asked whether it lives.
	// Zero: 15 s. The least of those of a process's connections to a peer counts.
	KeepAlive time.Duration

	// PeerTimeout is after how much silence a peer is given up: every operation on
	// the connection fails with a [*PeerLostError]. It must be longer than
	// KeepAlive. A process that is stopped in a debugger is silent, too, and so
	// the default is long. Zero: 10 minutes; negative: never.
	PeerTimeout time.Duration

	// Backlog is how many connections may wait for Accept: more are refused, and
	// Dial then tries again. Zero: 1024.
	Backlog int

	// Logger is told, with level Warn, of connections that are lost, refused because
	// of the Backlog or the version, or closed before all was sent; with level Debug
	// of listeners, of all other refusals, and of connections that are made and
	// end. With level Error of what cannot be understood. What belongs to no
	// connection is told to the last Logger of any Config. Its handler must not use this
	// package, nor wait for long: whoever receives from MPI calls it. Nil: nobody is told.
	Logger *slog.Logger
}

// resolve puts the defaults in the place of zeros.
func (c Config) resolve() (Config, error) {
	duration := func(d *time.Duration, zero time.Duration) {
		if *d == 0 {
			*d = zero
		}
	}
	duration(&c.ConnectTimeout, 30*time.Second)
	duration(&c.FlushTimeout, 10*time.Second)
	duration(&c.KeepAlive, 15*time.Second)
	duration(&c.PeerTimeout, 10*time.Minute)
	if c.Backlog == 0 {
		c.Backlog = 1024
	}
	switch {
	case c.KeepAlive < time.Millisecond:
		return c, fmt.Errorf("transport.Config.KeepAlive: %v: want 1 ms or more", c.KeepAlive)
	case c.PeerTimeout > 0 && c.PeerTimeout <= c.KeepAlive:
		return c, fmt.Errorf("transport.Config.PeerTimeout: %v: want more than KeepAlive, %v, or a negative value for never", c.PeerTimeout, c.KeepAlive)
	case c.Backlog < 0:
		return c, fmt.Errorf("transport.Config.Backlog: %d is negative", c.Backlog)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}
