package main

import (
	"context"
	"errors"
	"runtime"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
)

// tagFirst is the tag of conversation 0.
const tagFirst = 100

// mpiJob is what our own ways have in common.
type mpiJob struct {
	ctx   context.Context
	world *mpicomm.Comm
	peer  int
}

func initMPI(ctx context.Context) (mpiJob, error) {
	if err := mpicomm.Init(mpicomm.Config{}); err != nil {
		return mpiJob{}, err
	}
	world := mpicomm.World()
	if world.Size() != 2 {
		return mpiJob{}, errors.New("start it on 2 ranks with the mpirun of its MPI")
	}
	return mpiJob{ctx, world, 1 - world.Rank()}, nil
}

func (j mpiJob) first() bool { return j.world.Rank() == 0 }

func (j mpiJob) close() error { return mpicomm.Finalize() }

func (j mpiJob) environment() map[string]string {
	info, err := mpicomm.Info()
	if err != nil {
		return map[string]string{"mpi4go": err.Error()}
	}
	return map[string]string{
		"mpi4go": info.Version, "mpi": info.LibraryVersion, "library": info.Library, "family": info.Family, "transport": info.Transport,
		"binding": info.Binding, "GOMAXPROCS": info.GOMAXPROCS, "go": runtime.Version(),
	}
}

// coroJob sends messages by package coro.
type coroJob struct{ mpiJob }

func openCoro(ctx context.Context) (carrier, error) {
	j, err := initMPI(ctx)
	return coroJob{j}, err
}

func (j coroJob) conversation(i int) (conversation, error) {
	return coroConversation{j.mpiJob, tagFirst + i}, nil
}

type coroConversation struct {
	mpiJob
	tag int
}

func (c coroConversation) send(b []byte) error { return coro.Send(c.ctx, c.world, b, c.peer, c.tag) }

func (c coroConversation) recv(b []byte) error {
	_, err := coro.Recv(c.ctx, c.world, b, c.peer, c.tag)
	return err
}

func (c coroConversation) window(b []byte, n int, sends bool) func() error {
	op := c.world.RecvOp
	if sends {
		op = c.world.SendOp
	}
	ops := make([]mpicomm.Op, n)
	for i := range ops {
		ops[i] = op(mem.Of(b), c.peer, c.tag)
	}
	var statuses []mpicomm.Status
	return func() (err error) {
		statuses, err = mpicomm.DoAll(c.ctx, statuses[:0], ops...)
		return err
	}
}

func (c coroConversation) message(frames [][]byte, sends bool) func() error {
	list := buffers(frames)
	if sends {
		return func() error { return coro.SendMessage(c.ctx, c.world, list, c.peer, c.tag) }
	}
	return func() error {
		_, err := coro.RecvMessageInto(c.ctx, c.world, list, c.peer, c.tag)
		return err
	}
}

func buffers(frames [][]byte) []mem.Buffer {
	list := make([]mem.Buffer, len(frames))
	for i, f := range frames {
		list[i] = mem.Of(f)
	}
	return list
}
