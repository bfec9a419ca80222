package gpu

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync"

	"github.com/mpi4go/mpi4go/internal/cuda"
	"github.com/mpi4go/mpi4go/mem"
)

// PinnedPool hands out page-locked host memory and keeps what is freed, because
// page-locking is slow (about 95 ms for 256 MiB). Lengths are rounded up to a power
// of two, at least 4 KiB. Devices copy from and to such memory without a detour,
// and without holding a thread.
type PinnedPool struct {
	d       *Device
	limit   int
	mu      sync.Mutex
	locked  int               // bytes, in use and idle
	buffers int               // in use
	idle    map[int][]uintptr // by rounded length
	changed chan struct{}     // closed when something was returned
	closed  bool
}

const leastPinned = 4 << 10

// NewPinnedPool makes a pool that page-locks at most limit bytes. It allocates
// nothing yet. Its memory can be used with every device.
func (d *Device) NewPinnedPool(limit int) (*PinnedPool, error) {
	if limit < leastPinned {
		return nil, fmt.Errorf("gpu: NewPinnedPool: a limit of %d bytes: want at least %d", limit, leastPinned)
	}
	if err := d.acquire(); err != nil {
		return nil, d.wrap("NewPinnedPool", err)
	}
	return newPool(d, limit), nil
}

func newPool(d *Device, limit int) *PinnedPool {
	return &PinnedPool{d: d, limit: limit, idle: map[int][]uintptr{}, changed: make(chan struct{})}
}

// Alloc gives n bytes of page-locked memory with undefined contents. Free returns
// them to the pool. Where the limit leaves no room it waits until something is freed,
// or the context ends. More than the limit allows at all is an error.
func (p *PinnedPool) Alloc(ctx context.Context, n int) (*Buffer, error) {
	if n < 0 {
		return nil, fmt.Errorf("gpu: PinnedPool.Alloc: %d bytes: want a length that is not negative", n)
	}
	for {
		address, size, changed, err := p.take(n)
		if err != nil {
			return nil, fmt.Errorf("gpu: PinnedPool.Alloc of %d bytes: %w", n, err)
		}
		if changed == nil {
			k := &block{address: address, size: n, kind: mem.Pinned, ordinal: p.d.info.Ordinal}
			k.give = func() error {
				p.put(address, size)
				return nil
			}
			return k.whole(), nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("gpu: PinnedPool.Alloc of %d bytes: %w while the limit of %d bytes left no room", n, context.Cause(ctx), p.limit)
		}
	}
}

// take takes memory for n bytes. Without room it gives a channel that is closed
// when there may be some.
func (p *PinnedPool) take(n int) (address uintptr, size int, changed <-chan struct{}, err error) {
	size = max(leastPinned, 1<<bits.Len(uint(max(n, 1)-1)))
	p.mu.Lock()
	defer p.mu.Unlock()
	switch idle := p.idle[size]; {
	case p.closed:
		return 0, 0, nil, ErrFreed
	case size > p.limit:
		return 0, 0, nil, fmt.Errorf("rounded up to %d it exceeds the pool's limit of %d", size, p.limit)
	case len(idle) > 0:
		p.idle[size] = idle[:len(idle)-1]
		p.buffers++
		return idle[len(idle)-1], size, nil, nil
	}
	if err := p.shrink(p.limit - size); err != nil {
		return 0, 0, nil, err
	}
	if p.locked+size > p.limit {
		return 0, 0, p.changed, nil
	}
	address, err = cuda.MemHostAlloc(p.d.ctx, size)
	if err != nil {
		return 0, 0, nil, err
	}
	p.locked += size
	p.buffers++
	return address, size, nil, nil
}

// shrink frees idle memory until no more than so many bytes are page-locked, or
// none is idle.
func (p *PinnedPool) shrink(bytes int) error {
	for size, idle := range p.idle {
		for len(idle) > 0 && p.locked > bytes {
			last := len(idle) - 1
			if err := cuda.MemFreeHost(p.d.ctx, idle[last]); err != nil {
				p.forget(size, last)
				return err
			}
			p.forget(size, last)
			idle = idle[:last]
		}
	}
	return nil
}

// forget leaves only so many idle pieces of a length.
func (p *PinnedPool) forget(size, last int) {
	p.idle[size] = p.idle[size][:last]
	p.locked -= size
}

func (p *PinnedPool) put(address uintptr, size int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle[size] = append(p.idle[size], address)
	p.buffers--
	close(p.changed)
	p.changed = make(chan struct{})
}

// Close frees the memory. It fails while buffers of the pool are not freed. A
// second Close returns [ErrFreed].
func (p *PinnedPool) Close() error {
	p.mu.Lock()
	switch {
	case p.closed:
		p.mu.Unlock()
		return fmt.Errorf("gpu: PinnedPool.Close: %w", ErrFreed)
	case p.buffers > 0:
		n := p.buffers
		p.mu.Unlock()
		return fmt.Errorf("gpu: PinnedPool.Close: %d buffers of the pool are still in use: free them first", n)
	}
	p.closed = true
	p.mu.Unlock()
	defer p.d.release()
	return p.d.wrap("PinnedPool.Close", p.empty())
}

// empty frees what is idle, all of it even if the driver complains.
func (p *PinnedPool) empty() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []error
	for p.locked > 0 {
		err := p.shrink(0)
		if err == nil {
			break
		}
		all = append(all, err)
	}
	return errors.Join(all...)
}
