package coro

import (
	"context"
	"fmt"

	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
)

// MessageRequest is a message of many buffers that was started: the [Request] of
// [IsendMessage] and of the IrecvMessage functions. Its methods may be called from
// any goroutine, and any number of times.
//
// [Request]: https://pkg.go.dev/github.com/mpi4go/mpi4go/mpicomm#Request
type MessageRequest struct {
	request *mpicomm.Request // of a send that was posted at once; else nil
	cancel  context.CancelFunc
	done    chan struct{}
	message *Message // and err: once done is closed
	err     error
}

// IsendMessage starts a [SendMessage]. The frames and the slice of them belong to
// the request until it is done. Messages are sent in the order of these calls. If
// the receiver is too far behind, the message waits for its turn in a goroutine of
// its own; else it is posted on return.
//
// Errors: those of [SendMessage] that can be seen before it is sent.
func IsendMessage(c *mpicomm.Comm, frames []mem.Buffer, dest, tag int) (*MessageRequest, error) {
	s := sendings.Get().(*sending)
	if err := s.init(c, frames, dest, tag); err != nil {
		s.free()
		return nil, err
	}
	if s.null {
		s.free()
		r := &MessageRequest{done: make(chan struct{}), cancel: func() {}}
		close(r.done)
		return r, nil
	}
	if s.waits {
		return inBackground(s.await, func(ctx context.Context) (*Message, error) { return nil, s.send(ctx) }, s.free), nil
	}
	defer s.free()
	if err := s.await(context.Background()); err != nil {
		return nil, err
	}
	request, err := s.post()
	if err != nil {
		return nil, err
	}
	return &MessageRequest{request: request}, nil
}

// IrecvMessage starts a [RecvMessage]. Messages are received in the order of these
// calls and of the other receives.
//
// Errors: those of [RecvMessage] that can be seen at once.
func IrecvMessage(c *mpicomm.Comm, source, tag int) (*MessageRequest, error) {
	return irecvMessage(c, nil, source, tag, fresh)
}

// IrecvMessageInto starts a [RecvMessageInto]. The buffers and the slice of them
// belong to the request until it is done.
func IrecvMessageInto(c *mpicomm.Comm, frames []mem.Buffer, source, tag int) (*MessageRequest, error) {
	return irecvMessage(c, frames, source, tag, nil)
}

// IrecvMessageAlloc starts a [RecvMessageAlloc]. The function is called on a
// goroutine of the request.
func IrecvMessageAlloc(c *mpicomm.Comm, source, tag int, alloc func(Incoming) ([]mem.Buffer, error)) (*MessageRequest, error) {
	return irecvMessage(c, nil, source, tag, alloc)
}

func irecvMessage(c *mpicomm.Comm, into []mem.Buffer, source, tag int, alloc func(Incoming) ([]mem.Buffer, error)) (*MessageRequest, error) {
	r := receivings.Get().(*receiving)
	if err := r.init(c, source, tag, into, alloc); err != nil {
		r.free()
		return nil, err
	}
	return inBackground(r.await, r.receive, r.free), nil
}

// inBackground waits for a message's turn, which can be cancelled, and then moves
// it, which cannot.
func inBackground(await func(context.Context) error, move func(context.Context) (*Message, error), free func()) *MessageRequest {
	ctx, cancel := context.WithCancel(context.Background())
	r := &MessageRequest{done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(r.done)
		defer cancel()
		defer free()
		if r.err = await(ctx); r.err == nil {
			r.message, r.err = move(context.Background())
		}
	}()
	return r
}

// Wait suspends the goroutine until the message is sent or received, and returns
// its error and, for a receive, the message. If the context ends first it returns
// the context's error and changes nothing: Wait can be called again.
//
// Errors: those of [SendMessage] and of the RecvMessage functions; context.Canceled
// after [MessageRequest.Cancel].
func (r *MessageRequest) Wait(ctx context.Context) (*Message, error) {
	if r.request != nil {
		_, err := r.request.Wait(ctx)
		return nil, err
	}
	select {
	case <-r.done:
		return r.message, r.err
	default:
	}
	select {
	case <-r.done:
		return r.message, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("message: %w", ctx.Err())
	}
}

// Test tells whether the message is sent or received, and if so what Wait returns.
// It does not block.
func (r *MessageRequest) Test() (*Message, bool, error) {
	if r.request != nil {
		_, done, err := r.request.Test()
		return nil, done, err
	}
	select {
	case <-r.done:
		return r.message, true, r.err
	default:
		return nil, false, nil
	}
}

// Done is a channel that is closed when the message is sent or received, for
// select. Afterwards Test returns the outcome.
func (r *MessageRequest) Done() <-chan struct{} {
	if r.request != nil {
		return r.request.Done()
	}
	return r.done
}

// Cancel takes the message back if it is not under way: a receive that has not
// matched, or a send that waits for its turn. Wait then returns context.Canceled.
// Otherwise it has no effect. It does not block; the request still has to be waited
// for.
func (r *MessageRequest) Cancel() {
	if r.request == nil {
		r.cancel()
	}
}
