package main

import (
	"context"
	"time"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/internal/cmpi"
	"github.com/mpi4go/mpi4go/mpicomm"
)

// pair is one of the two ranks between which something is measured.
type pair struct {
	ctx    context.Context
	world  *mpicomm.Comm
	lib    *cmpi.Library
	tagUB  int
	memory *memory
	peer   int
	first  bool    // this rank starts, and prints
	report *report // of the first, else nil
}

// barrier returns when both ranks have called it. Afterwards nothing of either
// is on its way, so C code may take over MPI.
func (p *pair) barrier() error {
	_, err := coro.Sendrecv(p.ctx, p.world, []byte{0}, p.peer, tagBarrier, make([]byte, 1), p.peer, tagBarrier)
	return err
}

// rounds measures by the passes in turn, see [alternate].
func (p *pair) rounds(n positive, passes ...pass) ([][]float64, error) {
	return alternate(int(n), p.barrier, p.report.tick, passes...)
}

// cAble tells whether the C loop can have the buffers of both ranks: MPI itself has to
// be able to take memory of a device.
func (p *pair) cAble() bool { return p.memory.mpiTakes().Able }

// memoryNotes adds to the notes what is to be said of the memory.
func (p *pair) memoryNotes(notes ...string) []string {
	notes = p.memory.notes(notes...)
	if takes := p.memory.mpiTakes(); !takes.Able {
		notes = append(notes, "no C column: "+takes.Why)
	}
	return notes
}

// endRow frees the buffers and tells how the messages between them have travelled.
func (p *pair) endRow() (path, error) {
	if p.memory.device == nil {
		return path{}, nil
	}
	mine := p.memory.traffic()
	theirs, err := p.fromSecond(mine)
	if err != nil {
		return path{}, err
	}
	return pathOf([]float64{mine[0] + theirs[0], mine[1] + theirs[1]}), p.memory.reset()
}

// fromSecond brings numbers of the second rank to the first.
func (p *pair) fromSecond(numbers []float64) ([]float64, error) {
	if p.first {
		numbers, _, err := coro.RecvAlloc[float64](p.ctx, p.world, p.peer, tagResult)
		return numbers, err
	}
	return numbers, coro.Send(p.ctx, p.world, numbers, p.peer, tagResult)
}

// decide returns on both ranks what the first one says.
func (p *pair) decide(yes bool) (bool, error) {
	word := []byte{0}
	if !p.first {
		_, err := coro.Recv(p.ctx, p.world, word, p.peer, tagResult)
		return word[0] != 0, err
	}
	if yes {
		word[0] = 1
	}
	return yes, coro.Send(p.ctx, p.world, word, p.peer, tagResult)
}

// cLoop returns the time that a C loop takes, after another for warm-up.
func (p *pair) cLoop(mode cmpi.BenchMode, iterations, warmup, window int, send, recv buffer) (time.Duration, error) {
	loop := cmpi.Bench{Mode: mode, Peer: p.peer, Sender: p.first, Window: window, Size: send.len()}
	send.lend(&loop.Send, &loop.SendAt)
	recv.lend(&loop.Recv, &loop.RecvAt)
	return runLoop(p.lib, loop, warmup, iterations)
}

// runLoop runs a C loop twice, the second time to measure it.
func runLoop(lib *cmpi.Library, loop cmpi.Bench, warmup, iterations int) (time.Duration, error) {
	var seconds float64
	var err error
	exclusive := mpicomm.Exclusive(func() {
		for _, loop.Iterations = range []int{warmup, iterations} {
			if seconds, err = loop.Run(lib); err != nil {
				return
			}
		}
	})
	if exclusive != nil {
		err = exclusive
	}
	return time.Duration(seconds * 1e9), err
}
