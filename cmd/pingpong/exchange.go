package main

import (
	"context"
	"fmt"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/mpicomm"
)

// exchange is one side of a ping-pong.
type exchange struct {
	ctx        context.Context
	world      *mpicomm.Comm
	peer, tag  int
	starts     bool // sends first
	send, recv buffer
	contents   contents // nil: do not validate
	turns      int      // that were validated
}

// run makes n round trips.
func (e *exchange) run(n int) error {
	for range n {
		if err := e.fill(); err != nil {
			return err
		}
		if err := e.turn(); err != nil {
			return err
		}
		if err := e.verify(); err != nil {
			return err
		}
	}
	return nil
}

// turn makes one round trip.
func (e *exchange) turn() error {
	if e.starts {
		if err := e.sends(); err != nil {
			return err
		}
		return e.receives()
	}
	if err := e.receives(); err != nil {
		return err
	}
	return e.sends()
}

// sends sends the message: host memory as a slice, as most programs do.
func (e *exchange) sends() error {
	if e.send.bytes != nil {
		return coro.Send(e.ctx, e.world, e.send.bytes, e.peer, e.tag)
	}
	return coro.Send(e.ctx, e.world, e.send.mem, e.peer, e.tag)
}

func (e *exchange) receives() (err error) {
	if e.recv.bytes != nil {
		_, err = coro.Recv(e.ctx, e.world, e.recv.bytes, e.peer, e.tag)
	} else {
		_, err = coro.Recv(e.ctx, e.world, e.recv.mem, e.peer, e.tag)
	}
	return err
}

// fill prepares the message of the next turn.
func (e *exchange) fill() error {
	if e.contents == nil {
		return nil
	}
	return e.contents.fill(e.ctx, e.send, seed(e.turns, e.starts))
}

// verify looks at what the turn has received.
func (e *exchange) verify() error {
	if e.contents == nil {
		return nil
	}
	err := e.contents.verify(e.ctx, e.recv, seed(e.turns, !e.starts))
	if err != nil {
		return fmt.Errorf("validation: message %d of %d bytes from rank %d, tag %d: %w", e.turns, e.recv.len(), e.peer, e.tag, err)
	}
	e.turns++
	return nil
}

// seed numbers the messages of both directions.
func seed(turn int, starter bool) int {
	if starter {
		return 2 * turn
	}
	return 2*turn + 1
}

// runAll lets all exchanges make n round trips, a goroutine for each. It returns
// the first error at once: the other goroutines may then wait for ever.
func runAll(exchanges []exchange, n int) error {
	done := make(chan error, len(exchanges))
	for i := range exchanges {
		go func() { done <- exchanges[i].run(n) }()
	}
	for range exchanges {
		if err := <-done; err != nil {
			return err
		}
	}
	return nil
}
