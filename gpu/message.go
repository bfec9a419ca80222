package gpu

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/mpi4go/mpi4go/internal/cuda"
	"github.com/mpi4go/mpi4go/internal/device"
	"github.com/mpi4go/mpi4go/mem"
)

func init() { device.Register(messages{}) }

// messages is what mpicomm and coro see of this package.
type messages struct{}

// opened are the open devices, in the order in which they were opened.
var opened struct {
	sync.Mutex
	devices []*Device
	limit   int // of page-locked memory for messages
}

const defaultLimit = 256 << 20

func noteOpened(d *Device) {
	opened.Lock()
	defer opened.Unlock()
	opened.devices = append(opened.devices, d)
}

func noteClosed(d *Device) {
	opened.Lock()
	defer opened.Unlock()
	opened.devices = slices.DeleteFunc(opened.devices, func(x *Device) bool { return x == d })
}

// openDevice is an open device with an ordinal, nil if there is none.
func openDevice(ordinal int) *Device {
	opened.Lock()
	defer opened.Unlock()
	for _, d := range opened.devices {
		if d.info.Ordinal == ordinal {
			return d
		}
	}
	return nil
}

func (messages) Limit(bytes int) {
	opened.Lock()
	defer opened.Unlock()
	opened.limit = bytes
}

// Attach holds the primary context by a reference of its own.
func (messages) Attach() (*device.Attached, error) {
	opened.Lock()
	var d *Device
	if len(opened.devices) > 0 {
		d = opened.devices[0]
	}
	opened.Unlock()
	if d == nil {
		return nil, nil
	}
	ctx, err := cuda.Retain(d.handle)
	if err != nil {
		return nil, d.wrap("for MPI", err)
	}
	return &device.Attached{
		Ordinal: d.info.Ordinal, Name: d.info.Name, Context: uint64(ctx), Hook: cuda.ContextHook(),
		Release: func() error { return cuda.Release(d.handle) },
	}, nil
}

// On refers to the memory, for messages, in the order of a stream: what is sent is
// what the buffer holds after the work that was queued on the stream when the message
// was started, and what is received comes after that work, and before what is queued on
// the stream once the call has returned. It may be of another device. Without On a message
// comes after what was queued on all streams of the buffer's device that this package has
// made, on the legacy default stream and the streams that it waits for. Otherwise it is
// [Buffer.Mem].
func (b *Buffer) On(s *Stream) mem.Buffer {
	return b.plain().Ordered(&order{block: b.block, stream: s})
}

// After refers to the memory, for messages, like [Buffer.On], but in the order of an event:
// a message comes after what the event stands for. Do not record it again before the
// message is done.
func (b *Buffer) After(e *Event) mem.Buffer {
	return b.plain().Ordered(&order{block: b.block, event: e})
}

// order is what a mem.Buffer of ours carries for messages.
type order struct {
	block  *block
	stream *Stream
	event  *Event
}

// message is the memory of a message.
type message struct {
	buf    mem.Buffer
	device *Device // nil for host memory
	pool   bool
	stream *Stream   // what is queued on it later comes after the message
	marks  []*waiter // what the message comes after
}

func (messages) Memory(buf mem.Buffer) (device.Memory, error) {
	m := &message{buf: buf}
	o, ours := buf.Order().(*order)
	if !ours {
		o = &order{}
	}
	if kind := buf.Kind(); kind == mem.Device || kind == mem.Managed {
		ordinal := 0
		if ours {
			if o.block.hasEnded() {
				return nil, fmt.Errorf("gpu: the buffer of the message: %w", ErrFreed)
			}
			ordinal, m.pool = o.block.ordinal, o.block.pool
		} else {
			p, err := known(buf.Addr(), buf.Len())
			if err != nil {
				return nil, fmt.Errorf("gpu: %w", err)
			}
			ordinal, m.pool = p.Device, p.Pool
		}
		if m.device = openDevice(ordinal); m.device == nil {
			return nil, fmt.Errorf("gpu: the memory is of device %d, which is not open: call gpu.OpenDevice(%d) and keep it open", ordinal, ordinal)
		}
	}
	switch {
	case o.stream != nil:
		m.stream = o.stream
		return m, m.after(o.stream)
	case o.event != nil:
		return m, m.afterEvent(o.event)
	case m.device == nil:
		return m, nil
	}
	return m, m.afterAll()
}

// after notes what is queued on a stream, unless that is nothing.
func (m *message) after(s *Stream) error {
	return s.with("message", func() error {
		done, err := cuda.StreamQuery(s.d.ctx, s.handle)
		if done || err != nil {
			return err
		}
		return m.mark(s)
	})
}

func (m *message) mark(s *Stream) error {
	w, err := s.mark()
	if err == nil {
		m.marks = append(m.marks, w)
	}
	return err
}

func (m *message) afterEvent(e *Event) error {
	done, err := e.Query()
	if done || err != nil {
		return err
	}
	if err := e.enter(); err != nil {
		return e.d.wrap("message", err)
	}
	w := newWaiter(e.d.ctx, e.handle, e.leave)
	m.marks = append(m.marks, w)
	polling.add(w)
	return nil
}

// afterAll notes what is queued on the device's streams, and on the legacy default
// stream, which an event there orders after the blocking streams.
func (m *message) afterAll() error {
	d := m.device
	if err := d.enter(); err != nil {
		return d.wrap("message", err)
	}
	defer d.leave()
	d.own.Lock()
	streams := make([]*Stream, 0, 8)
	for s := range d.streams {
		streams = append(streams, s)
	}
	d.own.Unlock()
	for _, s := range streams {
		if s.hasEnded() {
			continue // Destroy waits for its work
		}
		if err := m.after(s); err != nil {
			return err
		}
	}
	k, err := d.newMark()
	if err != nil {
		return d.wrap("message", err)
	}
	const legacy = 0
	err = cuda.EventRecord(d.ctx, k.event, legacy)
	done := err != nil
	if err == nil {
		done, err = cuda.EventQuery(d.ctx, k.event)
	}
	if done || err != nil {
		k.put()
		return d.wrap("message", err)
	}
	k.watch()
	m.marks = append(m.marks, k.w)
	return nil
}

func (m *message) Device() int {
	if m.device == nil {
		return -1
	}
	return m.device.info.Ordinal
}

func (m *message) Pool() bool { return m.pool }

func (m *message) Ready() bool {
	for _, w := range m.marks {
		if !w.ready() {
			return false
		}
	}
	return true
}

func (m *message) Await(ctx context.Context) error {
	for _, w := range m.marks {
		if err := w.wait(ctx); err != nil {
			return fmt.Errorf("gpu: what a message comes after: %w", err)
		}
	}
	return nil
}

// lane is what a device has for the messages of one direction.
type lane struct {
	stream *Stream
	pool   *PinnedPool
}

// lane makes it when it is first needed. The caller is in the device.
func (d *Device) lane(dir device.Direction) (*lane, error) {
	d.own.Lock()
	defer d.own.Unlock()
	if l := d.lanes[dir]; l != nil {
		return l, nil
	}
	handle, err := cuda.StreamCreate(d.ctx)
	if err != nil {
		return nil, err
	}
	opened.Lock()
	limit := opened.limit
	opened.Unlock()
	if limit == 0 {
		limit = defaultLimit
	}
	d.lanes[dir] = &lane{stream: &Stream{d: d, handle: handle, drained: make(chan struct{})}, pool: newPool(d, limit)}
	return d.lanes[dir], nil
}

// close gives everything back. Nothing is queued any more.
func (l *lane) close() []error {
	return []error{cuda.StreamDestroy(l.stream.d.ctx, l.stream.handle), l.pool.empty()}
}

// pinned is a piece of a lane's memory.
type pinned struct {
	d       *Device
	pool    *PinnedPool
	address uintptr
	size, n int
}

func (p *pinned) Buffer() mem.Buffer { return mem.FromPointer(p.address, p.n, mem.Pinned, p) }

func (p *pinned) Free() {
	p.pool.put(p.address, p.size)
	p.d.leave()
}

func (m *message) Take(ctx context.Context, dir device.Direction, n int, wait bool) (device.Piece, error) {
	d := m.device
	if err := d.enter(); err != nil {
		return nil, d.wrap("message", err)
	}
	l, err := d.lane(dir)
	if err != nil {
		d.leave()
		return nil, d.wrap("message", err)
	}
	for {
		address, size, changed, err := l.pool.take(n)
		switch {
		case err != nil:
			d.leave()
			return nil, d.wrap("message", err)
		case changed == nil:
			return &pinned{d: d, pool: l.pool, address: address, size: size, n: n}, nil
		case !wait:
			d.leave()
			return nil, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			d.leave()
			return nil, context.Cause(ctx)
		}
	}
}

// copying is a copy on a lane's stream.
type copying struct {
	w      *waiter
	lane   *lane
	behind bool
}

func (c *copying) Wait(ctx context.Context) error {
	err := c.w.wait(ctx)
	if c.w.ready() && c.w.err != nil {
		c.lane.stream.finish() // the event does not tell
		return c.lane.stream.d.wrap("message", c.w.err)
	}
	return err
}

func (c *copying) Ready() bool { return c.w.ready() }

func (c *copying) Behind() bool { return c.behind }

func (c *copying) Release(p device.Piece) {
	go func() {
		_ = c.Wait(context.Background()) // the stream that waits for the copy has the failure
		p.Free()
	}()
}

func (m *message) Copy(dir device.Direction, at int, piece device.Piece, last bool) (device.Work, error) {
	p := piece.(*pinned)
	d := m.device
	l, err := d.lane(dir)
	if err != nil {
		return nil, d.wrap("message", err)
	}
	k, err := d.newMark()
	if err != nil {
		return nil, d.wrap("message", err)
	}
	dst, src := p.address, m.buf.Addr()+uintptr(at)
	if dir == device.In {
		dst, src = src, dst
	}
	if err := cuda.MemcpyAsync(d.ctx, dst, src, p.n, l.stream.handle); err != nil {
		k.put()
		return nil, d.wrap("message", err)
	}
	if err := cuda.EventRecord(d.ctx, k.event, l.stream.handle); err != nil {
		l.stream.finish() // the piece and the memory are used until then
		k.put()
		return nil, d.wrap("message", err)
	}
	c := &copying{lane: l}
	if last && dir == device.In && m.stream != nil && m.stream.enter() == nil {
		c.behind = cuda.StreamWaitEvent(m.stream.d.ctx, m.stream.handle, k.event) == nil
		m.stream.leave()
	}
	k.watch(m.buf)
	c.w = k.w
	if dir == device.Out {
		device.StagedOut.Add(int64(p.n))
	} else {
		device.StagedIn.Add(int64(p.n))
	}
	return c, nil
}
