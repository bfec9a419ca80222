package gpu

import (
	"fmt"

	"github.com/mpi4go/mpi4go/internal/cuda"
	"github.com/mpi4go/mpi4go/mem"
)

// dlTypes are DLPack's types of device for our kinds of memory.
var dlTypes = map[mem.Kind]int{mem.Device: cuda.DLCUDA, mem.Pinned: cuda.DLCUDAHost, mem.Managed: cuda.DLCUDAManaged}

// ToDLPack makes a DLPack tensor (DLManagedTensor) of the buffer, one-dimensional, of
// elements of type uint8, in C memory, and returns its address. Nothing is copied.
// Whoever takes it has to call its deleter once; until then Free fails. What is queued
// on streams must be done before another library uses the memory.
func (b *Buffer) ToDLPack() (uintptr, error) {
	k := b.block
	k.mu.Lock()
	if k.ended {
		k.mu.Unlock()
		return 0, fmt.Errorf("gpu: Buffer.ToDLPack: %w", ErrFreed)
	}
	k.exports++
	k.mu.Unlock()
	t := cuda.Tensor{Bytes: b.n, Type: dlTypes[k.kind]} // DLPack wants address 0 for an empty one ...
	if b.n > 0 {
		t.Address = b.address()
	}
	if k.kind == mem.Device { // ... and device 0 for other memory
		t.Device = k.ordinal
	}
	tensor, err := cuda.ExportTensor(t, k.unexport)
	if err != nil {
		k.unexport()
		return 0, fmt.Errorf("gpu: Buffer.ToDLPack: %w", err)
	}
	return tensor, nil
}

func (k *block) unexport() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.exports--
}

// FromDLPack takes the DLPack tensor (DLManagedTensor) at an address: contiguous,
// one-dimensional, device, managed or page-locked memory, elements of any type. Nothing
// is copied. The buffer owns the tensor, and Free calls its deleter. After an error the
// tensor still belongs to the caller.
func FromDLPack(tensor uintptr) (*Buffer, error) {
	if tensor == 0 {
		return nil, fmt.Errorf("gpu.FromDLPack: the address of the tensor is 0")
	}
	t, err := cuda.ReadTensor(tensor)
	if err != nil {
		return nil, fmt.Errorf("gpu.FromDLPack: %w", err)
	}
	var kind mem.Kind // host memory is none of ours
	for k, number := range dlTypes {
		if t.Type == number {
			kind = k
		}
	}
	if kind == mem.Host {
		return nil, fmt.Errorf("gpu.FromDLPack: the tensor is in memory of device type %d: want CUDA (%d), CUDAHost (%d) or CUDAManaged (%d)", t.Type, cuda.DLCUDA, cuda.DLCUDAHost, cuda.DLCUDAManaged)
	}
	p, err := known(t.Address, t.Bytes)
	if err == nil && t.Bytes > 0 && p.Kind != kind {
		err = fmt.Errorf("the tensor says %s memory, the driver %s", kind, p.Kind)
	}
	if err != nil {
		return nil, fmt.Errorf("gpu.FromDLPack: %w", err)
	}
	k := &block{address: t.Address, size: t.Bytes, kind: kind, ordinal: p.Device, pool: p.Pool}
	k.give = func() error {
		cuda.DeleteTensor(tensor)
		return nil
	}
	return k.whole(), nil
}
