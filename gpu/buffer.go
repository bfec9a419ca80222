package gpu

import (
	"errors"
	"fmt"
	"sync"

	"github.com/mpi4go/mpi4go/internal/cuda"
	"github.com/mpi4go/mpi4go/mem"
)

// Buffer is device, managed or page-locked host memory, or a part of it.
type Buffer struct {
	block *block
	off   int
	n     int
	part  bool // of a buffer that somebody else frees
}

// block is one allocation.
type block struct {
	guard
	address uintptr
	size    int
	kind    mem.Kind
	ordinal int  // of the device
	owner   any  // of the memory of another library
	pool    bool // from a stream-ordered allocator
	exports int  // DLPack tensors; under guard.mu
	give    func() error
	order   order // of messages, that says which block this is and nothing more

	used    sync.Mutex
	streams map[*Stream]struct{} // on which work may be queued that uses it
}

// Alloc allocates n bytes of the device's memory. Their contents are undefined.
// Without enough memory errors.Is finds [ErrOutOfMemory].
func (d *Device) Alloc(n int) (*Buffer, error) {
	return d.alloc("Alloc", n, mem.Device, cuda.MemAlloc)
}

// AllocManaged allocates n bytes that both the host and the device can use; the
// driver moves them. The host must not touch them while the device does. Their
// contents are undefined.
func (d *Device) AllocManaged(n int) (*Buffer, error) {
	return d.alloc("AllocManaged", n, mem.Managed, cuda.MemAllocManaged)
}

func (d *Device) alloc(call string, n int, kind mem.Kind, allocate func(cuda.Context, int) (uintptr, error)) (*Buffer, error) {
	if n < 0 {
		return nil, fmt.Errorf("gpu: %s: %d bytes: want a length that is not negative", call, n)
	}
	if err := d.acquire(); err != nil {
		return nil, d.wrap(call, err)
	}
	k := &block{size: n, kind: kind, ordinal: d.info.Ordinal}
	if n > 0 { // the driver has no empty memory
		address, err := allocate(d.ctx, n)
		if err != nil {
			d.release()
			return nil, d.wrap(fmt.Sprintf("%s of %d bytes", call, n), err)
		}
		k.address = address
	}
	k.give = func() error {
		defer d.release()
		if n == 0 {
			return nil
		}
		return d.wrap("Free", cuda.MemFree(d.ctx, k.address))
	}
	return k.whole(), nil
}

func (k *block) whole() *Buffer {
	k.order.block = k
	return &Buffer{block: k, n: k.size}
}

// FromPointer refers to n bytes at an address that another library has allocated
// as device, managed or page-locked host memory. The driver is asked what the
// address is. The owner is kept alive until Free, and while work that was queued
// here uses the memory; Free does not free the memory.
func FromPointer(address uintptr, n int, owner any) (*Buffer, error) {
	if n < 0 {
		return nil, fmt.Errorf("gpu.FromPointer: %d bytes: want a length that is not negative", n)
	}
	p, err := known(address, n)
	if err != nil {
		return nil, fmt.Errorf("gpu.FromPointer: %w", err)
	}
	k := &block{address: address, size: n, kind: p.Kind, ordinal: p.Device, pool: p.Pool, owner: owner}
	k.give = func() error {
		k.owner = nil
		return nil
	}
	return k.whole(), nil
}

// known inspects n bytes that have to be memory of the driver.
func known(address uintptr, n int) (Pointer, error) {
	p, err := Inspect(address)
	switch {
	case err != nil:
		return p, err
	case n == 0:
		return Pointer{Kind: max(p.Kind, mem.Device), Device: max(p.Device, 0)}, nil
	case p.Kind == mem.Host:
		return p, fmt.Errorf("the driver does not know address %#x: it is not, or no longer, device, managed or page-locked memory", address)
	case p.Size > 0 && n > p.Size-int(address-p.Start): // the driver may not know where it ends
		return p, fmt.Errorf("%d bytes at %#x: the allocation of %d bytes ends %d bytes from there", n, address, p.Size, p.Size-int(address-p.Start))
	}
	return p, nil
}

// Len is the length in bytes.
func (b *Buffer) Len() int { return b.n }

// Kind is mem.Device, mem.Managed or mem.Pinned.
func (b *Buffer) Kind() mem.Kind { return b.block.kind }

// Device is the ordinal of the device that the memory belongs to.
func (b *Buffer) Device() int { return b.block.ordinal }

// Mem refers to the same memory as a mem.Buffer, for messages. It does not keep the
// memory from being freed: Free waits for copies, not for messages. It panics
// after Free.
func (b *Buffer) Mem() mem.Buffer {
	m := b.plain()
	if b.block.kind == mem.Pinned { // it is host memory for everybody
		return m
	}
	return m.Ordered(&b.block.order)
}

// plain refers to the memory without an order.
func (b *Buffer) plain() mem.Buffer {
	if b.block.hasEnded() {
		panic("gpu.Buffer.Mem: the buffer was freed")
	}
	return mem.FromPointer(b.address(), b.n, b.block.kind, b.block)
}

// address is that of the first byte.
func (b *Buffer) address() uintptr { return b.block.address + uintptr(b.off) }

// Slice refers to the bytes from i up to j, as long as the buffer that they are part
// of is not freed. A part cannot be freed by itself.
func (b *Buffer) Slice(i, j int) (*Buffer, error) {
	if i < 0 || j < i || j > b.n {
		return nil, fmt.Errorf("gpu: Buffer.Slice: [%d:%d] of a buffer of %d bytes", i, j, b.n)
	}
	if b.block.hasEnded() {
		return nil, fmt.Errorf("gpu: Buffer.Slice: %w", ErrFreed)
	}
	return &Buffer{block: b.block, off: b.off + i, n: j - i, part: true}, nil
}

// Free frees the memory, or returns it to its pool, or lets go of its owner. First
// it waits for the copies and fills of this package that use it, however long they
// take. Messages must be done. A second Free returns [ErrFreed].
func (b *Buffer) Free() error {
	if b.part {
		return errors.New("gpu: Buffer.Free: this is a part of a buffer: free the whole")
	}
	k := b.block
	err := k.end(func() error {
		if k.exports > 0 {
			return fmt.Errorf("%d DLPack tensors still refer to it: their users have to call the deleters first", k.exports)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("gpu: Buffer.Free: %w", err)
	}
	for s := range k.streams {
		s.drain()
	}
	k.streams = nil
	return k.give()
}

// begin notes that work on the memory is about to be queued; leave follows.
func (k *block) begin(s *Stream) error {
	if err := k.enter(); err != nil {
		return err
	}
	k.used.Lock()
	defer k.used.Unlock()
	if len(k.streams) >= 16 {
		for s := range k.streams {
			if s.hasEnded() {
				delete(k.streams, s)
			}
		}
	}
	if k.streams == nil {
		k.streams = map[*Stream]struct{}{}
	}
	k.streams[s] = struct{}{}
	return nil
}
