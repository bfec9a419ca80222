package gpu

import (
	"fmt"

	"github.com/mpi4go/mpi4go/internal/cuda"
	"github.com/mpi4go/mpi4go/mem"
)

// Pointer is what the driver says of an address.
type Pointer struct {
	Kind   mem.Kind // mem.Host if the driver does not know the address
	Device int      // ordinal, -1 if the driver does not know the address
	Start  uintptr  // where the allocation begins
	Size   int      // its length in bytes
	Pool   bool     // it is from a stream-ordered allocator, which CUDA IPC cannot share
}

// Inspect asks the driver what an address is (cuPointerGetAttributes).
func Inspect(address uintptr) (Pointer, error) {
	if err := cuda.Load(); err != nil {
		return Pointer{}, fmt.Errorf("gpu: %w", err)
	}
	p, err := cuda.Inspect(address)
	if err != nil {
		return Pointer{}, fmt.Errorf("gpu.Inspect: %#x: %w", address, err)
	}
	known := Pointer{Kind: mem.Device, Device: p.Device, Start: p.Start, Size: p.Size, Pool: p.Pool}
	switch {
	case p.Managed:
		known.Kind = mem.Managed
	case p.Host:
		known.Kind = mem.Pinned
	case !p.OnDevice:
		return Pointer{Kind: mem.Host, Device: -1}, nil
	}
	return known, nil
}
