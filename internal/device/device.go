// Package device is what messages need of package gpu: mpicomm and coro stage device
// memory by it and know nothing else of a driver. Package gpu registers itself, so a
// program that does not import gpu has none of it.
package device

import (
	"context"
	"sync/atomic"

	"github.com/mpi4go/mpi4go/mem"
)

// Driver is package gpu.
type Driver interface {
	// Attach holds the open device that was opened first, for an MPI that is about
	// to be initialised, until Release; nil if none is open.
	Attach() (*Attached, error)
	// Limit bounds the page-locked memory for messages: bytes for each device and
	// direction.
	Limit(bytes int)
	// Memory is what a message needs of a buffer that is not plain. It notes what
	// has been queued so far that the message comes after. Without an open device
	// for the memory it fails.
	Memory(buf mem.Buffer) (Memory, error)
}

// Attached is a device that MPI may use.
type Attached struct {
	Ordinal int
	Name    string
	Context uint64 // CUcontext
	// Hook is the address of a C function: it makes a context current on its thread,
	// and returns the other one that was before, or 0.
	Hook    uintptr
	Release func() error
}

// Direction is that of a copy.
type Direction int

// The directions.
const (
	Out Direction = iota // from the device, for a send
	In                   // to the device
)

// Memory is the memory of a message.
type Memory interface {
	// Device is the ordinal of the device whose memory it is, -1 for host memory.
	Device() int
	// Pool tells whether it comes from a stream-ordered allocator, which processes
	// cannot share.
	Pool() bool
	// Ready tells whether all is done that the message comes after, and Await waits
	// for it.
	Ready() bool
	Await(ctx context.Context) error
	// Take takes page-locked memory for n bytes, which must not exceed the limit.
	// Where others have it, it waits, or returns a nil piece.
	Take(ctx context.Context, d Direction, n int, wait bool) (Piece, error)
	// Copy queues a copy of the bytes from at between the memory and a piece. After the
	// last one to the device, what is queued on the buffer's stream comes after all of
	// them, if it has one: see Work.Behind.
	Copy(d Direction, at int, p Piece, last bool) (Work, error)
}

// Piece is page-locked memory. It is freed once, after the work that uses it.
type Piece interface {
	Buffer() mem.Buffer
	Free()
}

// Work is what is queued on a device.
type Work interface {
	// Wait waits for it; the error is the driver's, or the context's.
	Wait(ctx context.Context) error
	// Ready tells whether Wait would not wait.
	Ready() bool
	// Behind tells whether a stream waits for it, so that the caller need not.
	Behind() bool
	// Release frees a piece when the work is done.
	Release(p Piece)
}

// The Driver, if the program has one.
var driver atomic.Pointer[Driver]

// Register is called by package gpu.
func Register(d Driver) { driver.Store(&d) }

// Registered is the driver, nil if the program has none.
func Registered() Driver {
	if d := driver.Load(); d != nil {
		return *d
	}
	return nil
}

// Bytes of device memory that messages have moved, for mpicomm.DeviceTraffic.
var Direct, StagedOut, StagedIn atomic.Int64
