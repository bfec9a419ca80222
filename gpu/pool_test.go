package gpu_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/gpu"
	"github.com/mpi4go/mpi4go/internal/cudasim"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/stretchr/testify/require"
)

func TestPinnedPool(t *testing.T) {
	unchanged(t, "violations")
	ctx, d := patient(t), open(t)
	for _, limit := range []int{-1, 0, 4095} {
		_, err := d.NewPinnedPool(limit)
		require.ErrorContains(t, err, "want at least 4096")
	}
	p, err := d.NewPinnedPool(100000)
	require.NoError(t, err)
	b, err := p.Alloc(ctx, 5000)
	require.NoError(t, err)
	require.Equal(t, mem.Pinned, b.Kind())
	require.Equal(t, 5000, b.Len())
	require.Len(t, b.Mem().Bytes(), 5000)
	address := b.Mem().Addr()
	require.ErrorContains(t, p.Close(), "1 buffers of the pool are still in use")
	require.NoError(t, b.Free())
	require.ErrorIs(t, b.Free(), gpu.ErrFreed)
	b, err = p.Alloc(ctx, 8192) // the same class
	require.NoError(t, err)
	require.Equal(t, address, b.Mem().Addr(), "it was kept")
	require.NoError(t, b.Free())
	empty, err := p.Alloc(ctx, 0)
	require.NoError(t, err)
	require.Zero(t, empty.Len())
	require.NoError(t, empty.Free())
	_, err = p.Alloc(ctx, -1)
	require.ErrorContains(t, err, "-1 bytes")
	_, err = p.Alloc(ctx, 65537)
	require.ErrorContains(t, err, "rounded up to 131072 it exceeds the pool's limit of 100000")
	require.NoError(t, p.Close())
	require.ErrorIs(t, p.Close(), gpu.ErrFreed)
	_, err = p.Alloc(ctx, 1)
	require.ErrorIs(t, err, gpu.ErrFreed)
}

// TestPinnedPoolLimit shows that the pool frees what is idle before it waits, waits
// only as long as the context, and goes on when something is freed.
func TestPinnedPoolLimit(t *testing.T) {
	ctx, d := patient(t), open(t)
	p, err := d.NewPinnedPool(64 << 10)
	require.NoError(t, err)
	var small []*gpu.Buffer
	for range 16 {
		b, err := p.Alloc(ctx, 4096)
		require.NoError(t, err)
		small = append(small, b)
	}
	short, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
	defer cancel()
	_, err = p.Alloc(short, 1)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "limit of 65536 bytes")
	time.AfterFunc(5*time.Millisecond, func() { require.NoError(t, small[0].Free()) })
	b, err := p.Alloc(ctx, 4000)
	require.NoError(t, err)
	require.NoError(t, b.Free())
	for _, b := range small[1:] {
		require.NoError(t, b.Free())
	}
	large, err := p.Alloc(ctx, 64<<10) // takes the place of the idle ones
	require.NoError(t, err)
	require.NoError(t, large.Free())
	require.NoError(t, p.Close())
}

func TestPinnedPoolFromManyGoroutines(t *testing.T) {
	ctx, d := patient(t), open(t)
	p, err := d.NewPinnedPool(1 << 20)
	require.NoError(t, err)
	var all sync.WaitGroup
	for g := range 32 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for range 200 {
				b, err := p.Alloc(ctx, r.IntN(1<<17))
				if err != nil {
					t.Error(err)
					return
				}
				bytes := b.Mem().Bytes()
				for i := 0; i < len(bytes); i += 4096 {
					bytes[i] = byte(g)
				}
				for i := 0; i < len(bytes); i += 4096 {
					if bytes[i] != byte(g) {
						t.Error("two have the same memory")
						return
					}
				}
				if err := b.Free(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if n, simulated := cudasim.Stats()["pinned"]; simulated {
		require.LessOrEqual(t, n*4096, 1<<20)
	}
	require.NoError(t, p.Close())
}

// TestPinnedPoolFails shows that a failure of the driver costs nothing.
func TestPinnedPoolFails(t *testing.T) {
	cudasim.Needed(t)
	ctx, d := patient(t), open(t)
	p, err := d.NewPinnedPool(16 << 10)
	require.NoError(t, err)
	cudasim.Fail(t, "cuMemHostAlloc:1:2")
	_, err = p.Alloc(ctx, 16<<10)
	require.ErrorIs(t, err, gpu.ErrOutOfMemory)
	b, err := p.Alloc(ctx, 16<<10)
	require.NoError(t, err, "the whole limit is still there")
	require.NoError(t, b.Free())
	cudasim.Fail(t, "cuMemFreeHost:1")
	_, err = p.Alloc(ctx, 4096) // has to free the idle ones
	require.ErrorContains(t, err, "cuMemFreeHost")
	a, err := p.Alloc(ctx, 4096)
	require.NoError(t, err)
	b, err = p.Alloc(ctx, 4096)
	require.NoError(t, err)
	require.NoError(t, errors.Join(a.Free(), b.Free()))
	cudasim.Fail(t, "cuMemFreeHost:1")
	require.ErrorContains(t, p.Close(), "cuMemFreeHost")
	require.Zero(t, cudasim.Stats()["pinned"])
}
