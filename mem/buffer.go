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
	host   unsafe.Pointer // memory that the CPU can address
	device uintptr        // or the address of device memory
	n      int
	owner  any // keeps memory alive that the garbage collector does not know
	kind   Kind
}

// Of refers to the memory of a slice, from its first element to its length;
// a Buffer it returns as it is. Nothing is copied.
func Of[D Data](d D) Buffer {
	switch s := any(d).(type) {
	case Buffer:
		return s
	case []byte:
		return Buffer{host: unsafe.Pointer(unsafe.SliceData(s)), n: len(s)}
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
	return Buffer{host: unsafe.Pointer(unsafe.SliceData(*header)), n: len(*header) * int(elem)}
}

// OfSlice is Of for code that is generic over the element type.
func OfSlice[T Element](s []T) Buffer {
	return Buffer{host: unsafe.Pointer(unsafe.SliceData(s)), n: len(s) * int(unsafe.Sizeof(*new(T)))}
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
	b := Buffer{n: n, owner: owner, kind: kind}
	if kind == Device {
		b.device = address
	} else {
		b.host = *(*unsafe.Pointer)(unsafe.Pointer(&address))
	}
	return b
}

// Len is the length in bytes.
func (b Buffer) Len() int { return b.n }

// Kind is the kind of memory that the buffer lies in.
func (b Buffer) Kind() Kind { return b.kind }

// Addr is the address of the first byte. For Go memory it is valid only while
// something else refers to that memory.
func (b Buffer) Addr() uintptr {
	if b.kind == Device {
		return b.device
	}
	return uintptr(b.host)
}

// Slice refers to the bytes from i up to j. It panics unless 0 <= i <= j <= Len.
func (b Buffer) Slice(i, j int) Buffer {
	if i < 0 || j < i || j > b.n {
		panic(fmt.Sprintf("mem.Buffer.Slice: [%d:%d] of a buffer of %d bytes", i, j, b.n))
	}
	if b.kind == Device {
		b.device += uintptr(i)
	} else if j > i { // an address past the end would belong to other memory
		b.host = unsafe.Add(b.host, i)
	}
	b.n = j - i
	return b
}

// Bytes is the memory itself, not a copy. It panics for device memory, which
// the CPU cannot read: copy it to the host first.
func (b Buffer) Bytes() []byte {
	if b.kind == Device {
		panic("mem.Buffer.Bytes: device memory cannot be read by the CPU: copy it to the host first")
	}
	if b.n == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(b.host), b.n)
}

// Pinner is what Pin needs of a runtime.Pinner.
type Pinner interface{ Pin(pointer any) }

// Pin keeps the memory where it is, and allocated, until the pinner lets go.
// Memory outside the Go heap does not move anyway.
func (b Buffer) Pin(p Pinner) {
	if b.host != nil && b.owner == nil && b.kind == Host {
		p.Pin(b.host)
	}
}
