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

// With -gpu the large arrays, columns and values, lie in the memory of a GPU on both
// sides, where a library for sparse matrices wants them. What says where each row begins
// stays in that of the host.

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

// send sends a matrix, with its columns and values on the GPU. The copies there are
// queued; the message follows them on the stream, and nobody waits in between.
func (d *device) send(ctx context.Context, c *mpicomm.Comm, m *matrix, dest, tag int) error {
	frames, err := m.frames()
	if err != nil {
		return err
	}
	pool, err := d.NewPinnedPool(64 << 20)
	if err != nil {
		return err
	}
	defer pool.Close()
	for i := 1; i < 3; i++ {
		n := frames[i].Len()
		host, err := pool.Alloc(ctx, n)
		if err != nil {
			return err
		}
		defer host.Free()
		b, err := d.Alloc(n)
		if err != nil {
			return err
		}
		defer b.Free()
		copy(host.Mem().Bytes(), frames[i].Bytes())
		if err := d.stream.MemcpyAsync(b, host); err != nil {
			return err
		}
		frames[i] = b.On(d.stream)
	}
	return coro.SendMessage(ctx, c, frames, dest, tag)
}

// receive receives each frame into memory of the kind that it was sent from. To
// multiply on the host, it copies them there.
func (d *device) receive(ctx context.Context, c *mpicomm.Comm, source, tag int) (*matrix, error) {
	var m matrix
	var large []*gpu.Buffer
	_, err := coro.RecvMessageAlloc(ctx, c, source, tag, func(in coro.Incoming) ([]mem.Buffer, error) {
		frames, err := m.alloc(in)
		for i := 0; err == nil && i < len(frames); i++ {
			if in.Frames[i].Kind != mem.Device {
				continue
			}
			var b *gpu.Buffer
			if b, err = d.Alloc(in.Frames[i].Len); err == nil {
				large, frames[i] = append(large, b), b.Mem()
			}
		}
		return frames, err
	})
	if err != nil {
		return nil, err
	}
	if len(large) != 2 {
		return nil, fmt.Errorf("%d frames on the GPU, not 2", len(large))
	}
	return &m, errors.Join(
		gpu.Memcpy(ctx, d.stream, m.columns, large[0]), gpu.Memcpy(ctx, d.stream, m.values, large[1]),
		large[0].Free(), large[1].Free())
}
