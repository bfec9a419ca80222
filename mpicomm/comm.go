package mpicomm

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/mpi4go/mpi4go/internal/cmpi"
	"github.com/mpi4go/mpi4go/internal/inner"
	"github.com/mpi4go/mpi4go/internal/progress"
	"github.com/mpi4go/mpi4go/mem"
)

// Comm is a communicator: a group of ranks and a space of messages of its own
// (MPI-4.1 7.1). Its methods may be called from any goroutine.
type Comm struct {
	p          *process
	handle     uint64
	rank, size int
	tagUB      int
	peers      cmpi.Peers // whom to ring
	name       string
	sends      *progress.Op // the owner of sends that nobody waits for
	sent       *Request     // what Isend returns for them

	order order // of collectives
	late  lateSends
	known *inner.Comm // to the other ranks; nil if the library did not make it

	freed      atomic.Bool
	failed     atomic.Bool // whether async holds something, or the communicator was freed
	asyncMutex sync.Mutex
	async      []error
}

// newComm wraps a communicator that was just made, on every rank of it.
func (p *process) newComm(comm cmpi.Comm, name string) (*Comm, error) {
	c := p.wrapComm(comm, name)
	if err := p.introduce(c); err != nil {
		return nil, err
	}
	c.peers = p.peers(c.known.Ranks)
	if !p.config.Debug {
		return c, nil
	}
	shadow := new(progress.Op)
	shadow.Init(p.engine, c.op(cmpi.Dup, mem.Buffer{}, none, none).Spec)
	if err := p.engine.Run(context.Background(), shadow); err != nil {
		return nil, err
	}
	_, made := shadow.At(0)
	c.order.shadow = p.wrapComm(cmpi.Comm{Handle: made.Handle, Rank: c.rank, Size: c.size}, name+".order")
	return c, nil
}

func (p *process) wrapComm(comm cmpi.Comm, name string) *Comm {
	c := &Comm{p: p, peers: p.everyPeer(), handle: comm.Handle, rank: comm.Rank, size: comm.Size, tagUB: p.start.TagUB, name: name}
	c.sends = progress.Detach(c.sendFailed)
	c.sent = &Request{comm: c}
	c.sent.op.Complete(c.op(cmpi.Send, mem.Buffer{}, none, none).Spec)
	comms.Lock()
	defer comms.Unlock()
	comms.all[c] = true
	return c
}

// comms are all communicators that are not freed, for Finalize to collect their
// errors.
var comms = commSet{all: map[*Comm]bool{}}

type commSet struct {
	sync.Mutex
	all map[*Comm]bool
}

func (s *commSet) forget(c *Comm) {
	s.Lock()
	defer s.Unlock()
	delete(s.all, c)
}

// World is the communicator of all ranks of the job, MPI_COMM_WORLD itself, so
// that a program in another language can be at the other end. It panics before
// Init.
//
// Where another package has initialised MPI, the error handler of
// MPI_COMM_WORLD remains that package's; its default ends the job at an error
// that only MPI sees. A duplicate returns errors.
func World() *Comm {
	p := self.Load()
	if p == nil {
		panic("mpicomm.World: " + ErrNotInitialized.Error())
	}
	return p.world
}

// Rank is the number of this process in the communicator, from 0 to Size-1.
func (c *Comm) Rank() int { return c.rank }

// Size is the number of ranks in the communicator.
func (c *Comm) Size() int { return c.size }

// LocalRank numbers the ranks of the job that share this host's memory, from 0;
// it is the same on every communicator. Use it to pick a device.
func (c *Comm) LocalRank() int { return c.p.start.LocalRank }

// String names the communicator and the rank.
func (c *Comm) String() string { return fmt.Sprintf("%s(%d of %d)", c.name, c.rank, c.size) }

// Dup makes a communicator of the same ranks whose messages are never mixed up
// with this one's. It is collective: every rank calls it, in the same order
// relative to the other collective calls on this communicator. It suspends the
// goroutine until all ranks have.
//
// If the context ends first the error is an [*InFlightError]: MPI cannot take
// the call back, and the duplicate is made, and lost, when the others call it.
//
// Source: MPI_Comm_idup, MPI-4.1 7.4.2.
func (c *Comm) Dup(ctx context.Context) (*Comm, error) {
	p, err := c.usable(cmpi.Dup)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := c.late.wait(ctx); err != nil {
		return nil, err
	}
	r := &Request{comm: c}
	r.op.Init(p.engine, c.op(cmpi.Dup, mem.Buffer{}, none, none).Spec)
	made := func() (*Comm, error) {
		if _, err := r.result(); err != nil {
			return nil, err
		}
		_, res := r.op.At(0)
		return p.newComm(cmpi.Comm{Handle: res.Handle, Rank: c.rank, Size: c.size}, c.name+".dup")
	}
	if p.engine.Run(ctx, &r.op) == nil {
		return made()
	}
	go func() { // the others wait for what newComm does
		if p.engine.Wait(context.Background(), &r.op) == nil && state.Load() == initialized {
			_, _ = made() // nobody is left to tell
		}
	}()
	return nil, r.inFlight(ctx)
}

// ready tells whether operations can be started and no earlier one has failed.
func (c *Comm) ready() bool { return state.Load() == initialized && !c.failed.Load() }

// usable returns the process if operations can be started on the communicator,
// or an error of an earlier send that nobody waited for.
func (c *Comm) usable(kind uint8) (*process, error) {
	if state.Load() != initialized {
		_, err := current()
		return nil, err
	}
	if c == nil {
		return nil, &Error{Op: kindNames[kind], Class: ErrComm, Peer: none, Tag: none, Text: "the communicator is nil: use mpicomm.World() or what Dup returned"}
	}
	if c.failed.Load() {
		if c.freed.Load() {
			return nil, &Error{Op: kindNames[kind], Class: ErrComm, Peer: none, Tag: none, Text: "the communicator was freed"}
		}
		if err := c.takeAsync(); err != nil {
			return nil, err
		}
	}
	return c.p, nil
}

// sendFailed notes the failure of a send that nobody waits for.
func (c *Comm) sendFailed(s *cmpi.Op) {
	code := int(s.RC)
	err := &Error{
		Op: "isend", Class: Class(c.p.lib.ErrorClass(code)), Code: code, Peer: int(s.Peer), Tag: int(s.Tag),
		Text: "an earlier send that was complete for its caller: " + c.p.lib.ErrorString(code),
	}
	c.asyncMutex.Lock()
	defer c.asyncMutex.Unlock()
	if len(c.async) < 16 {
		c.async = append(c.async, err)
	}
	c.failed.Store(true)
}

// takeAsync returns the oldest failure that nobody was told of.
func (c *Comm) takeAsync() error {
	c.asyncMutex.Lock()
	defer c.asyncMutex.Unlock()
	if len(c.async) == 0 {
		return nil
	}
	err := c.async[0]
	c.async = c.async[1:]
	c.failed.Store(len(c.async) > 0)
	return err
}

// asyncErrors returns a failure that nobody was told of, on any communicator.
func (p *process) asyncErrors() error {
	comms.Lock()
	defer comms.Unlock()
	for c := range comms.all {
		if err := c.takeAsync(); err != nil {
			return fmt.Errorf("mpicomm.Finalize: %w", err)
		}
	}
	return nil
}
