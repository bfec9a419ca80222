// Package inner is what mpicomm shows to the packages of this module that build
// on it, and to nobody else.
package inner

import "github.com/mpi4go/mpi4go/internal/wire"

// Process is what a process has for multi-buffer messages.
type Process struct {
	Private any    // *mpicomm.Comm, of all ranks of the job, for this module's own traffic
	Plans   string // Config.Plans
	Limits  wire.Limits
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
)
