package gpu_test

import (
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/mpi4go/mpi4go/gpu"
	"github.com/mpi4go/mpi4go/internal/cudasim"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/stretchr/testify/require"
)

func TestAlloc(t *testing.T) {
	unchanged(t, "violations")
	d := open(t)
	for _, test := range []struct {
		kind  mem.Kind
		alloc func(int) (*gpu.Buffer, error)
	}{{mem.Device, d.Alloc}, {mem.Managed, d.AllocManaged}} {
		for _, n := range []int{0, 1, 4095, 4096, 1 << 20} {
			b, err := test.alloc(n)
			require.NoError(t, err)
			require.Equal(t, n, b.Len())
			require.Equal(t, test.kind, b.Kind())
			require.Zero(t, b.Device())
			m := b.Mem()
			require.Equal(t, n, m.Len())
			require.Equal(t, test.kind, m.Kind())
			require.Equal(t, n > 0, m.Addr() != 0)
			require.NoError(t, b.Free())
			require.ErrorIs(t, b.Free(), gpu.ErrFreed)
			_, err = b.Slice(0, 0)
			require.ErrorIs(t, err, gpu.ErrFreed)
			require.PanicsWithValue(t, "gpu.Buffer.Mem: the buffer was freed", func() { b.Mem() })
		}
		_, err := test.alloc(-1)
		require.ErrorContains(t, err, "-1 bytes")
	}
}

func TestAllocTooMuch(t *testing.T) {
	cudasim.Configure(t, "CUDASIM_MEMORY", "1000000")
	d := open(t)
	b := alloc(t, d, 600000)
	free, total, err := d.MemGetInfo()
	require.NoError(t, err)
	require.Equal(t, [2]int{400000, 1000000}, [2]int{free, total})
	for _, f := range []func(int) (*gpu.Buffer, error){d.Alloc, d.AllocManaged} {
		_, err := f(500000)
		require.ErrorIs(t, err, gpu.ErrOutOfMemory)
		require.ErrorContains(t, err, "500000 bytes")
		var failed *gpu.Error
		require.ErrorAs(t, err, &failed)
		require.Contains(t, failed.Call, "cuMemAlloc")
		require.ErrorContains(t, err, "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory")
	}
	require.NoError(t, b.Free())
	alloc(t, d, 500000)
}

func TestSlice(t *testing.T) {
	ctx, d := patient(t), open(t)
	s, b := stream(t, d), alloc(t, d, 100)
	data := random(100)
	require.NoError(t, gpu.Memcpy(ctx, s, b, data))
	part, err := b.Slice(10, 60)
	require.NoError(t, err)
	part, err = part.Slice(5, 25)
	require.NoError(t, err)
	require.Equal(t, b.Mem().Addr()+15, part.Mem().Addr())
	got := make([]byte, 20)
	require.NoError(t, gpu.Memcpy(ctx, s, got, part))
	require.Equal(t, data[15:35], got)
	require.ErrorContains(t, part.Free(), "free the whole")
	for _, bad := range [][2]int{{-1, 0}, {2, 1}, {0, 21}, {21, 21}} {
		_, err := part.Slice(bad[0], bad[1])
		require.ErrorContains(t, err, "of a buffer of 20 bytes")
	}
	require.NoError(t, b.Free())
	require.ErrorIs(t, gpu.Memcpy(ctx, s, got, part), gpu.ErrFreed)
	require.ErrorIs(t, s.MemsetD8Async(part, 1), gpu.ErrFreed)
}

// TestDeviceMemoryIsNotTheHosts shows what the simulated driver is strict about.
func TestDeviceMemoryIsNotTheHosts(t *testing.T) {
	cudasim.Needed(t)
	d := open(t)
	b := alloc(t, d, 100)
	require.Panics(t, func() { b.Mem().Bytes() })
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	pretended := mem.FromPointer(b.Mem().Addr(), 100, mem.Pinned, nil).Bytes()
	require.Panics(t, func() { require.Zero(t, pretended[50]) })
	require.Panics(t, func() { pretended[50] = 1 })
}

func TestManagedIsTheHosts(t *testing.T) {
	ctx, d := patient(t), open(t)
	s := stream(t, d)
	b, err := d.AllocManaged(1000)
	freed(t, b, err)
	require.NoError(t, s.MemsetD8Async(b, 7))
	require.NoError(t, s.Synchronize(ctx))
	bytes := b.Mem().Bytes()
	require.Equal(t, byte(7), bytes[999])
	bytes[999] = 8
	got := make([]byte, 1000)
	require.NoError(t, gpu.Memcpy(ctx, s, got, b))
	require.Equal(t, bytes, got)
}

func TestInspect(t *testing.T) {
	d := open(t)
	device := alloc(t, d, 1000)
	managed, err := d.AllocManaged(1000)
	freed(t, managed, err)
	pool, err := d.NewPinnedPool(1 << 20)
	require.NoError(t, err)
	defer pool.Close()
	pinned, err := pool.Alloc(patient(t), 5000)
	require.NoError(t, err)
	defer pinned.Free()
	for _, b := range []*gpu.Buffer{device, managed, pinned} {
		p, err := gpu.Inspect(b.Mem().Addr() + 10)
		require.NoError(t, err)
		require.Equal(t, b.Kind(), p.Kind)
		require.Zero(t, p.Device)
		require.Equal(t, b.Mem().Addr(), p.Start)
		require.GreaterOrEqual(t, p.Size, b.Len())
		require.False(t, p.Pool)
	}
	host := make([]byte, 10)
	p, err := gpu.Inspect(uintptr(unsafe.Pointer(&host[0])))
	require.NoError(t, err)
	require.Equal(t, gpu.Pointer{Kind: mem.Host, Device: -1}, p)
}

func TestFromPointer(t *testing.T) {
	ctx, d := patient(t), open(t)
	s, b := stream(t, d), alloc(t, d, 1000)
	data := random(1000)
	require.NoError(t, gpu.Memcpy(ctx, s, b, data))
	address := b.Mem().Addr()
	view, err := gpu.FromPointer(address+100, 200, nil)
	require.NoError(t, err)
	require.Equal(t, mem.Device, view.Kind())
	got := make([]byte, 200)
	require.NoError(t, gpu.Memcpy(ctx, s, got, view))
	require.Equal(t, data[100:300], got)
	require.NoError(t, view.Free())
	require.ErrorIs(t, view.Free(), gpu.ErrFreed)
	require.ErrorIs(t, gpu.Memcpy(ctx, s, got, view), gpu.ErrFreed)

	_, err = gpu.FromPointer(address, -1, nil)
	require.ErrorContains(t, err, "-1 bytes")
	_, err = gpu.FromPointer(address+900, 101, nil)
	require.ErrorContains(t, err, "ends 100 bytes from there")
	_, err = gpu.FromPointer(uintptr(unsafe.Pointer(&data[0])), 10, nil)
	require.ErrorContains(t, err, "does not know")
	empty, err := gpu.FromPointer(0, 0, nil)
	require.NoError(t, err)
	require.NoError(t, gpu.Memcpy(ctx, s, []byte{}, empty))
	require.NoError(t, s.MemsetD8Async(empty, 0))
	require.NoError(t, empty.Free())

	// As a mem.Buffer of another library, and after its end.
	foreign := mem.FromPointer(address, 1000, mem.Device, nil)
	all := make([]byte, 1000)
	require.NoError(t, gpu.Memcpy(ctx, s, all, foreign))
	require.Equal(t, data, all)
	require.NoError(t, b.Free())
	require.ErrorContains(t, gpu.Memcpy(ctx, s, all, foreign), "no longer")
}

// TestFromPointerKeepsItsOwner shows that the owner lives as long as a buffer, and as
// long as work that was queued, and no longer.
func TestFromPointerKeepsItsOwner(t *testing.T) {
	cudasim.Needed(t)
	ctx, d := patient(t), open(t)
	s, memory, to := stream(t, d), alloc(t, d, 1000), alloc(t, d, 1000)
	type owner struct{ _ [64]byte }
	collected := make(chan struct{})
	make := func() *gpu.Buffer {
		o := new(owner)
		runtime.SetFinalizer(o, func(*owner) { close(collected) })
		b, err := gpu.FromPointer(memory.Mem().Addr(), 1000, o)
		require.NoError(t, err)
		return b
	}
	stays := func() {
		for range 3 {
			runtime.GC()
			time.Sleep(time.Millisecond)
		}
		select {
		case <-collected:
			t.Fatal("the owner was collected")
		default:
		}
	}
	b := make()
	stays()
	delay(t, 200000)
	require.NoError(t, s.MemcpyAsync(to, b))
	b = nil
	stays()
	require.NoError(t, s.Synchronize(ctx))
	require.Eventually(t, func() bool {
		runtime.GC()
		select {
		case <-collected:
			return true
		default:
			return false
		}
	}, 10*time.Second, time.Millisecond)
	runtime.KeepAlive(b)
}

// TestFreeWaits shows that Free waits for what is queued, suspended.
func TestFreeWaits(t *testing.T) {
	cudasim.Needed(t)
	unchanged(t, "blocked")
	d := open(t)
	s := stream(t, d)
	a, b := alloc(t, d, 1000), alloc(t, d, 1000)
	delay(t, 50000)
	require.NoError(t, s.MemcpyAsync(a, b))
	require.NoError(t, b.Free())
	done, err := s.Query()
	require.NoError(t, err)
	require.True(t, done)
}

func TestManyCycles(t *testing.T) {
	d := open(t)
	before := cudasim.Stats()["bytes"]
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 25000 {
				b, err := d.Alloc(1 + i%5000)
				if err == nil {
					err = b.Free()
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	require.Equal(t, before, cudasim.Stats()["bytes"])
}

// TestFreeAtOnce shows that one of many frees, and use beside it is an error at worst.
func TestFreeAtOnce(t *testing.T) {
	unchanged(t, "violations")
	d := open(t)
	s := stream(t, d)
	other := alloc(t, d, 100)
	for range 100 {
		b, err := d.Alloc(100)
		require.NoError(t, err)
		var all sync.WaitGroup
		results := make(chan error, 8)
		for range 8 {
			all.Go(func() {
				if err := s.MemcpyAsync(other, b); err != nil {
					require.ErrorIs(t, err, gpu.ErrFreed)
				}
				results <- b.Free()
			})
		}
		all.Wait()
		close(results)
		freed := 0
		for err := range results {
			if err == nil {
				freed++
			} else {
				require.ErrorIs(t, err, gpu.ErrFreed)
			}
		}
		require.Equal(t, 1, freed)
	}
}
