package mem_test

import (
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/mpi4go/mpi4go/mem"
	"github.com/stretchr/testify/require"
)

type (
	celsius float32
	row     []float32
	ids     []uint16
)

// checkOf compares a slice's buffer with the slice.
func checkOf[S ~[]E, E mem.Element](t *testing.T, s S, buf mem.Buffer) {
	t.Helper()
	require.Equal(t, len(s)*int(unsafe.Sizeof(*new(E))), buf.Len())
	require.Equal(t, mem.Host, buf.Kind())
	if len(s) == 0 {
		require.Nil(t, buf.Bytes())
		return
	}
	require.Equal(t, uintptr(unsafe.Pointer(&s[0])), buf.Addr())
	require.Len(t, buf.Bytes(), buf.Len())
	require.Same(t, (*byte)(unsafe.Pointer(&s[0])), &buf.Bytes()[0])
}

func checkElement[E mem.Element](t *testing.T) {
	t.Helper()
	type named []E
	for _, n := range []int{0, 1, 5} {
		s := make([]E, n, n+3)
		checkOf(t, s, mem.OfSlice(s))
		checkOf(t, s, mem.OfSlice(named(s)))
	}
}

func TestOfEveryElement(t *testing.T) {
	checkElement[int8](t)
	checkElement[int16](t)
	checkElement[int32](t)
	checkElement[int64](t)
	checkElement[int](t)
	checkElement[uint8](t)
	checkElement[uint16](t)
	checkElement[uint32](t)
	checkElement[uint64](t)
	checkElement[uint](t)
	checkElement[float32](t)
	checkElement[float64](t)
	checkElement[complex64](t)
	checkElement[complex128](t)
	checkElement[celsius](t)
}

func TestOf(t *testing.T) {
	bytes, floats := []byte{1, 2, 3}, []float64{1, 2}
	checkOf(t, bytes, mem.Of(bytes))
	checkOf(t, floats, mem.Of(floats))
	singles, words, longs := []float32{1}, []int32{1, 2}, []int64{3}
	checkOf(t, singles, mem.Of(singles))
	checkOf(t, words, mem.Of(words))
	checkOf(t, longs, mem.Of(longs))
	shorts, complexes := []uint16{1, 2, 3}, []complex128{1i}
	checkOf(t, shorts, mem.Of(shorts))
	checkOf(t, complexes, mem.Of(complexes))
	checkOf(t, []int(nil), mem.Of([]int(nil)))
	checkOf(t, []byte(nil), mem.Of([]byte(nil)))
}

func TestOfNamedTypes(t *testing.T) {
	temperatures, numbers := row{1, 2, 3}, ids{4, 5}
	checkOf(t, temperatures, mem.Of(temperatures))
	checkOf(t, numbers, mem.Of(numbers))
	type raw []byte
	bytes := raw{1, 2}
	checkOf(t, bytes, mem.Of(bytes))
	require.Equal(t, []byte{1, 2}, mem.Of(bytes).Bytes())
}

// TestOfPartOfASlice shows that neither what comes before nor the rest of the
// capacity belongs to the buffer.
func TestOfPartOfASlice(t *testing.T) {
	all := []int16{1, 2, 3, 4, 5}
	checkOf(t, all[1:3], mem.Of(all[1:3]))
	require.Equal(t, uintptr(unsafe.Pointer(&all[1])), mem.Of(all[1:3]).Addr())
	require.Equal(t, 4, mem.Of(all[1:3]).Len())
}

func TestOfABufferIsItself(t *testing.T) {
	buf := mem.Of([]byte{1, 2})
	require.Equal(t, buf, mem.Of(buf))
}

func TestZeroBuffer(t *testing.T) {
	var buf mem.Buffer
	require.Zero(t, buf.Len())
	require.Zero(t, buf.Addr())
	require.Equal(t, mem.Host, buf.Kind())
	require.Nil(t, buf.Bytes())
	require.Zero(t, buf.Slice(0, 0).Len())
}

func TestSlice(t *testing.T) {
	data := []byte{0, 1, 2, 3, 4}
	buf := mem.Of(data)
	require.Equal(t, []byte{1, 2}, buf.Slice(1, 3).Bytes())
	require.Equal(t, []byte{3}, buf.Slice(1, 4).Slice(2, 3).Bytes())
	require.Equal(t, data, buf.Slice(0, 5).Bytes())
	require.Equal(t, buf.Addr()+1, buf.Slice(1, 3).Addr())
	for i := range 6 {
		empty := buf.Slice(i, i)
		require.Zero(t, empty.Len())
		require.Nil(t, empty.Bytes())
	}
	// The address past the end is that of other memory, which must not be pinned.
	require.Less(t, buf.Slice(5, 5).Addr(), buf.Addr()+5)
	for _, bad := range [][2]int{{-1, 0}, {2, 1}, {0, 6}, {6, 6}} {
		require.PanicsWithValue(t, sliceMessage(bad), func() { buf.Slice(bad[0], bad[1]) })
	}
}

func sliceMessage(bad [2]int) string {
	return map[[2]int]string{
		{-1, 0}: "mem.Buffer.Slice: [-1:0] of a buffer of 5 bytes",
		{2, 1}:  "mem.Buffer.Slice: [2:1] of a buffer of 5 bytes",
		{0, 6}:  "mem.Buffer.Slice: [0:6] of a buffer of 5 bytes",
		{6, 6}:  "mem.Buffer.Slice: [6:6] of a buffer of 5 bytes",
	}[bad]
}

func TestFromPointer(t *testing.T) {
	block, err := mem.Alloc(64)
	require.NoError(t, err)
	defer block.Free()
	copy(block.Bytes(), "0123456789")
	address := block.Buffer().Addr()
	for _, kind := range []mem.Kind{mem.Host, mem.Managed, mem.Pinned} {
		buf := mem.FromPointer(address+1, 4, kind, block)
		require.Equal(t, address+1, buf.Addr())
		require.Equal(t, kind, buf.Kind())
		require.Equal(t, "1234", string(buf.Bytes()))
		require.Equal(t, "34", string(buf.Slice(2, 4).Bytes()))
		require.Equal(t, address+3, buf.Slice(2, 4).Addr())
	}
}

func TestFromPointerOfDevice(t *testing.T) {
	buf := mem.FromPointer(0x7f0000000000, 100, mem.Device, nil)
	require.Equal(t, uintptr(0x7f0000000000), buf.Addr())
	require.Equal(t, 100, buf.Len())
	require.Equal(t, mem.Device, buf.Kind())
	part := buf.Slice(10, 20)
	require.Equal(t, uintptr(0x7f000000000a), part.Addr())
	require.Equal(t, 10, part.Len())
	require.Equal(t, mem.Device, part.Kind())
	require.PanicsWithValue(t, "mem.Buffer.Bytes: device memory cannot be read by the CPU: copy it to the host first", func() { buf.Bytes() })
	require.Panics(t, func() { buf.Slice(0, 0).Bytes() }, "an empty one too, so that the mistake shows at once")
}

func TestFromPointerOfNothing(t *testing.T) {
	for _, owner := range []any{nil, "an owner", new(int)} {
		buf := mem.FromPointer(0, 0, mem.Device, owner)
		require.Zero(t, buf.Len())
		require.Zero(t, buf.Addr())
	}
}

func TestFromPointerPanics(t *testing.T) {
	for _, f := range []func(){
		func() { mem.FromPointer(0, 1, mem.Host, nil) },
		func() { mem.FromPointer(0, 1, mem.Device, nil) },
		func() { mem.FromPointer(4096, -1, mem.Host, nil) },
		func() { mem.FromPointer(0, -1, mem.Device, nil) },
	} {
		require.Panics(t, f)
	}
}

// TestFromPointerKeepsItsOwner shows that the owner lives as long as a buffer
// that was made with it, and not longer.
func TestFromPointerKeepsItsOwner(t *testing.T) {
	type owner [64]byte
	collected := make(chan struct{})
	buf := func() mem.Buffer {
		o := new(owner)
		runtime.SetFinalizer(o, func(*owner) { close(collected) })
		return mem.FromPointer(4096, 8, mem.Device, o).Slice(1, 2)
	}()
	for range 3 {
		runtime.GC()
	}
	select {
	case <-collected:
		t.Fatal("the owner was collected while a buffer refers to it")
	case <-time.After(10 * time.Millisecond):
	}
	runtime.KeepAlive(buf)
	buf = mem.Buffer{}
	require.Eventually(t, func() bool {
		runtime.GC()
		select {
		case <-collected:
			return true
		default:
			return false
		}
	}, 10*time.Second, time.Millisecond)
	runtime.KeepAlive(buf)
}

// TestOfKeepsTheSlice shows that a buffer alone keeps a slice allocated.
func TestOfKeepsTheSlice(t *testing.T) {
	buf := func() mem.Buffer {
		data := make([]byte, 1000)
		for i := range data {
			data[i] = byte(i)
		}
		return mem.Of(data).Slice(10, 1000)
	}()
	for range 3 {
		runtime.GC()
		_ = make([]byte, 1000) // takes the place if it is free
	}
	for i, b := range buf.Bytes() {
		require.Equal(t, byte(i+10), b)
	}
}

func TestKindString(t *testing.T) {
	for kind, want := range map[mem.Kind]string{
		mem.Host: "host", mem.Device: "device", mem.Managed: "managed", mem.Pinned: "pinned", 9: "kind 9",
	} {
		require.Equal(t, want, kind.String())
	}
}

// pins counts what a buffer pins.
type pins []any

func (p *pins) Pin(pointer any) { *p = append(*p, pointer) }

func TestPin(t *testing.T) {
	block, err := mem.Alloc(8)
	require.NoError(t, err)
	defer block.Free()
	data := []byte{1, 2, 3}
	for name, test := range map[string]struct {
		buf  mem.Buffer
		want int
	}{
		"slice":         {mem.Of(data), 1},
		"part":          {mem.Of(data).Slice(1, 2), 1},
		"nil":           {mem.Of([]byte(nil)), 0},
		"zero":          {mem.Buffer{}, 0},
		"outside":       {block.Buffer(), 0},
		"device":        {mem.FromPointer(4096, 1, mem.Device, nil), 0},
		"device, owned": {mem.FromPointer(4096, 1, mem.Device, block), 0},
		"no owner":      {mem.FromPointer(block.Buffer().Addr(), 1, mem.Host, nil), 0},
	} {
		var p pins
		test.buf.Pin(&p)
		require.Len(t, p, test.want, name)
	}
	var real runtime.Pinner
	mem.Of(data).Pin(&real)
	mem.Of([]byte{}).Pin(&real)
	real.Unpin()
}

func TestOfAllocatesNothing(t *testing.T) {
	bytes, floats, named := make([]byte, 10), make([]float64, 10), make(row, 10)
	var sink mem.Buffer
	for name, f := range map[string]func(){
		"bytes":  func() { sink = mem.Of(bytes) },
		"floats": func() { sink = mem.Of(floats) },
		"named":  func() { sink = mem.Of(named) },
		"buffer": func() { sink = mem.Of(sink) },
		"slice":  func() { sink = mem.OfSlice(named).Slice(0, 4) },
		"view":   func() { _ = mem.Of(bytes).Bytes() },
	} {
		require.Zero(t, testing.AllocsPerRun(100, f), name)
	}
}

func TestOrdered(t *testing.T) {
	block, err := mem.Alloc(64)
	require.NoError(t, err)
	buf := block.Buffer()
	require.Nil(t, buf.Order())
	require.True(t, buf.Plain())
	first, second := "first", "second"
	part := buf.Ordered(&first).Slice(8, 16)
	require.Same(t, &first, part.Order())
	require.False(t, part.Plain())
	require.Equal(t, buf.Addr()+8, part.Addr())
	require.Same(t, &second, part.Ordered(&second).Order())
	require.Same(t, &first, part.Order())
	part.Bytes()[0] = 7
	require.Equal(t, byte(7), block.Bytes()[8])
	require.Nil(t, buf.Slice(3, 3).Ordered(&first).Order())
	require.False(t, mem.FromPointer(4096, 1, mem.Device, nil).Plain())
	require.PanicsWithValue(t, "mem.Buffer.Ordered: Go memory is in no device's order", func() { mem.Of([]byte{1}).Ordered(&first) })
	require.NoError(t, block.Free())
}

// TestOrderedKeepsItsOwner shows that an order does not take the place of the owner.
func TestOrderedKeepsItsOwner(t *testing.T) {
	type owner [64]byte
	collected := make(chan struct{})
	buf := func() mem.Buffer {
		o := new(owner)
		runtime.SetFinalizer(o, func(*owner) { close(collected) })
		return mem.FromPointer(4096, 8, mem.Device, o).Ordered("a").Ordered("b")
	}()
	for range 3 {
		runtime.GC()
	}
	select {
	case <-collected:
		t.Fatal("the owner was collected while a buffer refers to it")
	case <-time.After(20 * time.Millisecond):
	}
	require.Equal(t, "b", buf.Order())
	runtime.KeepAlive(buf)
}
