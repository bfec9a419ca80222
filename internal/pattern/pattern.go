// Package pattern fills device memory with bytes that can be told from all others,
// and compares them, with kernels on the device: so that what is measured or tested
// need not travel to the host. Byte i of the pattern of a seed depends on i and the
// seed alone; [Byte] says how.
package pattern

import (
	"context"
	_ "embed"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/mpi4go/mpi4go/gpu"
	"github.com/mpi4go/mpi4go/internal/cuda"
)

//go:embed kernels.ptx
var ptx string

// How the kernels are launched: enough threads for a large device, each of which
// does many bytes of a large buffer.
const (
	threads   = 256
	maxBlocks = 4096
)

// Kernels are the kernels, loaded for a device.
type Kernels struct {
	device       *gpu.Device
	module       cuda.Module
	fill, verify cuda.Function
	result       *gpu.Buffer // of Verify
	free         chan struct{}
}

// Load compiles the kernels for a device, which the driver does. Unload them before
// the device is closed.
func Load(d *gpu.Device) (*Kernels, error) {
	ctx := cuda.Context(d.Context())
	module, err := cuda.ModuleLoad(ctx, ptx)
	if err != nil {
		return nil, fmt.Errorf("the kernels for patterns: %w", err)
	}
	k := &Kernels{device: d, module: module, free: make(chan struct{}, 1)}
	if k.fill, err = cuda.ModuleFunction(ctx, module, "mpi4go_fill"); err == nil {
		k.verify, err = cuda.ModuleFunction(ctx, module, "mpi4go_verify")
	}
	if err == nil {
		k.result, err = d.Alloc(16)
	}
	if err != nil {
		_ = cuda.ModuleUnload(ctx, module) // the first error says more
		return nil, fmt.Errorf("the kernels for patterns: %w", err)
	}
	k.free <- struct{}{}
	return k, nil
}

// Unload gives back what Load made. No kernel may be running.
func (k *Kernels) Unload() error {
	err := k.result.Free()
	if e := cuda.ModuleUnload(cuda.Context(k.device.Context()), k.module); err == nil {
		err = e
	}
	return err
}

// Fill queues the fill of a buffer on a stream of the device. The buffer must not be
// freed before the stream is synchronised.
func (k *Kernels) Fill(s *gpu.Stream, b *gpu.Buffer, seed uint64) error {
	return k.launch(k.fill, s, b, seed)
}

// Verify compares a buffer with the pattern of a seed, behind what is queued on the
// stream, and waits for the answer: how many bytes are wrong, and the place of the
// first of them.
func (k *Kernels) Verify(ctx context.Context, s *gpu.Stream, b *gpu.Buffer, seed uint64) (wrong, first int, err error) {
	select {
	case <-k.free: // one at a time uses the result
	case <-ctx.Done():
		return 0, 0, context.Cause(ctx)
	}
	defer func() { k.free <- struct{}{} }()
	words := []uint64{0, math.MaxUint64}
	if err := gpu.Memcpy(ctx, s, k.result, words); err != nil {
		return 0, 0, err
	}
	if err := k.launch(k.verify, s, b, seed, uint64(k.result.Mem().Addr())); err != nil {
		return 0, 0, err
	}
	if err := gpu.Memcpy(ctx, s, words, k.result); err != nil {
		return 0, 0, err
	}
	return int(words[0]), int(words[1]), nil
}

func (k *Kernels) launch(f cuda.Function, s *gpu.Stream, b *gpu.Buffer, seed uint64, more ...uint64) error {
	if b.Len() == 0 {
		return nil
	}
	blocks := min((b.Len()+threads-1)/threads, maxBlocks)
	arguments := append([]uint64{uint64(b.Mem().Addr()), uint64(b.Len()), seed}, more...)
	return cuda.Launch(cuda.Context(k.device.Context()), f, blocks, threads, cuda.Stream(s.Handle()), arguments...)
}

// Byte is byte i of the pattern of a seed.
func Byte(seed uint64, i int) byte {
	word := word8(seed, i>>3)
	return word[i&7]
}

// Fill fills host memory with the pattern of a seed.
func Fill(b []byte, seed uint64) {
	for i := 0; i < len(b); i += 8 {
		word := word8(seed, i>>3)
		copy(b[i:], word[:])
	}
}

// Verify compares host memory with the pattern of a seed: how many bytes are wrong,
// and the place of the first of them.
func Verify(b []byte, seed uint64) (wrong, first int) {
	for i := 0; i < len(b); i += 8 {
		word := word8(seed, i>>3)
		part := b[i:min(i+8, len(b))]
		if string(part) == string(word[:len(part)]) {
			continue
		}
		for j := range part {
			if part[j] != word[j] {
				if wrong++; wrong == 1 {
					first = i + j
				}
			}
		}
	}
	return wrong, first
}

// word8 is the i-th word of the pattern.
func word8(seed uint64, i int) (word [8]byte) {
	binary.LittleEndian.PutUint64(word[:], mix(uint64(i)+seed*0x9E3779B97F4A7C15))
	return word
}

// mix is the finaliser of SplitMix64.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}
