package mpicomm

import (
	"context"
	"fmt"
	"slices"

	"github.com/mpi4go/mpi4go/internal/cmpi"
	"github.com/mpi4go/mpi4go/mem"
)

// Undefined is the color of a rank that will not be in any of the new
// communicators of [Comm.Split] (MPI_UNDEFINED).
const Undefined = -32766

// MPI has no non-blocking form of the calls that make communicators, except for
// MPI_Comm_idup, and a call that blocks in MPI keeps every goroutine of the
// process from its messages. So each is made only when all ranks have arrived
// at an MPI_Ibarrier, after which it does not wait for long. Two ranks that did
// this for two communicators in opposite orders would wait for each other, so a
// process makes one such call at a time, in the same order on every rank.

// Split divides the ranks into new communicators, one for each color, in which
// they are ordered by key, and by their old rank where keys are equal. It
// returns nil for a rank whose color is [Undefined].
//
// It is collective, and suspends the goroutine until every rank has called it.
// If several goroutines make communicators, they must do so in the same order
// on every rank, whatever the communicators. If the context ends first the error
// is an [*InFlightError]: the split takes place when the others call it, and its
// result is lost.
//
// Errors: [ErrArg] for a negative color that is not Undefined.
//
// Source: MPI_Comm_split, MPI-4.1 7.4.2.
func (c *Comm) Split(ctx context.Context, color, key int) (*Comm, error) {
	if c != nil && color < 0 && color != Undefined {
		return nil, &Error{Op: "split", Class: ErrArg, Peer: none, Tag: none, Text: fmt.Sprintf("color %d: want 0 or more, or mpicomm.Undefined", color)}
	}
	return c.make(ctx, "split", func(p *process) (cmpi.Comm, error) { return p.lib.Split(c.handle, color, key) })
}

// SplitShared makes a communicator of the ranks that share this host's memory,
// in the order of their old ranks. Otherwise it is like [Comm.Split].
//
// Source: MPI_Comm_split_type with MPI_COMM_TYPE_SHARED, MPI-4.1 7.4.2.
func (c *Comm) SplitShared(ctx context.Context) (*Comm, error) {
	return c.make(ctx, "splitshared", func(p *process) (cmpi.Comm, error) { return p.lib.SplitShared(c.handle, c.rank) })
}

// Create makes a communicator of some of the ranks, which are numbered in the
// order of the list. Every rank of the old communicator calls it with the same
// list; it returns nil for those that are not in it. Otherwise it is like
// [Comm.Split].
//
// Errors: [ErrRank] for a rank that does not exist or is listed twice; [ErrGroup]
// for an empty list.
//
// Source: MPI_Comm_create with a group of MPI_Group_incl, MPI-4.1 7.4.2 and 7.3.2.
func (c *Comm) Create(ctx context.Context, ranks []int) (*Comm, error) {
	if c == nil {
		return c.Split(ctx, Undefined, 0)
	}
	fail := func(class Class, format string, a ...any) (*Comm, error) {
		return nil, &Error{Op: "create", Class: class, Peer: none, Tag: none, Text: fmt.Sprintf(format, a...)}
	}
	if len(ranks) == 0 {
		return fail(ErrGroup, "the list of ranks is empty")
	}
	for i, rank := range ranks {
		if rank < 0 || rank >= c.size {
			return fail(ErrRank, "rank %d: the communicator has the ranks 0 to %d", rank, c.size-1)
		}
		if slices.Contains(ranks[:i], rank) {
			return fail(ErrRank, "rank %d is listed twice", rank)
		}
	}
	color, key := 0, slices.Index(ranks, c.rank)
	if key < 0 {
		color = Undefined
	}
	return c.make(ctx, "create", func(p *process) (cmpi.Comm, error) { return p.lib.Split(c.handle, color, key) })
}

// make carries out a blocking call that makes a communicator.
func (c *Comm) make(ctx context.Context, name string, call func(*process) (cmpi.Comm, error)) (*Comm, error) {
	return gated(ctx, c, func(p *process) (made *Comm, err error) {
		var comm cmpi.Comm
		p.engine.Exclusive(func() { comm, err = call(p) })
		if err != nil {
			return nil, fromCall(name, err)
		}
		if comm.Handle == 0 {
			return nil, nil
		}
		return p.newComm(comm, c.name+"."+name)
	})
}

// gated waits until every rank of the communicator has arrived, then makes a
// call that blocks in MPI. If the context ends before that, the call is made
// nevertheless when the others arrive, because they would wait for it.
func gated(ctx context.Context, c *Comm, call func(*process) (*Comm, error)) (*Comm, error) {
	p, err := c.usable(cmpi.Barrier)
	if err != nil {
		return nil, err
	}
	select {
	case p.gate <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for another goroutine that makes a communicator: %w", ctx.Err())
	}
	if err := c.late.wait(ctx); err != nil {
		<-p.gate
		return nil, err
	}
	r := &Request{comm: c}
	r.op.Init(p.engine, c.op(cmpi.Barrier, mem.Buffer{}, none, none).Spec)
	if p.engine.Run(ctx, &r.op) != nil {
		go func() {
			defer func() { <-p.gate }()
			if p.engine.Wait(context.Background(), &r.op) == nil && state.Load() == initialized {
				_, _ = call(p) // nobody is left to tell
			}
		}()
		return nil, r.inFlight(ctx)
	}
	defer func() { <-p.gate }()
	if _, err := r.result(); err != nil {
		return nil, err
	}
	return call(p)
}

// Free gives the communicator back to MPI. It is collective, like [Comm.Split].
// No operation may be in flight on it, and every later call with it fails with
// [ErrComm]. The world cannot be freed. Finalize frees nothing and needs nothing
// freed; but MPI has a few thousand communicators at most.
//
// Errors: [ErrComm] for the world; [ErrPending] if operations are in flight.
//
// Source: MPI_Comm_free, MPI-4.1 7.4.3.
func (c *Comm) Free(ctx context.Context) error {
	p, err := c.usable(cmpi.Barrier)
	if err != nil {
		return err
	}
	fail := func(class Class, format string, a ...any) error {
		return &Error{Op: "free", Class: class, Peer: none, Tag: none, Text: fmt.Sprintf(format, a...)}
	}
	if c == p.world || c == p.private {
		return fail(ErrComm, "%s belongs to the library: free only what Dup, Split, SplitShared or Create returned", c.name)
	}
	inFlight := 0
	ops, err := p.engine.Outstanding(ctx)
	if err != nil {
		return err
	}
	for _, op := range ops {
		for i := range op.N() {
			if spec, _ := op.At(i); spec.Comm == c.handle && !op.Finished(i) {
				inFlight++
			}
		}
	}
	if inFlight > 0 {
		return fail(ErrPending, "%d operations are in flight on %s: wait for them, or cancel them, first", inFlight, c.name)
	}
	if shadow := c.order.shadow; shadow != nil {
		c.order.shadow = nil
		if err := shadow.Free(ctx); err != nil {
			return err
		}
	}
	_, err = gated(ctx, c, func(p *process) (_ *Comm, err error) {
		c.freed.Store(true)
		c.failed.Store(true) // usable looks closer then
		p.engine.Exclusive(func() { err = p.lib.FreeComm(c.handle) })
		p.bells.Free(c.peers)
		comms.forget(c)
		if err != nil {
			return nil, fromCall("free", err)
		}
		return nil, nil
	})
	return err
}

// Name is the name of the communicator: "world", that of the communicator it
// was made from with what made it, or that of SetName.
func (c *Comm) Name() string { return c.name }

// SetName names the communicator, also for debuggers and tracing tools that look
// at MPI. MPI may cut a name that is longer than MPI_MAX_OBJECT_NAME (64 bytes in
// Open MPI, 128 in MPICH); Name does not. It is local, and must not run at the same
// time as other calls that show the name.
//
// Source: MPI_Comm_set_name, MPI-4.1 7.8.
func (c *Comm) SetName(name string) error {
	p, err := c.usable(cmpi.Barrier)
	if err != nil {
		return err
	}
	p.engine.Exclusive(func() { err = p.lib.SetCommName(c.handle, name) })
	if err != nil {
		return fromCall("setname", err)
	}
	c.name = name
	return nil
}

// Fortran is the communicator's handle in Fortran, an integer that stands for it
// in every language and MPI library: pass it to C code of the same process, which
// calls MPI_Comm_f2c. It is valid until the communicator is freed.
//
// Source: MPI_Comm_c2f, MPI-4.1 19.3.4.
func (c *Comm) Fortran() (int, error) {
	p, err := c.usable(cmpi.Barrier)
	if err != nil {
		return 0, err
	}
	handle := 0
	p.engine.Exclusive(func() { handle = p.lib.ToFortran(c.handle) })
	return handle, nil
}

// FromFortran is the communicator of a Fortran handle, such as one that C code of
// the same process got from MPI_Comm_c2f, or mpi4py from Comm.py2f. Whoever made it
// keeps it, and frees it when this process does not use it any more. What MPI
// does about an error in a call on it is up to its error handler, which by default ends the
// job; [Comm.Dup] makes a communicator whose errors are returned. It is local.
//
// Errors: [ErrComm] for a handle of no communicator, or of an intercommunicator,
// which this library does not support.
//
// Source: MPI_Comm_f2c, MPI-4.1 19.3.4.
func FromFortran(handle int) (*Comm, error) {
	p, err := current()
	if err != nil {
		return nil, err
	}
	var comm cmpi.Comm
	p.engine.Exclusive(func() { comm, err = p.lib.FromFortran(handle) })
	if err != nil {
		return nil, fromCall("fromfortran", err)
	}
	return p.wrapComm(comm, fmt.Sprintf("fortran.%d", handle)), nil
}
