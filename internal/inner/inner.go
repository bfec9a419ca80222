// Package inner is what mpicomm and coro show to the packages of this module that
// build on them, and to nobody else.
package inner

import (
	"context"
	"sync"

	"github.com/mpi4go/mpi4go/internal/device"
	"github.com/mpi4go/mpi4go/internal/wire"
	"github.com/mpi4go/mpi4go/mem"
)

// Process is what a process has for multi-buffer messages.
type Process struct {
	Private any    // *mpicomm.Comm, of all ranks of the job, for this module's own traffic
	Plans   string // Config.Plans
	Limits  wire.Limits
	Hosts   []string // the name of each rank's host
	Stages  []bool   // by rank: whether it may have device memory
	// Takes tells whether MPI is given device memory in point-to-point operations.
	Takes func(device.Memory) bool
}

// Comm is what makes a communicator known to the other ranks.
type Comm struct {
	ID    uint32
	Ranks []int32       // of the world; nil if they are the same
	index map[int32]int // the reverse
}

// NewComm numbers a communicator of ranks of the world.
func NewComm(id uint32, ranks []int32) *Comm {
	c := &Comm{id, ranks, make(map[int32]int, len(ranks))}
	for i, rank := range ranks {
		c.index[rank] = i
	}
	return c
}

// World is the rank of the world that a rank of the communicator is.
func (c *Comm) World(rank int) int {
	if c.Ranks == nil {
		return rank
	}
	return int(c.Ranks[rank])
}

// Rank is the rank in the communicator of a rank of the world that is in it.
func (c *Comm) Rank(world int) int {
	if c.Ranks == nil {
		return world
	}
	return c.index[int32(world)]
}

// Set by mpicomm.
var (
	// ThisProcess returns an error before Init and after Finalize.
	ThisProcess func() (*Process, error)
	// CommOf takes a *mpicomm.Comm. It returns an error for one that the library
	// did not make, and checks a peer and a tag as for an operation.
	CommOf func(comm any, operation string, sends bool, peer, tag int) (*Comm, error)
	// Later makes a *mpicomm.Request of an operation that is done when done is called,
	// by whoever carries it out.
	Later func(comm any, sends bool, peer, tag int) (request any, done func(error))
)

// BeforeFinalize has mpicomm.Finalize call a function before anything else, while
// operations can still be started. What was added last is called first.
func BeforeFinalize(f func()) {
	finalizers.Lock()
	defer finalizers.Unlock()
	finalizers.calls = append(finalizers.calls, f)
}

var finalizers struct {
	sync.Mutex
	calls []func()
}

// CallBeforeFinalize calls the functions, once.
func CallBeforeFinalize() {
	finalizers.Lock()
	calls := finalizers.calls
	finalizers.calls = nil
	finalizers.Unlock()
	for i := len(calls) - 1; i >= 0; i-- {
		calls[i]()
	}
}

// OpenConnections is set by coro. It returns an error before Init and after
// Finalize.
var OpenConnections func() (Connections, error)

// Connections are streams of multi-buffer messages between two processes, and
// control messages, all on the channel of the messages of coro.
type Connections interface {
	Rank() int
	Hosts() []string // of each rank
	Limits() wire.Limits

	// Serve has a function called with each control message, in the order of their
	// arrival and of that of the messages of connections, by whoever receives
	// headers: it must not wait. From now on headers are received also while nobody
	// waits for any. The body is valid until it returns.
	Serve(f func(source int, kind uint32, body []byte))
	// Control sends a control message. It does not wait. A body of up to 200 bytes
	// costs no memory until it has arrived.
	Control(dest int, kind uint32, body []byte) error

	// Await waits until ready, which has room for one, receives, and meanwhile receives headers
	// unless somebody else does. Signal makes it ready, once.
	Await(ctx context.Context, ready chan struct{}) error
	Signal(ready chan struct{})
	// Attend sees to it that headers are received while its caller waits by itself.
	Attend()

	// Heard counts the headers that have come from a rank, and tells why they can
	// be understood no longer.
	Heard(peer int) (headers uint64, broken error)
	// Discarding tells whether messages to closed connections are being received.
	Discarding() bool

	// Open makes the end of a connection with a number that no other has here.
	Open(peer int, local uint32) End
}

// End is this process's end of a connection. The errors of its calls are those of
// coro.SendMessage and coro.RecvMessage, and those of EndSend and EndRecv.
type End interface {
	// Connect says which number the connection has at the other end, and what that
	// takes.
	Connect(remote uint32, limits wire.Limits)
	Send(ctx context.Context, frames []mem.Buffer) error
	// Post is Send that waits only for its turn. It returns a *mpicomm.Request, to
	// which the frames belong.
	Post(ctx context.Context, frames []mem.Buffer) (any, error)
	Recv(ctx context.Context) ([]mem.Buffer, error)
	RecvInto(ctx context.Context, frames []mem.Buffer) ([]mem.Buffer, error)
	RecvAlloc(ctx context.Context, alloc func([]wire.Frame) ([]mem.Buffer, error)) ([]mem.Buffer, error)

	// EndSend fails later senders, and without flush those who wait for their turn.
	// When nobody is about to send any more, which may be at once, quiet is called.
	EndSend(err error, flush bool, quiet func())
	// EndRecv fails who waits, and later receivers when what has arrived was
	// received. With drop that and what will arrive is discarded.
	EndRecv(err error, drop bool)
	// Forget frees the number: the other end sends nothing any more, or what it
	// sends is discarded.
	Forget()

	Stats() EndStats
}

// EndStats counts what an end has sent and received.
type EndStats struct {
	Sent, SentBytes, Received, ReceivedBytes uint64
	Staged                                   uint64                // bytes that were copied into headers
	Plans                                    [wire.NumPlans]uint64 // frames sent by each wire.Plan
	Stalls                                   uint64                // messages that had to wait for their turn
	Unacknowledged                           int                   // messages sent that the other end has not begun to receive
	Kept                                     int                   // messages that have arrived and wait to be received
}
