package mpicomm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/mpi4go/mpi4go/internal/cmpi"
	"github.com/mpi4go/mpi4go/internal/progress"
	"github.com/mpi4go/mpi4go/mem"
)

var errUnsupported = errors.ErrUnsupported

// requests are reused by Do, which allocates nothing in the steady state.
var requests = sync.Pool{New: func() any { return new(Request) }}

// Do starts an operation and suspends the goroutine until it is done. The
// buffer is borrowed until Do returns, unless the error is an [*InFlightError].
// A send of up to 256 bytes of host memory is copied, and done for its caller as soon as it is
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
	if err := ctx.Err(); err != nil {
		return Status{}, fmt.Errorf("%s: %w", kindNames[op.Kind], err)
	}
	if op.special() {
		if status, handled, err := p.doSpecial(ctx, &op); handled {
			return status, err
		}
	}
	if op.Kind == cmpi.Send && p.engine.SendShort(op.comm.sends, &op.Spec) {
		return Status{}, nil
	}
	res, waited, err := p.engine.Do(ctx, &op.Spec, freshOp)
	if waited == nil {
		return outcome(op.comm, &op.Spec, &res)
	}
	r := requestOf(waited)
	r.comm = op.comm
	if err != nil && !r.settle() {
		return Status{}, r.inFlight(ctx)
	}
	status, err := r.settled(ctx)
	recycle(r)
	return status, err
}

// freshOp is the operation of a request from the pool.
func freshOp() *progress.Op { return &requests.Get().(*Request).op }

// recycle puts a request back that nobody else has seen.
func recycle(r *Request) {
	r.op.Clear()
	requests.Put(r)
}

// requestOf is the request of an operation that freshOp made.
func requestOf(op *progress.Op) *Request {
	return (*Request)(unsafe.Pointer(op)) // op is its first field
}

// DoAll is Do for several operations that are posted as one set and complete
// together, such as the halves of an exchange. It appends the status of each to
// statuses, which may be nil, and returns the result.
//
// The error is the first of the operations' own, in their order, once all are
// done. When the context ends, each is treated as by [Do]; the error is an
// [*InFlightError] if MPI cannot let go of one of them, and then the buffers of
// all stay with the library until its Request, the set, is done.
func DoAll(ctx context.Context, statuses []Status, ops ...Op) ([]Status, error) {
	p, err := checkAll(ops)
	if err != nil {
		return statuses, err
	}
	if err := ctx.Err(); err != nil {
		return statuses, fmt.Errorf("%s: %w", kindNames[ops[0].Kind], err)
	}
	first := len(statuses)
	if slices.ContainsFunc(ops, func(op Op) bool { return op.special() }) {
		r, err := p.postSpecial(slices.Clone(ops))
		if err != nil {
			return statuses, err
		}
		if r != nil {
			if _, err := r.await(ctx); !r.op.Done() {
				return statuses, err
			} else {
				return append(statuses, r.Statuses()...), err
			}
		}
	}
	var failed error
	waited, err := p.engine.DoSet(ctx, len(ops), func(i int) progress.Spec { return ops[i].Spec }, func(i int, s *cmpi.Op) {
		res := progress.ResultOf(s)
		status, oerr := outcome(ops[i].comm, &ops[i].Spec, &res)
		statuses = append(statuses, status)
		if oerr != nil && failed == nil {
			failed = fmt.Errorf("operation %d of %d: %w", i, len(ops), oerr)
		}
	}, freshOp)
	if waited == nil {
		return statuses, failed
	}
	r := requestOf(waited)
	r.comm = ops[0].comm
	if err != nil && !r.settle() {
		return statuses[:first], r.inFlight(ctx)
	}
	for i := range r.op.N() {
		spec, res := r.op.At(i)
		statuses = append(statuses, status(spec, res))
	}
	_, err = r.settled(ctx)
	recycle(r)
	return statuses, err
}

// settle ends an operation whose context has ended. It returns whether that is
// done: complete or cancelled.
func (r *Request) settle() bool {
	if r.op.Done() {
		return true
	}
	p := r.comm.p
	for i := range r.op.N() {
		// A transfer cannot be cancelled, but as a rule it is not long.
		if spec, _ := r.op.At(i); spec.Bound || !cancels(spec.Kind) && spec.Kind != cmpi.Imrecv && r.op.N() == 1 {
			return false
		}
	}
	p.cancel(&r.op)
	verdict, stop := context.WithTimeout(context.Background(), p.config.CancelTimeout)
	defer stop()
	return p.engine.Wait(verdict, &r.op) == nil
}

// cancels tells whether an operation can be cancelled: while it is unmatched.
func cancels(kind uint8) bool {
	return kind == cmpi.Recv || kind == cmpi.Probe || kind == cmpi.Mprobe
}

// settled is the result of an operation after settle: what was cancelled was so
// because of the context.
func (r *Request) settled(ctx context.Context) (Status, error) {
	status, err := r.result()
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		spec, _ := r.op.At(0)
		err = fmt.Errorf("%s: %w", kindNames[spec.Kind], ctx.Err())
	}
	return status, err
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
	op := c.op(cmpi.Mprobe, mem.Buffer{}, source, tag)
	p, err := op.check()
	if err != nil {
		return Status{}, err
	}
	if err := ctx.Err(); err != nil {
		return Status{}, fmt.Errorf("mprobe: %w", err)
	}
	r := requests.Get().(*Request)
	r.comm = c
	r.op.Init(p.engine, op.Spec)
	r.op.Reserve()
	if p.engine.Run(ctx, &r.op) != nil && !r.settle() {
		return Status{}, r.inFlight(ctx)
	}
	status, err := r.settled(ctx)
	if err != nil {
		recycle(r)
		return Status{}, err
	}
	err = ctx.Err()
	var buf mem.Buffer
	if err == nil {
		if buf, err = allocate(alloc, status); err == nil {
			err = ctx.Err()
		}
	}
	if err == nil && !buf.Plain() {
		var handled bool
		if status, handled, err = p.recvSpecial(ctx, r, buf); handled {
			return status, err
		}
	}
	if err != nil { // the message is for somebody else
		r.op.Again(cmpi.Unmatch, mem.Buffer{})
		if p.engine.Run(context.Background(), &r.op) == nil {
			recycle(r)
		}
		return Status{}, fmt.Errorf("imrecv: %w", err)
	}
	r.op.Again(cmpi.Imrecv, buf)
	if p.engine.Run(ctx, &r.op) != nil && !r.settle() {
		return status, r.inFlight(ctx)
	}
	status, err = r.settled(ctx)
	recycle(r)
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
	case buf.Len() < status.Count:
		err = &Error{
			Op: "imrecv", Class: ErrBuffer, Peer: status.Source, Tag: status.Tag,
			Text: fmt.Sprintf("alloc returned %d bytes for a message of %d", buf.Len(), status.Count),
		}
	}
	return buf, err
}
