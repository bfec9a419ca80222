package mpicomm

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/mpi4go/mpi4go/internal/cmpi"
	"github.com/mpi4go/mpi4go/internal/progress"
	"github.com/mpi4go/mpi4go/mem"
)

type progressOp = progress.Op

// Request is an operation that was started (MPI_Request). Its methods may be
// called from any goroutine, and any number of times: a Request is never freed,
// it just becomes garbage.
//
// Dropping a Request does not stop the operation; Config.Debug reports it.
type Request struct {
	op    progress.Op
	comm  *Comm
	asked atomic.Bool // somebody has seen that it is done (Config.Debug)
}

func (r *Request) init(c *Comm, kind uint8, peer, tag int, buf mem.Buffer) {
	r.comm = c
	r.op.Init(c.p.engine, kind, c.handle, peer, tag, buf)
}

// watch reports the request if it is dropped before anybody asks for its
// outcome. The finalizer makes no call of MPI.
func (r *Request) watch() {
	if !r.comm.p.config.Debug {
		return
	}
	runtime.SetFinalizer(r, func(r *Request) {
		if !r.asked.Load() {
			forgotten.add(describe(&r.op))
		}
	})
}

// String describes the operation.
func (r *Request) String() string { return describe(&r.op) }

// Wait suspends the goroutine until the operation is done, and returns its
// status and error. If the context ends first it returns the context's error
// and changes nothing: the operation goes on and keeps its buffer, and Wait can
// be called again.
//
// The status has a meaning for receives. Errors: [ErrTruncate] for a message
// longer than the buffer, context.Canceled for a request that was cancelled,
// and those of MPI.
//
// Source: MPI_Wait, MPI-4.1 3.7.3.
func (r *Request) Wait(ctx context.Context) (Status, error) {
	if err := r.comm.p.engine.Wait(ctx, &r.op); err != nil {
		return Status{}, fmt.Errorf("%s: %w", kindNames[r.op.Kind], err)
	}
	return r.result()
}

// Test tells whether the operation is done, and if so its status and error. It
// does not block; if nobody else makes MPI progress at the moment, it does.
//
// Source: MPI_Test, MPI-4.1 3.7.3.
func (r *Request) Test() (Status, bool, error) {
	if !r.op.Done() {
		r.comm.p.engine.Progress()
		if !r.op.Done() {
			return Status{}, false, nil
		}
	}
	status, err := r.result()
	return status, true, err
}

// Done is a channel that is closed when the operation is done, for select.
// Afterwards Test returns the outcome. The channel is made on the first call.
func (r *Request) Done() <-chan struct{} {
	r.asked.Store(true)
	return r.op.Chan()
}

// Cancel asks MPI to cancel a receive. It does not block; the request still has
// to be waited for. Either the receive is cancelled, and Wait returns
// context.Canceled, or it had matched a message, and Wait delivers that.
//
// A send cannot be cancelled: the error then wraps errors.ErrUnsupported and
// nothing has changed.
//
// Source: MPI_Cancel, MPI-4.1 3.8.4.
func (r *Request) Cancel() error {
	p, err := r.comm.usable("cancel")
	if err != nil {
		return err
	}
	if r.op.Kind != cmpi.Recv {
		return fmt.Errorf("cancel: %s: MPI cancels receives only: %w", kindNames[r.op.Kind], errUnsupported)
	}
	p.cancel(&r.op)
	return nil
}

// result is the outcome of an operation that is done.
func (r *Request) result() (Status, error) {
	if r.comm.p.config.Debug {
		r.asked.Store(true)
	}
	if r.op.Code != 0 || r.op.Truncated || r.op.Cancelled {
		return Status{}, r.err()
	}
	return r.status(), nil
}

func (r *Request) status() Status {
	if r.op.Kind == cmpi.Send || r.op.Kind == cmpi.Ssend {
		return Status{}
	}
	return Status{Source: r.op.Source, Tag: r.op.RecvTag, Count: r.op.Count}
}

// err is the error of an operation that is done, or nil.
func (r *Request) err() error {
	op := &r.op
	if op.Cancelled {
		return fmt.Errorf("%s: %w", kindNames[op.Kind], context.Canceled)
	}
	if op.Code == 0 && !op.Truncated {
		return nil
	}
	e := &Error{Op: kindNames[op.Kind], Class: ErrTruncate, Code: op.Code, Peer: op.Peer, Tag: op.Tag}
	if op.Code != 0 {
		e.Class = Class(r.comm.p.lib.ErrorClass(op.Code))
		e.Text = r.comm.p.lib.ErrorString(op.Code)
	}
	if e.Class == ErrTruncate {
		if op.Source >= 0 {
			e.Peer, e.Tag = op.Source, op.RecvTag
		}
		length := "a longer message"
		if op.Truncated && op.Count > op.Len()+2 { // otherwise the count is that of guard bytes
			length = fmt.Sprintf("%d bytes", op.Count)
		}
		e.Text = fmt.Sprintf("%s into a buffer of %d; the message was consumed (MPI-4.1 3.2.4)", length, op.Len())
	}
	return e
}

// inFlight is the error of a call whose context ended before its operation.
func (r *Request) inFlight(ctx context.Context) error {
	return &InFlightError{Request: r, Err: ctx.Err()}
}
