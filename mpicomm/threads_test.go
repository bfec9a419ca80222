package mpicomm_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/stretchr/testify/require"
)

func threads(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/task")
	require.NoError(t, err)
	return len(entries)
}

// TestThreads has ten thousand goroutines wait, which takes no thread each.
func TestThreads(t *testing.T) {
	comm := mpitest.Pair(t)
	count := 10_000
	if mpitest.Race {
		count = 2000
	}
	const ready = 30_000
	before := threads(t)              // what earlier tests had busy at once stays: Go ends no thread
	for _, n := range []int{1, 300} { // posted to MPI, and served by probes
		if comm.Rank() == 0 {
			await(t, comm, 1, ready)
			for tag := range count {
				send(t, comm, pattern(n, tag), 1, tag)
			}
			continue
		}
		others := started()
		var sum atomic.Int64
		err := coro.Run(mpitest.Context(t), func(g *coro.Group) error {
			for tag := range count {
				g.Go(func(ctx context.Context) error {
					buf := make([]byte, n)
					status, err := coro.Recv(ctx, comm, buf, 0, tag)
					if err == nil && (status.Count != n || string(buf) != string(pattern(n, tag))) {
						err = fmt.Errorf("tag %d: wrong message", tag)
					}
					sum.Add(int64(tag))
					return err
				})
			}
			untilStarted(t, others+count)
			require.LessOrEqual(t, threads(t), before+runtime.GOMAXPROCS(0)+12)
			signal(t, comm, 0, ready)
			return nil
		})
		require.NoError(t, err)
		require.EqualValues(t, count*(count-1)/2, sum.Load())
		require.LessOrEqual(t, threads(t), before+runtime.GOMAXPROCS(0)+12)
	}
}

// TestManyGoroutines has a thousand pairs of goroutines exchange messages, and
// others that come and go.
func TestManyGoroutines(t *testing.T) {
	comm := mpitest.Pair(t)
	const pairs, rounds = 500, 20
	peer := 1 - comm.Rank()
	err := coro.Run(mpitest.Context(t), func(g *coro.Group) error {
		for p := range pairs {
			g.Go(func(ctx context.Context) error {
				for i := range rounds {
					n := (p*37 + i*211) % 3000
					send, recv := pattern(n, p+i), make([]byte, n)
					if _, err := coro.Sendrecv(ctx, comm, send, peer, p, recv, peer, p); err != nil {
						return err
					}
					if string(recv) != string(send) {
						return fmt.Errorf("pair %d round %d: wrong message", p, i)
					}
				}
				return nil
			})
		}
		return nil
	})
	require.NoError(t, err)
}
