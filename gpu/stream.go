package gpu

import (
	"context"
	"fmt"
	"time"

	"github.com/mpi4go/mpi4go/internal/cuda"
)

// Stream is a queue of work on a device. Work on one stream is done in the order in
// which it was queued; between streams an [Event] orders it.
type Stream struct {
	d       *Device
	handle  cuda.Stream
	foreign bool
	guard
	drained chan struct{} // closed when Destroy has waited for what was queued
}

// NewStream makes a stream. It does not wait for the legacy default stream, nor that
// for it (CU_STREAM_NON_BLOCKING). Destroy it.
func (d *Device) NewStream() (*Stream, error) {
	if err := d.acquire(); err != nil {
		return nil, d.wrap("NewStream", err)
	}
	handle, err := cuda.StreamCreate(d.ctx)
	if err != nil {
		d.release()
		return nil, d.wrap("NewStream", err)
	}
	s := &Stream{d: d, handle: handle, drained: make(chan struct{})}
	d.own.Lock()
	d.streams[s] = struct{}{}
	d.own.Unlock()
	return s, nil
}

// StreamFromHandle uses a CUstream that another library has made in the device's
// primary context; 0 and 1 are the legacy default stream. Destroy waits for its work
// and leaves the CUstream to its owner. The per-thread default stream (2) is an
// error: goroutines change threads.
func (d *Device) StreamFromHandle(handle uintptr) (*Stream, error) {
	const perThread = 2
	if handle == perThread {
		return nil, fmt.Errorf("gpu: StreamFromHandle: the per-thread default stream has no meaning in Go, where goroutines change threads: make a stream")
	}
	if err := d.acquire(); err != nil {
		return nil, d.wrap("StreamFromHandle", err)
	}
	return &Stream{d: d, handle: cuda.Stream(handle), foreign: true, drained: make(chan struct{})}, nil
}

// Handle is the CUstream, for other libraries. It is valid until Destroy.
func (s *Stream) Handle() uintptr { return uintptr(s.handle) }

// Device is the device of the stream.
func (s *Stream) Device() *Device { return s.d }

// Query tells whether everything that was queued is done.
func (s *Stream) Query() (bool, error) {
	if err := s.enter(); err != nil {
		return false, s.d.wrap("Stream.Query", err)
	}
	defer s.leave()
	done, err := cuda.StreamQuery(s.d.ctx, s.handle)
	return done, s.d.wrap("Stream.Query", err)
}

// Synchronize waits until everything that was queued so far is done, or the context
// ends, which does not stop the work.
func (s *Stream) Synchronize(ctx context.Context) error {
	if err := s.enter(); err != nil {
		return s.d.wrap("Stream.Synchronize", err)
	}
	w, err := s.mark()
	s.leave()
	if err == nil {
		err = w.waitOrGiveUp(ctx)
	}
	return s.d.wrap("Stream.Synchronize", err)
}

// mark makes a waiter for what is queued now.
func (s *Stream) mark() (*waiter, error) {
	m, err := s.d.newMark()
	if err != nil {
		return nil, err
	}
	if err := m.record(s); err != nil {
		return nil, err
	}
	return m.w, nil
}

// WaitEvent makes what is queued from now on wait for what the event has recorded,
// on whatever stream and device. An event that has recorded nothing holds up nothing.
func (s *Stream) WaitEvent(e *Event) error {
	return s.with("Stream.WaitEvent", func() error {
		if err := e.enter(); err != nil {
			return fmt.Errorf("the event: %w", err)
		}
		defer e.leave()
		return cuda.StreamWaitEvent(s.d.ctx, s.handle, e.handle)
	})
}

// Destroy destroys the stream, after waiting for what is queued. A second Destroy
// returns [ErrFreed].
func (s *Stream) Destroy() error {
	if err := s.end(always); err != nil {
		return s.d.wrap("Stream.Destroy", err)
	}
	defer s.d.release()
	s.finish()
	s.d.own.Lock()
	delete(s.d.streams, s)
	s.d.own.Unlock()
	close(s.drained)
	if s.foreign {
		return nil
	}
	return s.d.wrap("Stream.Destroy", cuda.StreamDestroy(s.d.ctx, s.handle))
}

// with runs a call on the stream while it exists.
func (s *Stream) with(call string, f func() error) error {
	if err := s.enter(); err != nil {
		return s.d.wrap(call, fmt.Errorf("the stream: %w", err))
	}
	defer s.leave()
	return s.d.wrap(call, f())
}

// drain waits for what is queued, which Destroy does too.
func (s *Stream) drain() {
	if s.enter() != nil {
		<-s.drained
		return
	}
	defer s.leave()
	s.finish()
}

// finish waits for what is queued, also where events fail. If asking for the stream
// fails too, nothing runs any more.
func (s *Stream) finish() {
	if w, err := s.mark(); err == nil {
		<-w.done
		if w.err == nil {
			return
		}
	}
	for nap := pollFirst; ; nap = min(2*nap, pollLast) {
		if done, err := cuda.StreamQuery(s.d.ctx, s.handle); done || err != nil {
			return
		}
		time.Sleep(nap)
	}
}
