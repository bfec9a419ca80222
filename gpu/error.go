package gpu

import (
	"errors"
	"sync"

	"github.com/mpi4go/mpi4go/internal/cuda"
)

// ErrNotSupported says that this machine has no usable CUDA driver or device, or
// that the driver lacks something; the error that wraps it says what was looked
// for. It wraps errors.ErrUnsupported.
var ErrNotSupported = cuda.ErrNotSupported

// ErrFreed is returned for whatever was freed, destroyed or closed already.
var ErrFreed = errors.New("it was freed, destroyed or closed already")

// ErrOutOfMemory is the driver's CUDA_ERROR_OUT_OF_MEMORY, for errors.Is.
const ErrOutOfMemory = cuda.OutOfMemory

// Error is a failed call of the driver: the entry point and its result. errors.Is
// finds a Result in it, such as [ErrOutOfMemory].
type Error = cuda.Error

// Result is a result of the driver (CUresult), as an error.
type Result = cuda.Result

// guard lets calls on an object run while it exists. Its end waits for them.
type guard struct {
	mu    sync.Mutex
	idle  *sync.Cond
	users int
	ended bool
}

// enter fails with ErrFreed after the end. Otherwise leave must follow.
func (g *guard) enter() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return ErrFreed
	}
	g.users++
	return nil
}

func (g *guard) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.users--
	if g.users == 0 && g.idle != nil {
		g.idle.Broadcast()
	}
}

// end is the end of the object, unless refuse says no.
func (g *guard) end(refuse func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return ErrFreed
	}
	if err := refuse(); err != nil {
		return err
	}
	g.ended = true
	g.idle = sync.NewCond(&g.mu)
	for g.users > 0 {
		g.idle.Wait()
	}
	return nil
}

func (g *guard) hasEnded() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ended
}

func always() error { return nil }
