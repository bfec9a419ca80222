package main

import (
	"context"
	"fmt"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/internal/cmpi"
	"github.com/mpi4go/mpi4go/mpicomm"
)

// The tags of our own messages. The C loops have others.
const (
	tagData    = 11
	tagAnswer  = 12
	tagBarrier = 13
	tagResult  = 14
	tagEnd     = 15
	tagGompi   = 16
	tagSingle  = 17
	tagFirst   = 100 // of the modes that use many
)

// job is one mode on one rank.
type job struct {
	memory *memory
	world  *mpicomm.Comm
	info   mpicomm.Environment
	lib    *cmpi.Library
	begin  func() *report
	report *report // nil on the ranks that do not print
}

func newJob(o *options, name string, m mode, memory *memory) (*job, error) {
	info, err := mpicomm.Info()
	if err != nil {
		return nil, err
	}
	lib, err := cmpi.Find("") // the one that Init has loaded
	if err != nil {
		return nil, err
	}
	memory.able = info.DeviceMemory
	begin := func() *report {
		e := newEnvironment(info)
		e.Device = memory.String()
		return newReport(o.Format, name, m, e)
	}
	return &job{memory: memory, world: mpicomm.World(), info: info, lib: lib, begin: begin}, nil
}

// between runs a measurement between two ranks. The others wait for its end in a
// receive, and so do not take the processors from the two.
func (j *job) between(f pairFlags, measure func(p *pair) error) error {
	ctx, cancel := f.context()
	defer cancel()
	first, second := f.Ranks[0], f.Ranks[1]
	p := &pair{ctx: ctx, world: j.world, lib: j.lib, tagUB: j.info.TagUB, memory: j.memory}
	switch j.world.Rank() {
	case first:
		p.first, p.peer = true, second
		j.report = j.begin()
		p.report = j.report
	case second:
		p.peer, p.memory.side = first, 1
	default:
		_, err := coro.Recv(ctx, j.world, []byte{}, first, tagEnd)
		return err
	}
	if err := measure(p); err != nil {
		return err
	}
	for rank := range j.world.Size() {
		if p.first && rank != first && rank != second {
			if err := coro.Send(ctx, j.world, []byte{}, rank, tagEnd); err != nil {
				return err
			}
		}
	}
	return j.report.end()
}

// barrier returns when all ranks have called it.
func (j *job) barrier(ctx context.Context) error {
	token := []byte{0}
	if j.world.Rank() != 0 {
		_, err := coro.Sendrecv(ctx, j.world, token, 0, tagBarrier, make([]byte, 1), 0, tagBarrier)
		return err
	}
	for range j.world.Size() - 1 {
		if _, err := coro.Recv(ctx, j.world, token, mpicomm.AnySource, tagBarrier); err != nil {
			return err
		}
	}
	for rank := 1; rank < j.world.Size(); rank++ {
		if err := coro.Send(ctx, j.world, token, rank, tagBarrier); err != nil {
			return err
		}
	}
	return nil
}

// tagsNeeded tells whether MPI has so many tags from tagFirst on.
func tagsNeeded(n, tagUB int) error {
	if tagFirst+n-1 > tagUB {
		return fmt.Errorf("%d goroutines need tags up to %d, but this MPI's largest is %d", n, tagFirst+n-1, tagUB)
	}
	return nil
}
