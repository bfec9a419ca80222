package mem

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// Block is memory outside the Go heap, made by [Alloc].
type Block struct {
	bytes []byte
	freed atomic.Bool
}

// ErrFreed is returned by a second Free of a [Block].
var ErrFreed = errors.New("mem: the block was freed already")

// hugePage is the size of a huge page on most machines.
const hugePage = 2 << 20

// Alloc allocates n bytes outside the Go heap, filled with zeros and aligned to
// a page (mmap). The garbage collector neither scans nor frees them: call Free.
// Use it for communication buffers that live long: a registration cache of the
// transport never sees their pages change owner. From 2 MiB on they lie in huge pages
// if the system has some (madvise with MADV_HUGEPAGE), in which MPI copies long
// messages faster than in the Go heap. The error says why the system refused.
func Alloc(n int) (*Block, error) {
	if n < 0 {
		return nil, fmt.Errorf("mem.Alloc: %d bytes: want a length that is not negative", n)
	}
	if n == 0 {
		return &Block{}, nil
	}
	b, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("mem.Alloc: %d bytes: %w", n, err)
	}
	if n >= hugePage {
		_ = syscall.Madvise(b, syscall.MADV_HUGEPAGE) // a system without them has other pages
	}
	return &Block{bytes: b}, nil
}

// Bytes is the memory, valid until Free. It panics after Free.
func (b *Block) Bytes() []byte {
	if b.freed.Load() {
		panic("mem.Block.Bytes: the block was freed")
	}
	return b.bytes
}

// Buffer refers to the whole block and keeps it reachable; it does not keep it
// from being freed. It panics after Free.
func (b *Block) Buffer() Buffer {
	bytes := b.Bytes()
	return FromPointer(uintptr(unsafe.Pointer(unsafe.SliceData(bytes))), len(bytes), Host, b)
}

// Free gives the memory back to the system. No operation may be using it. A
// second Free returns ErrFreed.
func (b *Block) Free() error {
	if b.freed.Swap(true) {
		return ErrFreed
	}
	if b.bytes == nil {
		return nil
	}
	err := syscall.Munmap(b.bytes)
	b.bytes = nil
	return err
}
