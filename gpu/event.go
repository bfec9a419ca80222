package gpu

import (
	"context"
	"fmt"

	"github.com/mpi4go/mpi4go/internal/cuda"
)

// Event stands for the work that was queued on a stream up to a moment.
type Event struct {
	d      *Device
	handle cuda.Event
	guard
}

// NewEvent makes an event, which counts as complete until it records something. It
// measures no time. Destroy it.
func (d *Device) NewEvent() (*Event, error) {
	if err := d.acquire(); err != nil {
		return nil, d.wrap("NewEvent", err)
	}
	handle, err := cuda.EventCreate(d.ctx)
	if err != nil {
		d.release()
		return nil, d.wrap("NewEvent", err)
	}
	return &Event{d: d, handle: handle}, nil
}

// Record makes the event stand for what is queued on the stream now, instead of what
// it recorded before. The stream must be of the event's device.
func (e *Event) Record(s *Stream) error {
	if s.d.ctx != e.d.ctx {
		return fmt.Errorf("gpu: Event.Record: the event is of %s, the stream of %s: make the event with the stream's device", e.d, s.d)
	}
	return s.with("Event.Record", func() error {
		if err := e.enter(); err != nil {
			return fmt.Errorf("the event: %w", err)
		}
		defer e.leave()
		return cuda.EventRecord(e.d.ctx, e.handle, s.handle)
	})
}

// Query tells whether what the event recorded is done.
func (e *Event) Query() (bool, error) {
	if err := e.enter(); err != nil {
		return false, e.d.wrap("Event.Query", err)
	}
	defer e.leave()
	done, err := cuda.EventQuery(e.d.ctx, e.handle)
	return done, e.d.wrap("Event.Query", err)
}

// Synchronize waits until what the event recorded is done, or the context ends.
func (e *Event) Synchronize(ctx context.Context) error {
	if err := e.enter(); err != nil {
		return e.d.wrap("Event.Synchronize", err)
	}
	w := newWaiter(e.d.ctx, e.handle, e.leave)
	polling.add(w)
	return e.d.wrap("Event.Synchronize", w.waitOrGiveUp(ctx))
}

// Destroy destroys the event, after those who wait for it. A second Destroy returns
// [ErrFreed].
func (e *Event) Destroy() error {
	if err := e.end(always); err != nil {
		return e.d.wrap("Event.Destroy", err)
	}
	defer e.d.release()
	return e.d.wrap("Event.Destroy", cuda.EventDestroy(e.d.ctx, e.handle))
}
