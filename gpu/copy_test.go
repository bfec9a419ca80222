package gpu_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/gpu"
	"github.com/mpi4go/mpi4go/internal/cudasim"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/stretchr/testify/require"
)

var copySizes = []int{0, 1, 4095, 4096, 4097, 128<<10 - 1, 128 << 10, 128<<10 + 1, 3<<20 + 5, 40 << 20}

// TestMemcpy copies between every two kinds of memory. The driver never blocks.
func TestMemcpy(t *testing.T) {
	unchanged(t, "blocked")
	unchanged(t, "pageable")
	ctx, d := patient(t), open(t)
	s := stream(t, d)
	pool, err := d.NewPinnedPool(256 << 20)
	require.NoError(t, err)
	defer pool.Close()
	kinds := map[string]func(int) (*gpu.Buffer, error){
		"device": d.Alloc, "managed": d.AllocManaged,
		"pinned": func(n int) (*gpu.Buffer, error) { return pool.Alloc(ctx, n) },
	}
	for _, n := range copySizes {
		data := random(n)
		for from, allocFrom := range kinds {
			a, err := allocFrom(n)
			require.NoError(t, err)
			require.NoError(t, gpu.Memcpy(ctx, s, a, data))
			got := make([]byte, n)
			require.NoError(t, gpu.Memcpy(ctx, s, mem.Of(got), a.Mem()))
			require.Equal(t, data, got, from)
			for to, allocTo := range kinds {
				b, err := allocTo(n)
				require.NoError(t, err)
				require.NoError(t, gpu.Memcpy(ctx, s, b, a))
				clear(got)
				require.NoError(t, gpu.Memcpy(ctx, s, got, b))
				require.Equal(t, data, got, "%s to %s", from, to)
				require.NoError(t, b.Free())
			}
			require.NoError(t, a.Free())
		}
		got := make([]byte, n)
		require.NoError(t, gpu.Memcpy(ctx, s, got, data))
		require.Equal(t, data, got)
	}
}

func TestMemcpyOfNumbers(t *testing.T) {
	ctx, d := patient(t), open(t)
	s, b := stream(t, d), alloc(t, d, 24)
	type celsius []float64
	in, out := celsius{1, 2, 3}, make([]int64, 3)
	require.NoError(t, gpu.Memcpy(ctx, s, b, in))
	require.NoError(t, gpu.Memcpy(ctx, s, out, b))
	require.Equal(t, []int64{0x3FF0000000000000, 0x4000000000000000, 0x4008000000000000}, out)
	require.NoError(t, gpu.Memcpy(ctx, s, b, []uint32{1, 2, 3, 4, 5, 6}))
	words := make([]uint16, 12)
	require.NoError(t, gpu.Memcpy(ctx, s, words, b))
	require.Equal(t, []uint16{1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0}, words)
}

func TestMemcpyBetweenDevices(t *testing.T) {
	ctx, d, other := patient(t), open(t), second(t)
	a, b := alloc(t, d, 1<<20), alloc(t, other, 1<<20)
	data, got := random(1<<20), make([]byte, 1<<20)
	for _, s := range []*gpu.Stream{stream(t, d), stream(t, other)} {
		require.NoError(t, gpu.Memcpy(ctx, s, a, data))
		require.NoError(t, gpu.Memcpy(ctx, s, b, a))
		require.NoError(t, gpu.Memcpy(ctx, s, got, b))
		require.Equal(t, data, got)
		clear(got)
	}
	require.Equal(t, 1, b.Device())
}

func TestMemcpyMistakes(t *testing.T) {
	unchanged(t, "violations")
	ctx, d := patient(t), open(t)
	s, b := stream(t, d), alloc(t, d, 100)
	require.ErrorContains(t, gpu.Memcpy(ctx, s, b, make([]byte, 99)), "want equal lengths")
	require.ErrorContains(t, gpu.Memcpy(ctx, s, make([]byte, 101), b), "want equal lengths")
	require.ErrorContains(t, s.MemcpyAsync(b, alloc(t, d, 99)), "want equal lengths")
	first, err := b.Slice(0, 60)
	require.NoError(t, err)
	last, err := b.Slice(40, 100)
	require.NoError(t, err)
	require.ErrorContains(t, s.MemcpyAsync(first, last), "overlap")
	require.ErrorContains(t, s.MemcpyAsync(b, b), "overlap")
	odd, err := b.Slice(1, 9)
	require.NoError(t, err)
	require.ErrorContains(t, s.MemsetD32Async(odd, 1), "multiples of 4")
	short, err := b.Slice(0, 6)
	require.NoError(t, err)
	require.ErrorContains(t, s.MemsetD32Async(short, 1), "multiples of 4")
	require.NoError(t, s.Destroy())
	for _, err := range []error{
		gpu.Memcpy(ctx, s, b, make([]byte, 100)), s.MemcpyAsync(b, alloc(t, d, 100)), s.MemsetD8Async(b, 1),
		s.MemsetD32Async(b, 1), s.Synchronize(ctx), s.Destroy(),
	} {
		require.ErrorIs(t, err, gpu.ErrFreed)
	}
	_, err = s.Query()
	require.ErrorIs(t, err, gpu.ErrFreed)
}

func TestMemset(t *testing.T) {
	ctx, d := patient(t), open(t)
	s, b := stream(t, d), alloc(t, d, 40)
	require.NoError(t, s.MemsetD8Async(b, 0x11))
	middle, err := b.Slice(8, 16)
	require.NoError(t, err)
	require.NoError(t, s.MemsetD32Async(middle, 0x04030201))
	got := make([]byte, 40)
	require.NoError(t, gpu.Memcpy(ctx, s, got, b))
	require.Equal(t, append([]byte{0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 1, 2, 3, 4, 1, 2, 3, 4}, random(0)...), got[:16])
	require.Equal(t, byte(0x11), got[39])
}

// TestMemcpySuspends shows that waiting holds no thread: many wait at once.
func TestMemcpySuspends(t *testing.T) {
	cudasim.Needed(t)
	unchanged(t, "blocked")
	ctx, d := patient(t), open(t)
	delay(t, 20000)
	threads := func() int {
		text, err := os.ReadFile("/proc/self/status")
		require.NoError(t, err)
		_, rest, _ := strings.Cut(string(text), "Threads:")
		n := 0
		_, err = fmt.Sscan(rest, &n)
		require.NoError(t, err)
		return n
	}
	s := stream(t, d)
	b := alloc(t, d, 8)
	before := threads()
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			if err := gpu.Memcpy(ctx, s, make([]byte, 8), b); err != nil {
				t.Error(err)
			}
		})
	}
	time.Sleep(10 * time.Millisecond)
	require.Less(t, threads(), before+20)
	all.Wait()
}

// TestMemcpyWithoutPatience shows that a context ends the wait at once, and that what
// is under way is neither lost nor a danger.
func TestMemcpyWithoutPatience(t *testing.T) {
	cudasim.Needed(t)
	unchanged(t, "blocked")
	unchanged(t, "violations")
	d := open(t)
	s, b, other := stream(t, d), alloc(t, d, 1<<20), alloc(t, d, 1<<20)
	delay(t, 500_000)
	host := make([]byte, 1<<20)
	cause := errors.New("enough")
	for _, f := range []func(context.Context) error{
		func(ctx context.Context) error { return gpu.Memcpy(ctx, s, b, host) },
		func(ctx context.Context) error { return gpu.Memcpy(ctx, s, host, b) },
		func(ctx context.Context) error { return gpu.Memcpy(ctx, s, other, b) },
		s.Synchronize,
	} {
		ctx, cancel := context.WithTimeoutCause(context.Background(), 5*time.Millisecond, cause)
		began := time.Now()
		require.ErrorIs(t, f(ctx), cause)
		require.Less(t, time.Since(began), 400*time.Millisecond)
		cancel()
		runtime.GC()
	}
}

// TestStagingIsShared shows that more copies than the staging memory holds make
// progress.
func TestStagingIsShared(t *testing.T) {
	ctx, d := patient(t), open(t)
	var all sync.WaitGroup
	for range 24 {
		all.Go(func() {
			s, err := d.NewStream()
			if err != nil {
				t.Error(err)
				return
			}
			b, err := d.Alloc(9 << 20)
			if err != nil {
				t.Error(err)
				return
			}
			data, got := random(9<<20), make([]byte, 9<<20)
			err = errors.Join(gpu.Memcpy(ctx, s, b, data), gpu.Memcpy(ctx, s, got, b), b.Free(), s.Destroy())
			if err != nil || string(data) != string(got) {
				t.Error("wrong data", err)
			}
		})
	}
	all.Wait()
	if _, ok := os.LookupEnv("CUDASIM_STATS"); ok {
		require.LessOrEqual(t, cudasim.Stats()["pinned"]*(128<<10), 32<<20)
	}
}
