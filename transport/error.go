package transport

import (
	"errors"
	"fmt"
	"net"
	"time"
)

// Errors of Listen and Dial, and of connections that have ended. They are compared
// with errors.Is. The calls return them in a *net.OpError.
var (
	// ErrInUse is the error of a Listen to a name that this rank listens to already.
	ErrInUse = errors.New("the address is in use")

	// ErrUnreachable is the error of a Dial to a rank that has not answered in time:
	// it has called neither Listen nor Dial, or is stopped, or dead.
	ErrUnreachable = errors.New("the rank does not answer")

	// ErrRefused is the error of a Dial to a rank that has answered, in all the time,
	// that nobody listens to the service, or that its Backlog is full.
	ErrRefused = errors.New("connection refused")

	// ErrClosedHere is what calls return after Close or Abort of their own
	// connection or listener. It wraps net.ErrClosed.
	ErrClosedHere error = &closedError{"closed on this side"}

	// ErrClosedByPeer is what calls return after the peer has closed the connection,
	// a receive when all that was sent before is received. It wraps net.ErrClosed.
	ErrClosedByPeer error = &closedError{"closed by the peer"}

	// ErrAbortedByPeer is what calls return after the peer has aborted the
	// connection, at once. It wraps net.ErrClosed.
	ErrAbortedByPeer error = &closedError{"aborted by the peer"}
)

// closedError wraps net.ErrClosed.
type closedError struct{ text string }

func (e *closedError) Error() string { return "the connection was " + e.text }
func (e *closedError) Unwrap() error { return net.ErrClosed }

// PeerLostError is what every operation on a connection returns when its peer was
// silent for Config.PeerTimeout. It wraps net.ErrClosed. Buffers of messages that
// were under way belong to the library for ever, since the peer may wake up: the
// error is then an [*mpicomm.InFlightError], too.
type PeerLostError struct {
	Rank  int
	Heard time.Time // when something last came from it
}

// Error says which rank was lost, and when it was last heard.
func (e *PeerLostError) Error() string {
	return fmt.Sprintf("rank %d was lost: it was last heard at %s, %v ago", e.Rank, e.Heard.Format(time.TimeOnly), time.Since(e.Heard).Round(time.Millisecond))
}

// Unwrap returns net.ErrClosed.
func (e *PeerLostError) Unwrap() error { return net.ErrClosed }

// VersionError is the error of a Dial to a rank with which there is no common
// version of the protocol.
type VersionError struct {
	Least, Most         int // versions that this rank speaks
	PeerLeast, PeerMost int // versions that the other one speaks
}

// Error says which versions both sides speak.
func (e *VersionError) Error() string {
	return fmt.Sprintf("no common version of the protocol: this rank speaks %d to %d, the other one %d to %d: build all ranks from the same version of the library",
		e.Least, e.Most, e.PeerLeast, e.PeerMost)
}

// timeoutError is an error that is a timeout for package net.
type timeoutError struct{ error }

func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }
func (e timeoutError) Unwrap() error { return e.error }

// opError is the error of a call.
func opError(op string, local, peer *Addr, err error) error {
	e := &net.OpError{Op: op, Net: "mpi", Err: err}
	if local != nil {
		e.Source = *local
	}
	if peer != nil {
		e.Addr = *peer
	}
	return e
}
