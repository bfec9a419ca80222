package mem

import (
	"fmt"
	"reflect"
	"unsafe"
)

// Kind says what sort of memory a buffer lies in.
type Kind uint8

// The kinds of memory.
const (
	Host    Kind = iota // memory of the process: the Go heap, Alloc, C
	Device              // memory of a GPU, not readable by the CPU
	Managed             // memory that the GPU driver moves between both
	Pinned              // host memory that is page-locked for a GPU
)

// String is the name of the kind in lower case.
func (k Kind) String() string {
	if names := [...]string{"host", "device", "managed", "pinned"}; int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Element is a numeric type of fixed size, without pointers.
type Element interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~int |
		~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uint |
		~float32 | ~float64 | ~complex64 | ~complex128
}

// Data is what can be sent and received: a slice of numbers, or a Buffer. The
// bytes travel as they are in memory; both sides need the same byte order.
type Data interface {
	~[]int8 | ~[]int16 | ~[]int32 | ~[]int64 | ~[]int |
		~[]uint8 | ~[]uint16 | ~[]uint32 | ~[]uint64 | ~[]uint |
		~[]float32 | ~[]float64 | ~[]complex64 | ~[]complex128 |
		Buffer
}

// Buffer refers to contiguous memory. The zero Buffer has no bytes. Copying a
// Buffer copies the reference, and as long as one exists the memory stays
// allocated.
type Buffer struct {
	// The memory, or, where the garbage collector does not know it, what keeps
	// it alive. Then addr is its address.
	ptr     unsafe.Pointer
	addr    uintptr
	n       int
	kind    Kind
	ordered bool // ptr is an *order
}

// order is what Ordered adds.
type order struct {
	keep unsafe.Pointer // the buffer's own ptr
	by   any
}

// Of refers to the memory of a slice, from its first element to its length;
// a Buffer it returns as it is. Nothing is copied.
func Of[D Data](d D) Buffer {
	switch s := any(d).(type) {
	case []byte:
		return Buffer{ptr: unsafe.Pointer(unsafe.SliceData(s)), n: len(s)}
	case Buffer:
		return s
	case []float64:
		return OfSlice(s)
	case []float32:
		return OfSlice(s)
	case []int32:
		return OfSlice(s)
	case []int64:
		return OfSlice(s)
	}
	// The remaining types have slices for their underlying types.
	elem := reflect.TypeFor[D]().Elem().Size()
	header := (*[]byte)(unsafe.Pointer(&d))
	return Buffer{ptr: unsafe.Pointer(unsafe.SliceData(*header)), n: len(*header) * int(elem)}
}

// OfSlice is Of for code that is generic over the element type.
func OfSlice[T Element](s []T) Buffer {
	return Buffer{ptr: unsafe.Pointer(unsafe.SliceData(s)), n: len(s) * int(unsafe.Sizeof(*new(T)))}
}

// FromPointer refers to n bytes at an address that another library has
// allocated: device, managed or pinned memory, or host memory outside the Go
// heap. It must not be the address of Go memory, which may move (use [Of]).
// The owner is kept alive as long as the buffer is.
//
// It panics if n is negative, or if the address is 0 and n is not.
func FromPointer(address uintptr, n int, kind Kind, owner any) Buffer {
	if n < 0 || (address == 0 && n != 0) {
		panic(fmt.Sprintf("mem.FromPointer: %d bytes at address %#x: want an address and a length that is not negative", n, address))
	}
	if address == 0 {
		return Buffer{kind: kind}
	}
	// The second word of an interface is a pointer to its value, or is the value
	// if that is a pointer: either keeps the value alive.
	keep := (*[2]unsafe.Pointer)(unsafe.Pointer(&owner))[1]
	return Buffer{ptr: keep, addr: address, n: n, kind: kind}
}

// Len is the length in bytes.
func (b Buffer) Len() int { return b.n }

// Kind is the kind of memory that the buffer lies in.
func (b Buffer) Kind() Kind { return b.kind }

// Ordered refers to the same memory, for operations that are ordered by something
// else: package gpu gives a stream or an event, which is what [Buffer.Order] returns.
// Programs call gpu.Buffer.On and After instead. It panics for Go memory, which no
// device uses.
func (b Buffer) Ordered(by any) Buffer {
	switch {
	case b.n == 0:
		return b
	case b.addr == 0:
		panic("mem.Buffer.Ordered: Go memory is in no device's order")
	case b.ordered:
		b.ptr = (*order)(b.ptr).keep
	}
	b.ptr, b.ordered = unsafe.Pointer(&order{b.ptr, by}), true
	return b
}

// Order is what orders operations on the buffer, nil if nothing was given.
func (b Buffer) Order() any {
	if !b.ordered {
		return nil
	}
	return (*order)(b.ptr).by
}

// Plain tells whether the buffer is host memory in nobody's order, which is all that
// most messages are of.
func (b Buffer) Plain() bool { return b.kind == Host && !b.ordered }

// Addr is the address of the first byte. For Go memory it is valid only while
// something else refers to that memory.
func (b Buffer) Addr() uintptr {
	if b.addr != 0 {
		return b.addr
	}
	return uintptr(b.ptr)
}

// Slice refers to the bytes from i up to j. It panics unless 0 <= i <= j <= Len.
func (b Buffer) Slice(i, j int) Buffer {
	if i < 0 || j < i || j > b.n {
		panic(fmt.Sprintf("mem.Buffer.Slice: [%d:%d] of a buffer of %d bytes", i, j, b.n))
	}
	b.n = j - i
	switch {
	case b.addr != 0:
		b.addr += uintptr(i)
	case b.n > 0: // an address past the end would belong to other memory
		b.ptr = unsafe.Add(b.ptr, i)
	}
	return b
}

// Bytes is the memory itself, not a copy. It panics for device memory, which
// the CPU cannot read: copy it to the host first. The slice of memory that
// FromPointer refers to does not keep its owner alive: the Buffer does.
func (b Buffer) Bytes() []byte {
	switch {
	case b.kind == Device:
		panic("mem.Buffer.Bytes: device memory cannot be read by the CPU: copy it to the host first")
	case b.n == 0:
		return nil
	case b.addr != 0:
		return unsafe.Slice(*(**byte)(unsafe.Pointer(&b.addr)), b.n)
	}
	return unsafe.Slice((*byte)(b.ptr), b.n)
}

// Pinner is what Pin needs of a runtime.Pinner.
type Pinner interface{ Pin(pointer any) }

// Pin keeps the memory where it is, and allocated, until the pinner lets go.
// Memory outside the Go heap does not move.
func (b Buffer) Pin(p Pinner) {
	if b.addr == 0 && b.ptr != nil {
		p.Pin(b.ptr)
	}
}
