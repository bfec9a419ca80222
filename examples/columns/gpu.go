package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/gpu"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
)

// With -gpu the columns of numbers lie in the memory of a GPU on both sides, and the
// names in that of the host: one message has frames of both.

// device is a GPU and a stream for copies.
type device struct {
	*gpu.Device
	stream *gpu.Stream
}

func openDevice() (*device, error) {
	d, err := gpu.OpenLocalDevice()
	if err != nil {
		return nil, err
	}
	s, err := d.NewStream()
	return &device{d, s}, err
}

func (d *device) close() error { return errors.Join(d.stream.Destroy(), d.Close()) }

// send sends a table, with its numbers on the GPU.
func (d *device) send(ctx context.Context, c *mpicomm.Comm, t *table, dest, tag int) error {
	frames, err := t.frames()
	if err != nil {
		return err
	}
	for i := range 2 {
		b, err := d.Alloc(frames[i].Len())
		if err != nil {
			return err
		}
		defer b.Free()
		if err := gpu.Memcpy(ctx, d.stream, b, frames[i]); err != nil {
			return err
		}
		frames[i] = b.Mem()
	}
	return coro.SendMessage(ctx, c, frames, dest, tag)
}

// receive receives each frame into memory of the kind that it was sent from. To print
// the numbers, it copies them to the host.
func (d *device) receive(ctx context.Context, c *mpicomm.Comm, source, tag int) (*table, error) {
	var t table
	var numbers []*gpu.Buffer
	_, err := coro.RecvMessageAlloc(ctx, c, source, tag, func(in coro.Incoming) ([]mem.Buffer, error) {
		frames, err := t.alloc(in)
		for i := 0; err == nil && i < len(frames); i++ {
			if in.Frames[i].Kind != mem.Device {
				continue
			}
			var b *gpu.Buffer
			if b, err = d.Alloc(in.Frames[i].Len); err == nil {
				numbers, frames[i] = append(numbers, b), b.Mem()
			}
		}
		return frames, err
	})
	if err != nil {
		return nil, err
	}
	if len(numbers) != 2 {
		return nil, fmt.Errorf("%d frames on the GPU, not 2", len(numbers))
	}
	return &t, errors.Join(
		gpu.Memcpy(ctx, d.stream, t.population, numbers[0]), gpu.Memcpy(ctx, d.stream, t.area, numbers[1]),
		numbers[0].Free(), numbers[1].Free())
}
