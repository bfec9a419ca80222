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
	send, recv []byte
	pattern    *pattern // nil: do not validate
	turns      int      // that were validated
}

// run makes n round trips.
func (e *exchange) run(n int) error {
	for range n {
		e.fill()
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
		if err := coro.Send(e.ctx, e.world, e.send, e.peer, e.tag); err != nil {
			return err
		}
		_, err := coro.Recv(e.ctx, e.world, e.recv, e.peer, e.tag)
		return err
	}
	if _, err := coro.Recv(e.ctx, e.world, e.recv, e.peer, e.tag); err != nil {
		return err
	}
	return coro.Send(e.ctx, e.world, e.send, e.peer, e.tag)
}

// fill prepares the message of the next turn.
func (e *exchange) fill() {
	if e.pattern != nil {
		e.pattern.fill(e.send, seed(e.turns, e.starts))
	}
}

// verify looks at what the turn has received.
func (e *exchange) verify() error {
	if e.pattern == nil {
		return nil
	}
	err := e.pattern.verify(e.recv, seed(e.turns, !e.starts))
	if err != nil {
		return fmt.Errorf("validation: message %d of %d bytes from rank %d, tag %d: %w", e.turns, len(e.recv), e.peer, e.tag, err)
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
