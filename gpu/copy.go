package gpu

import (
	"context"
	"fmt"
	"math/bits"
	"reflect"
	"unsafe"

	"github.com/mpi4go/mpi4go/internal/cuda"
	"github.com/mpi4go/mpi4go/mem"
)

// Data is what [Memcpy] copies from and to: a slice of numbers, a mem.Buffer, or a
// [Buffer].
type Data interface {
	mem.Data | *Buffer
}

// MemcpyAsync queues a copy between two buffers of the same length, of any kinds and
// devices. They must not overlap.
func (s *Stream) MemcpyAsync(dst, src *Buffer) error {
	return s.with("MemcpyAsync", func() error {
		if err := checkCopy(dst, src); err != nil {
			return err
		}
		return s.queue(func() error {
			return cuda.MemcpyAsync(s.d.ctx, dst.address(), src.address(), dst.n, s.handle)
		}, dst, src)
	})
}

func checkCopy(dst, src *Buffer) error {
	switch from, to := src.address(), dst.address(); {
	case dst.n != src.n:
		return fmt.Errorf("%d bytes into a buffer of %d: want equal lengths: slice the longer one", src.n, dst.n)
	case dst.n > 0 && from < to+uintptr(dst.n) && to < from+uintptr(src.n):
		return fmt.Errorf("the source and the destination overlap")
	}
	return nil
}

// MemsetD8Async queues a fill of the buffer with a byte.
func (s *Stream) MemsetD8Async(dst *Buffer, value uint8) error {
	return s.with("MemsetD8Async", func() error {
		return s.queue(func() error {
			return cuda.MemsetD8Async(s.d.ctx, dst.address(), value, dst.n, s.handle)
		}, dst)
	})
}

// MemsetD32Async queues a fill of the buffer with words of 4 bytes. Its address and
// length must be multiples of 4.
func (s *Stream) MemsetD32Async(dst *Buffer, value uint32) error {
	return s.with("MemsetD32Async", func() error {
		if dst.n%4 != 0 || dst.address()%4 != 0 {
			return fmt.Errorf("%d bytes at offset %d: want multiples of 4", dst.n, dst.off)
		}
		return s.queue(func() error {
			return cuda.MemsetD32Async(s.d.ctx, dst.address(), value, dst.n/4, s.handle)
		}, dst)
	})
}

// queue queues work on buffers of one length, with the buffers kept until it is done.
func (s *Stream) queue(work func() error, buffers ...*Buffer) error {
	foreign := false
	for _, b := range buffers {
		if err := b.block.begin(s); err != nil {
			return fmt.Errorf("the buffer of %d bytes: %w", b.n, err)
		}
		defer b.block.leave()
		foreign = foreign || b.block.owner != nil
	}
	if buffers[0].n == 0 {
		return nil
	}
	if !foreign {
		return work()
	}
	m, err := s.d.newMark()
	if err != nil {
		return err
	}
	if err := work(); err != nil {
		m.put()
		return err
	}
	owners := make([]any, 0, len(buffers))
	for _, b := range buffers {
		owners = append(owners, b.block.owner)
	}
	if err := m.record(s, owners...); err != nil {
		s.finish() // nothing else would keep the owners
		return err
	}
	return nil
}

// Memcpy copies between two places of the same length and waits until that is done,
// behind whatever is queued on the stream. Go memory travels through a small pool of
// page-locked memory in pieces, so that neither the driver nor a thread waits for it.
//
// If the context ends, the error wraps its cause. The device may then still use
// device, managed and page-locked memory until the stream is synchronised; Go memory
// is free, with undefined contents if it was the destination.
func Memcpy[D, S Data](ctx context.Context, s *Stream, dst D, src S) error {
	to, err := placeOf(dst)
	if err != nil {
		return fmt.Errorf("gpu.Memcpy: destination: %w", err)
	}
	from, err := placeOf(src)
	if err != nil {
		return fmt.Errorf("gpu.Memcpy: source: %w", err)
	}
	return s.memcpy(ctx, to, from)
}

func (s *Stream) memcpy(ctx context.Context, dst, src place) (err error) {
	if dst.len() != src.len() {
		return fmt.Errorf("gpu.Memcpy: %d bytes into a destination of %d: want equal lengths: slice the longer one", src.len(), dst.len())
	}
	switch {
	case dst.device == nil && src.device == nil:
		copy(dst.host, src.host)
		return nil
	case dst.device == nil:
		return s.staged(ctx, src.device, dst.host, false)
	case src.device == nil:
		return s.staged(ctx, dst.device, src.host, true)
	}
	if err := s.MemcpyAsync(dst.device, src.device); err != nil {
		return err
	}
	return s.Synchronize(ctx)
}

// place is where bytes are: Go memory, or memory that the driver knows.
type place struct {
	host   []byte
	device *Buffer
}

func (p place) len() int {
	if p.device != nil {
		return p.device.n
	}
	return len(p.host)
}

func placeOf[D Data](d D) (place, error) {
	switch d := any(d).(type) {
	case *Buffer:
		return place{device: d}, nil
	case mem.Buffer:
		if d.Kind() == mem.Host {
			return place{host: d.Bytes()}, nil
		}
		b, err := FromPointer(d.Addr(), d.Len(), d)
		return place{device: b}, err
	case []byte:
		return place{host: d}, nil
	}
	slice := reflect.ValueOf(d)
	n := slice.Len() * int(slice.Type().Elem().Size())
	return place{host: unsafe.Slice((*byte)(slice.UnsafePointer()), n)}, nil
}

// Go memory is copied in pieces of an eighth, within these limits, a few at a time.
const (
	leastPiece = 128 << 10
	mostPiece  = 4 << 20
	inFlight   = 4
	stageLimit = 32 << 20
)

func pieceLength(n int) int {
	return min(max(leastPiece, 1<<bits.Len(uint(n/8))/2), mostPiece)
}

// piece is a part of a copy that is under way.
type piece struct {
	host, pinned []byte
	give         func() // returns the pinned memory
	w            *waiter
	buffer       *Buffer // kept alive
}

// staged copies between a buffer and Go memory.
func (s *Stream) staged(ctx context.Context, b *Buffer, host []byte, toDevice bool) error {
	d := s.d
	if err := d.enter(); err != nil {
		return d.wrap("Memcpy", err)
	}
	var window []piece // oldest first
	err := s.stageAll(ctx, b, host, toDevice, &window)
	if len(window) == 0 {
		d.leave()
		return d.wrap("Memcpy", err)
	}
	go func() { // the device still uses the page-locked memory
		defer d.leave()
		for _, p := range window {
			<-p.w.done
			if p.w.err != nil {
				s.drain()
			}
			p.give()
		}
	}()
	return d.wrap("Memcpy", err)
}

// stageAll leaves in the window what is still under way when it fails.
func (s *Stream) stageAll(ctx context.Context, b *Buffer, host []byte, toDevice bool, window *[]piece) error {
	size := pieceLength(len(host))
	for next := 0; next < len(host) || len(*window) > 0; {
		if next < len(host) && len(*window) < inFlight {
			end := min(next+size, len(host))
			part := &Buffer{block: b.block, off: b.off + next, n: end - next}
			p, err := s.stagePiece(ctx, part, host[next:end], toDevice, len(*window) == 0)
			if err != nil {
				return err
			}
			if p.w != nil {
				*window = append(*window, p)
				next = end
				continue
			}
		}
		p := (*window)[0]
		if err := p.w.wait(ctx); err != nil {
			return err
		}
		*window = (*window)[1:]
		if !toDevice {
			copy(p.host, p.pinned)
		}
		p.give()
	}
	return nil
}

// stagePiece queues one piece. Where the pool has no room it waits, or gives a piece
// without a waiter: who holds pieces must not wait for those of others.
func (s *Stream) stagePiece(ctx context.Context, b *Buffer, host []byte, toDevice, wait bool) (piece, error) {
	pool := s.d.staging()
	address, size, changed, err := pool.take(b.n)
	for ; changed != nil && err == nil; address, size, changed, err = pool.take(b.n) {
		if !wait {
			return piece{}, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return piece{}, context.Cause(ctx)
		}
	}
	if err != nil {
		return piece{}, err
	}
	pinned := mem.FromPointer(address, b.n, mem.Pinned, nil).Bytes()
	p := piece{host: host, pinned: pinned, give: func() { pool.put(address, size) }, buffer: b}
	if toDevice {
		copy(pinned, host)
	}
	if p.w, err = s.queuePiece(b, address, toDevice); err != nil {
		p.give()
	}
	return p, err
}

func (s *Stream) queuePiece(b *Buffer, pinned uintptr, toDevice bool) (*waiter, error) {
	if err := s.enter(); err != nil {
		return nil, fmt.Errorf("the stream: %w", err)
	}
	defer s.leave()
	if err := b.block.begin(s); err != nil {
		return nil, fmt.Errorf("the buffer: %w", err)
	}
	defer b.block.leave()
	m, err := s.d.newMark()
	if err != nil {
		return nil, err
	}
	dst, src := pinned, b.address()
	if toDevice {
		dst, src = src, dst
	}
	if err := cuda.MemcpyAsync(s.d.ctx, dst, src, b.n, s.handle); err != nil {
		m.put()
		return nil, err
	}
	if err := m.record(s); err != nil {
		s.finish() // the page-locked memory is used until then
		return nil, err
	}
	return m.w, nil
}

// staging is the pool that Memcpy uses, made when it is first needed.
func (d *Device) staging() *PinnedPool {
	d.own.Lock()
	defer d.own.Unlock()
	if d.stage == nil {
		d.stage = newPool(d, stageLimit)
	}
	return d.stage
}
