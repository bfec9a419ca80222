package mpicomm

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/mpi4go/mpi4go/internal/cmpi"
	"github.com/mpi4go/mpi4go/internal/progress"
)

// Request is an operation that was started, or a set of them that completes
// together (MPI_Request). Its methods may be called from any goroutine, and any
// number of times: a Request is never freed, it just becomes garbage.
//
// Dropping a Request does not stop the operation; Config.Debug reports it.
type Request struct {
	op      progress.Op
	comm    *Comm
	refused error       // why it was never begun, or what a device has failed at
	members []*Request  // by which a set is carried out that is late
	asked   atomic.Bool // somebody has seen that it is done (Config.Debug)
}

func (r *Request) initSet(p *process, ops []Op) {
	if len(ops) == 1 {
		r.op.Init(p.engine, ops[0].Spec)
		return
	}
	r.op.InitSet(p.engine, len(ops), func(i int) progress.Spec { return ops[i].Spec })
}

// watch, in debug mode, reports the request if it is dropped before anybody asks
// for its outcome. The finalizer makes no call of MPI.
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
	if !r.op.Done() {
		r.comm.p.engine.Attend()
	}
	return r.op.Chan()
}

// Cancel asks MPI to cancel a receive, or a set of them. It does not block; the request still has
// to be waited for. Either the receive is cancelled, and Wait returns
// context.Canceled, or it had matched a message, and Wait delivers that.
//
// A send cannot be cancelled: the error then wraps errors.ErrUnsupported and
// nothing has changed.
//
// Source: MPI_Cancel, MPI-4.1 3.8.4.
func (r *Request) Cancel() error {
	p, err := r.comm.usable(cmpi.Cancel)
	if err != nil {
		return err
	}
	for i := range r.op.N() {
		spec, _ := r.op.At(i)
		if spec.Bound {
			return fmt.Errorf("cancel: what belongs to a message of many buffers cannot be cancelled: %w", errUnsupported)
		}
		if spec.Kind != cmpi.Recv {
			return fmt.Errorf("cancel: %s: MPI cancels receives only: %w", kindNames[spec.Kind], errUnsupported)
		}
	}
	p.cancel(&r.op)
	return nil
}

// Statuses tells the status of each operation of a set, in their order, once
// the request is done; before that it returns nil.
func (r *Request) Statuses() []Status {
	if !r.op.Done() {
		return nil
	}
	statuses := make([]Status, r.op.N())
	for i := range statuses {
		spec, res := r.op.At(i)
		statuses[i] = status(spec, res)
	}
	return statuses
}

// result is the outcome of an operation that is done; of a set, the status of
// the first operation and the first error.
func (r *Request) result() (Status, error) {
	if r.comm.p.config.Debug {
		r.asked.Store(true)
	}
	if r.refused != nil {
		return Status{}, fmt.Errorf("%s: %w", kindNames[r.op.Kind], r.refused)
	}
	spec, res := r.op.At(0)
	if r.op.N() == 1 {
		return outcome(r.comm, spec, res)
	}
	first := status(spec, res)
	for i, m := range r.members {
		if m.refused != nil {
			_, err := m.result()
			return first, fmt.Errorf("operation %d of %d: %w", i, r.op.N(), err)
		}
	}
	for i := range r.op.N() {
		spec, res := r.op.At(i)
		if _, err := outcome(r.comm, spec, res); err != nil {
			return first, fmt.Errorf("operation %d of %d: %w", i, r.op.N(), err)
		}
	}
	return first, nil
}

func status(spec *progress.Spec, res *progress.Result) Status {
	if spec.Kind == cmpi.Send || spec.Kind == cmpi.Ssend {
		return Status{}
	}
	return Status{Source: int(res.Source), Tag: int(res.RecvTag), Count: int(res.Count)}
}

// outcome is the status and the error of one operation that is done.
func outcome(c *Comm, spec *progress.Spec, res *progress.Result) (Status, error) {
	if res.Code != 0 || res.Truncated || res.Cancelled {
		return Status{}, failure(c, spec, res)
	}
	return status(spec, res), nil
}

func failure(c *Comm, spec *progress.Spec, res *progress.Result) error {
	if res.Cancelled {
		return fmt.Errorf("%s: %w", kindNames[spec.Kind], context.Canceled)
	}
	e := &Error{Op: kindNames[spec.Kind], Class: ErrTruncate, Code: int(res.Code), Peer: spec.Peer, Tag: spec.Tag}
	if res.Code != 0 {
		e.Class = Class(c.p.lib.ErrorClass(e.Code))
		e.Text = c.p.lib.ErrorString(e.Code)
	}
	if e.Class == ErrTruncate {
		if res.Source >= 0 {
			e.Peer, e.Tag = int(res.Source), int(res.RecvTag)
		}
		length := "a longer message"
		if res.Truncated && res.Count > int64(spec.Buf.Len())+2 { // otherwise the count is that of guard bytes
			length = fmt.Sprintf("%d bytes", res.Count)
		}
		e.Text = fmt.Sprintf("%s into a buffer of %d; the message was consumed (MPI-4.1 3.2.4)", length, spec.Buf.Len())
	}
	return e
}

// inFlight is the error of a call whose context ended before its operation.
func (r *Request) inFlight(ctx context.Context) error {
	return &InFlightError{Request: r, Err: ctx.Err()}
}
