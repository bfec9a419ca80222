package mpicomm_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/stretchr/testify/require"
)

// churn collects garbage, and makes some that takes every free place, until the
// function that it returns is called.
func churn() (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		var keep [64][]byte
		for i := 0; ; i++ {
			select {
			case <-end:
				return
			default:
			}
			keep[i%64] = make([]byte, 1<<(i%16))
			for j := range keep[i%64] {
				keep[i%64][j] = 0xee
			}
			if i%20 == 0 {
				runtime.GC()
			}
		}
	}()
	return func() { close(end); <-ended }
}

// TestCollectionInFlight forces garbage collections while buffers are in flight
// that nothing but the library refers to.
func TestCollectionInFlight(t *testing.T) {
	comm := mpitest.Comm(t)
	next, previous := ring(comm)
	defer churn()()
	for round := range 15 {
		var requests []*mpicomm.Request
		var results []func()
		for i, n := range sizes {
			into := make([]byte, n)
			r, err := comm.Irecv(mem.Of(into), previous, i)
			require.NoError(t, err)
			requests = append(requests, r)
			results = append(results, func() { requirePattern(t, into, round+i) })
		}
		for i, n := range sizes {
			requests = append(requests, isend(t, comm, pattern(n, round+i), next, i)) // nobody else holds the message
		}
		for range 3 {
			runtime.GC()
		}
		require.NoError(t, mpicomm.Waitall(mpitest.Context(t), requests...))
		for _, check := range results {
			check()
		}
	}
}

// TestDroppedRequests shows that operations go on when their requests are
// dropped: the library alone holds the request and its buffer.
func TestDroppedRequests(t *testing.T) {
	comm := mpitest.Pair(t)
	const ready, done = 100, 101
	if comm.Rank() == 0 {
		for i, n := range sizes {
			isend(t, comm, pattern(n, i), 1, i)
			irecv(t, comm, make([]byte, n), 1, 1000+i)
		}
		for range 5 {
			runtime.GC()
			_ = pattern(1<<20, 99)
		}
		signal(t, comm, 1, ready)
		await(t, comm, 1, done)
		return
	}
	await(t, comm, 0, ready)
	for i, n := range sizes {
		buf := make([]byte, n)
		recv(t, comm, buf, 0, i)
		requirePattern(t, buf, i)
		send(t, comm, pattern(n, i), 0, 1000+i)
	}
	signal(t, comm, 0, done)
}

// TestStacks shows that buffers in the variables of goroutines survive the
// growth and the shrinking of their stacks.
func TestStacks(t *testing.T) {
	comm := mpitest.Pair(t)
	const count, ready = 200, 5000
	peer := 1 - comm.Rank()
	before := started()
	err := coro.Run(mpitest.Context(t), func(g *coro.Group) error {
		for i := range count {
			g.Go(func(ctx context.Context) error {
				var short [64]byte
				var long [600]byte
				grow(1000) // garbage collection shrinks the stack again
				r, err := comm.Irecv(mem.Of(short[:]), peer, i)
				if err != nil {
					return err
				}
				grow(200)
				if _, err := coro.Recv(ctx, comm, long[:], peer, count+i); err != nil {
					return err
				}
				grow(2000)
				if _, err := r.Wait(ctx); err != nil {
					return err
				}
				if string(short[:]) != string(pattern(64, i)) || string(long[:]) != string(pattern(600, i)) {
					return fmt.Errorf("goroutine %d: wrong message", i)
				}
				return nil
			})
		}
		untilStarted(t, before+2*count)
		for range 5 {
			runtime.GC()
		}
		signal(t, comm, peer, ready)
		await(t, comm, peer, ready)
		for i := range count {
			g.Go(func(ctx context.Context) error {
				message := [600]byte(pattern(600, i))
				grow(500)
				if err := coro.Send(ctx, comm, message[:], peer, count+i); err != nil {
					return err
				}
				first := [64]byte(pattern(64, i))
				grow(500)
				return coro.Send(ctx, comm, first[:], peer, i)
			})
		}
		return nil
	})
	require.NoError(t, err)
}

// grow makes the stack of the goroutine grow.
func grow(depth int) byte {
	var frame [128]byte
	frame[depth%128] = byte(depth)
	if depth == 0 {
		return frame[0]
	}
	return grow(depth-1) + frame[(depth+1)%128]
}
