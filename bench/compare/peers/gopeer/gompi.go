//go:build gompi

package main

import (
	"context"
	"errors"
	"runtime"

	mpi "github.com/sbromberger/gompi"
)

func init() {
	ways["gompi"] = openGompi
}

// gompiJob sends messages by gompi's blocking calls: it has no others. They block
// an OS thread, so there is one conversation.
type gompiJob struct {
	world *mpi.Communicator
	peer  int
}

func openGompi(context.Context) (carrier, error) {
	runtime.LockOSThread() // MPI_Init gives MPI_THREAD_SINGLE
	mpi.Start(false)
	world := mpi.NewCommunicator(nil)
	if world.Size() != 2 {
		return nil, errors.New("start it on 2 ranks with the mpirun of its MPI")
	}
	return gompiJob{world, 1 - world.Rank()}, nil
}

func (j gompiJob) first() bool { return j.peer == 1 }

func (j gompiJob) close() error {
	mpi.Stop()
	return nil
}

func (j gompiJob) environment() map[string]string {
	return map[string]string{"gompi": "v0.2.0", "go": runtime.Version()}
}

func (j gompiJob) conversation(i int) (conversation, error) {
	if i > 0 {
		return nil, errors.New("gompi has blocking calls alone: one conversation at a time")
	}
	return j, nil
}

func (j gompiJob) send(b []byte) error {
	j.world.SendBytes(b, j.peer, tagFirst)
	return nil
}

func (j gompiJob) recv(b []byte) error {
	j.world.RecvPreallocBytes(b, j.peer, tagFirst)
	return nil
}

func (j gompiJob) window(b []byte, n int, sends bool) func() error {
	return func() error {
		for range n {
			if sends {
				_ = j.send(b)
			} else {
				_ = j.recv(b)
			}
		}
		return nil
	}
}

func (j gompiJob) message(frames [][]byte, sends bool) func() error {
	return func() error {
		for _, f := range frames {
			_ = j.window(f, 1, sends)()
		}
		return nil
	}
}
