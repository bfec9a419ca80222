package mpicomm

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mpi4go/mpi4go/internal/cmpi"
)

// Errors about the state of the library. They are compared with errors.Is.
var (
	ErrNotInitialized = errors.New("mpi4go is not initialised: call mpicomm.Init first")
	ErrInitialized    = errors.New("mpi4go was initialised already: Init may be called once in the life of a process (MPI-4.1 11.2.1)")
	ErrFinalized      = errors.New("mpi4go is finalised: no call is possible after mpicomm.Finalize")

	errDisowned = fmt.Errorf("%w; here the package that initialised MPI finalised it first: call mpicomm.Finalize before that (in gompi: before mpi.Stop)", ErrFinalized)
)

// Error is a failed operation. errors.Is finds its Class.
type Error struct {
	Op    string // the operation: "isend", "irecv", ...
	Class Class
	Code  int // MPI's own error code, 0 if the library found the mistake
	Peer  int // the other rank, or AnySource or ProcNull; -3 if there is none
	Tag   int // or AnyTag; -3 if there is none
	Text  string
}

// none is the Peer and Tag of an Error that has none.
const none = -3

// Error describes the failure in one line.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", e.Op, e.Class.Error())
	if e.Peer != none {
		fmt.Fprintf(&b, ": peer %s tag %s", rankName(e.Peer), tagName(e.Tag))
	}
	fmt.Fprintf(&b, ": %s", e.Text)
	return b.String()
}

// Is tells whether target is the error's Class.
func (e *Error) Is(target error) bool {
	class, ok := target.(Class)
	return ok && class == e.Class
}

func rankName(rank int) string {
	switch rank {
	case AnySource:
		return "any"
	case ProcNull:
		return "null"
	}
	return fmt.Sprint(rank)
}

func tagName(tag int) string {
	if tag == AnyTag {
		return "any"
	}
	return fmt.Sprint(tag)
}

// InFlightError is returned by a call that borrows its buffer when the context
// ended but MPI could not let go of the operation: a send cannot be cancelled
// (MPI-4.1 3.8.4), and a receive may have matched already. The library owns the
// buffer until Request is done. It wraps the context's error.
type InFlightError struct {
	Request *Request // the operation, still in flight
	Err     error    // context.Cause of the context
}

// Error says what is still in flight.
func (e *InFlightError) Error() string {
	return fmt.Sprintf("%s: %v; the operation is still in flight and owns its buffer until InFlightError.Request is done", e.Request, e.Err)
}

// Unwrap returns the context's error.
func (e *InFlightError) Unwrap() error { return e.Err }

// fromCall makes an Error of a failed call of MPI.
func fromCall(op string, err error) error {
	var call *cmpi.CallError
	if errors.As(err, &call) {
		return &Error{Op: op, Class: Class(call.Class), Code: call.Code, Peer: none, Tag: none, Text: call.Error()}
	}
	return fmt.Errorf("%s: %w", op, err)
}
