package gpu_test

import (
	"testing"
	"unsafe"

	"github.com/mpi4go/mpi4go/gpu"
	"github.com/mpi4go/mpi4go/internal/cuda"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/stretchr/testify/require"
)

// managedTensor is DLManagedTensor, as DLPack's own header has it.
type managedTensor struct {
	data       uintptr
	deviceType int32
	deviceID   int32
	ndim       int32
	code, bits uint8
	lanes      uint16
	shape      uintptr
	strides    uintptr
	byteOffset uint64
	context    uintptr
	deleter    uintptr
}

func TestToDLPack(t *testing.T) {
	d := open(t)
	b := alloc(t, d, 100)
	part, err := b.Slice(10, 60)
	require.NoError(t, err)
	tensor, err := part.ToDLPack()
	require.NoError(t, err)
	got := **(**managedTensor)(unsafe.Pointer(&tensor))
	require.NotZero(t, got.deleter)
	shape := **(**int64)(unsafe.Pointer(&got.shape))
	strides := **(**int64)(unsafe.Pointer(&got.strides))
	require.Equal(t, [2]int64{50, 1}, [2]int64{shape, strides})
	require.Equal(t, managedTensor{
		data: b.Mem().Addr() + 10, deviceType: 2, deviceID: 0, ndim: 1, code: 1, bits: 8, lanes: 1,
		shape: got.shape, strides: got.strides, context: got.context, deleter: got.deleter,
	}, got)
	require.ErrorContains(t, b.Free(), "1 DLPack tensors still refer to it")
	cuda.DeleteTensor(tensor)
	require.NoError(t, b.Free())
	_, err = part.ToDLPack()
	require.ErrorIs(t, err, gpu.ErrFreed)
}

func TestDLPackThereAndBack(t *testing.T) {
	ctx, d := patient(t), open(t)
	s := stream(t, d)
	pool, err := d.NewPinnedPool(1 << 20)
	require.NoError(t, err)
	defer pool.Close()
	device, err := d.Alloc(1000)
	freed(t, device, err)
	managed, err := d.AllocManaged(1000)
	freed(t, managed, err)
	pinned, err := pool.Alloc(ctx, 1000)
	require.NoError(t, err)
	defer pinned.Free()
	for _, b := range []*gpu.Buffer{device, managed, pinned} {
		data, got := random(1000), make([]byte, 1000)
		require.NoError(t, gpu.Memcpy(ctx, s, b, data))
		tensor, err := b.ToDLPack()
		require.NoError(t, err)
		again, err := gpu.FromDLPack(tensor)
		require.NoError(t, err)
		require.Equal(t, b.Kind(), again.Kind())
		require.Equal(t, b.Mem().Addr(), again.Mem().Addr())
		require.NoError(t, gpu.Memcpy(ctx, s, got, again))
		require.Equal(t, data, got)
		require.Error(t, b.Free())
		require.NoError(t, again.Free(), "which calls the deleter")
		require.ErrorIs(t, again.Free(), gpu.ErrFreed)
	}
}

// TestFromDLPack takes tensors that other libraries could have made.
func TestFromDLPack(t *testing.T) {
	d := open(t)
	b := alloc(t, d, 1000)
	block, err := mem.Alloc(4096)
	require.NoError(t, err)
	defer block.Free()
	address := block.Buffer().Addr()
	shape, strides := address+1024, address+2048
	put := func(at uintptr, v int64) { **(**int64)(unsafe.Pointer(&at)) = v }
	put(shape, 10)
	put(strides, 1)
	right := managedTensor{
		data: b.Mem().Addr(), deviceType: 2, ndim: 1, code: 2, bits: 32, lanes: 1, shape: shape, strides: strides, byteOffset: 8,
	}
	take := func(change func(*managedTensor)) (*gpu.Buffer, error) {
		m := right
		change(&m)
		**(**managedTensor)(unsafe.Pointer(&address)) = m
		return gpu.FromDLPack(address)
	}
	for _, fine := range []func(*managedTensor){func(*managedTensor) {}, func(m *managedTensor) { m.strides = 0 }} {
		got, err := take(fine)
		require.NoError(t, err)
		require.Equal(t, 40, got.Len())
		require.Equal(t, b.Mem().Addr()+8, got.Mem().Addr())
		require.NoError(t, got.Free(), "without a deleter too")
	}
	for want, wrong := range map[string]func(*managedTensor){
		"has 2 dimensions":      func(m *managedTensor) { m.ndim = 2 },
		"12 bits":               func(m *managedTensor) { m.bits = 12 },
		"device type 1":         func(m *managedTensor) { m.deviceType = 1 },
		"the driver device":     func(m *managedTensor) { m.deviceType = 3 },
		"does not know address": func(m *managedTensor) { m.data = address },
		"ends 36 bytes from":    func(m *managedTensor) { m.byteOffset = 964 },
		"are 2 apart":           func(*managedTensor) { put(strides, 2) },
	} {
		_, err := take(wrong)
		require.ErrorContains(t, err, want)
		put(strides, 1)
	}
	put(shape, -1)
	_, err = take(func(*managedTensor) {})
	require.ErrorContains(t, err, "-1 elements")
	_, err = gpu.FromDLPack(0)
	require.ErrorContains(t, err, "is 0")
}
