package mpicomm

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/mpi4go/mpi4go/internal/cmpi"
	"github.com/mpi4go/mpi4go/mem"
)

var errUnsupported = errors.ErrUnsupported

// requests are reused by Do, which allocates nothing in the steady state.
var requests = sync.Pool{New: func() any { return new(Request) }}

// Do starts an operation and suspends the goroutine until it is done. The
// buffer is borrowed until Do returns, unless the error is an [*InFlightError].
// A send of up to 256 bytes is copied, and done for its caller as soon as it is
// queued; if it fails later, the next call on the communicator, or Finalize,
// says so.
//
// When the context ends, a receive is cancelled. If it turns out that it had
// matched a message, that is delivered with a nil error: nothing is lost. If
// MPI does not say within Config.CancelTimeout, and for a longer send, which
// MPI cannot cancel, the error is an [*InFlightError] with the request: the
// library owns the buffer until that is done. It wraps the context's error.
//
// Other errors: as for [Comm.Isend] and [Request.Wait].
func Do(ctx context.Context, op Op) (Status, error) {
	p, err := op.check()
	if err != nil {
		return Status{}, err
	}
	if ctx.Done() != nil && ctx.Err() != nil {
		return Status{}, fmt.Errorf("%s: %w", kindNames[op.kind], ctx.Err())
	}
	if op.kind == cmpi.Send && op.buf.Len() <= cmpi.ScratchSize &&
		p.engine.SendDetached(op.comm.sends, op.comm.handle, op.peer, op.tag, op.buf.Bytes()) {
		return Status{}, nil
	}
	r := requests.Get().(*Request)
	r.init(op.comm, op.kind, op.peer, op.tag, op.buf)
	if p.engine.Do(ctx, &r.op) != nil && !r.settle(p) {
		return Status{}, r.inFlight(ctx)
	}
	status, err := r.outcome(ctx)
	requests.Put(r)
	return status, err
}

// DoAll is Do for several operations that are posted as one set and complete
// together, such as the halves of an exchange. It returns the status of each.
//
// The error is the first of the operations' own, in their order, once all are
// done. When the context ends, each is treated as by [Do]; the error then is an
// [*InFlightError] for the first that MPI cannot let go, and the buffers of all
// that are not done stay with the library.
func DoAll(ctx context.Context, ops ...Op) ([]Status, error) {
	set, err := Post(ops...)
	if err != nil {
		return nil, err
	}
	statuses := make([]Status, len(set))
	if Waitall(ctx, set...) == nil || ctx.Err() == nil {
		for i, r := range set {
			status, rerr := r.result()
			statuses[i] = status
			if err == nil {
				err = rerr
			}
		}
		return statuses, err
	}
	for i, r := range set {
		if !r.settle(r.comm.p) {
			if _, already := errors.AsType[*InFlightError](err); !already {
				err = r.inFlight(ctx)
			}
			continue
		}
		status, rerr := r.outcome(ctx)
		statuses[i] = status
		if err == nil {
			err = rerr
		}
	}
	return statuses, err
}

// settle ends an operation whose context has ended. It returns whether that is
// done: complete or cancelled.
func (r *Request) settle(p *process) bool {
	if r.op.Done() {
		return true
	}
	if r.op.Kind != cmpi.Recv && r.op.Kind != cmpi.Probe && r.op.Kind != cmpi.Mprobe {
		return false
	}
	p.cancel(&r.op)
	verdict, stop := context.WithTimeout(context.Background(), p.config.CancelTimeout)
	defer stop()
	return p.engine.Wait(verdict, &r.op) == nil
}

// outcome is the result of a settled operation: what was cancelled was so
// because of the context.
func (r *Request) outcome(ctx context.Context) (Status, error) {
	if r.op.Cancelled {
		return Status{}, fmt.Errorf("%s: %w", kindNames[r.op.Kind], ctx.Err())
	}
	return r.result()
}

// RecvAlloc receives a message of unknown length into memory that alloc
// returns for its status; its length must be Status.Count at least. The message
// keeps its place in the order of receives meanwhile.
//
// When the context ends before a message has matched, the error is the
// context's. When it ends after that and before alloc's memory was passed to
// MPI, or when alloc fails, the message goes to the next receive that matches
// it. Otherwise see [Do].
//
// Source: MPI_Improbe and MPI_Imrecv, MPI-4.1 3.8.
func RecvAlloc(ctx context.Context, c *Comm, source, tag int, alloc func(Status) (mem.Buffer, error)) (Status, error) {
	op := Op{comm: c, peer: source, tag: tag, kind: cmpi.Mprobe}
	p, err := op.check()
	if err != nil {
		return Status{}, err
	}
	if err := ctx.Err(); err != nil {
		return Status{}, fmt.Errorf("mprobe: %w", err)
	}
	r := requests.Get().(*Request)
	r.init(c, op.kind, source, tag, mem.Buffer{})
	r.op.Reserve()
	if p.engine.Do(ctx, &r.op) != nil && !r.settle(p) {
		return Status{}, r.inFlight(ctx)
	}
	status, err := r.outcome(ctx)
	if err != nil {
		requests.Put(r)
		return Status{}, err
	}
	err = ctx.Err()
	var buf mem.Buffer
	if err == nil {
		buf, err = allocate(alloc, status)
	}
	if err != nil { // the message is for somebody else
		r.op.Again(cmpi.Unmatch, mem.Buffer{})
		if p.engine.Do(context.Background(), &r.op) == nil {
			requests.Put(r)
		}
		return Status{}, fmt.Errorf("imrecv: %w", err)
	}
	r.op.Again(cmpi.Imrecv, buf)
	if p.engine.Do(ctx, &r.op) != nil && !r.settle(p) {
		return status, r.inFlight(ctx)
	}
	status, err = r.outcome(ctx)
	requests.Put(r)
	return status, err
}

func allocate(alloc func(Status) (mem.Buffer, error), status Status) (buf mem.Buffer, err error) {
	ok := false
	defer func() {
		if p := recover(); !ok && err == nil { // a panic in alloc must not lose the message
			err = fmt.Errorf("alloc panicked: %v", p)
		}
	}()
	buf, err = alloc(status)
	ok = true
	switch {
	case err != nil:
	case buf.Kind() == mem.Device:
		err = fmt.Errorf("alloc returned device memory: %w", errUnsupported)
	case buf.Len() < status.Count:
		err = &Error{Op: "imrecv", Class: ErrBuffer, Peer: status.Source, Tag: status.Tag,
			Text: fmt.Sprintf("alloc returned %d bytes for a message of %d", buf.Len(), status.Count)}
	}
	return buf, err
}
