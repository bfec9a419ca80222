package coro_test

import (
	"context"
	"testing"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/stretchr/testify/require"
)

// TestAllocs shows that in the steady state nothing is allocated for a message,
// with a context that can be cancelled.
func TestAllocs(t *testing.T) {
	if mpitest.Race {
		t.Skip("the race detector allocates")
	}
	comm := mpitest.Pair(t)
	ctx, cancel := context.WithCancel(mpitest.Context(t))
	defer cancel()
	peer := 1 - comm.Rank()
	for _, n := range []int{1, 256, 257, 64 << 10} {
		out, in := make([]byte, n), make([]byte, n)
		send := func() {
			if err := coro.Send(ctx, comm, out, peer, 1); err != nil {
				t.Fatal(err)
			}
		}
		recv := func() {
			if _, err := coro.Recv(ctx, comm, in, peer, 1); err != nil {
				t.Fatal(err)
			}
		}
		pingpong := func() { send(); recv() }
		if comm.Rank() == 1 {
			pingpong = func() { recv(); send() }
		}
		exchange := func() {
			if _, err := coro.Sendrecv(ctx, comm, out, peer, 2, in, peer, 2); err != nil {
				t.Fatal(err)
			}
		}
		require.Zero(t, steadyAllocs(pingpong), "Send and Recv of %d bytes", n)
		require.Zero(t, steadyAllocs(exchange), "Sendrecv of %d bytes", n)
	}
}

// steadyAllocs is the number of allocations for each call, after warming up.
func steadyAllocs(f func()) float64 {
	const warm, runs = 200, 1000
	for range warm {
		f()
	}
	return testing.AllocsPerRun(runs, f)
}
