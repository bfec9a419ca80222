package device_test

import (
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/internal/cudasim"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/stretchr/testify/require"
)

// TestPipeline compares a message of 64 MiB of device memory with the slowest stage on its
// way, copies of a limited rate on either side: they have to overlap.
func TestPipeline(t *testing.T) {
	cudasim.Needed(t)
	c := mpitest.Pair(t)
	if direct(t) {
		t.Skip("this MPI takes device memory")
	}
	ctx := mpitest.Context(t)
	const n, chunk = 64 << 20, 4 << 20
	b := deviceMemory(t, n)
	pool, err := dev.NewPinnedPool(chunk)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	pinned, err := pool.Alloc(ctx, chunk)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pinned.Free()) })
	// 4 ms for each MiB: what else the machine does matters less.
	cudasim.Configure(t, "CUDASIM_DELAY", "0:4000")
	stage := time.Hour
	for range 2 {
		began := time.Now()
		for at := 0; at < n; at += chunk {
			part, err := b.device.Slice(at, at+chunk)
			require.NoError(t, err)
			require.NoError(t, stream.MemcpyAsync(pinned, part))
		}
		require.NoError(t, stream.Synchronize(ctx))
		stage = min(stage, time.Since(began))
	}
	whole := time.Hour
	for range 3 {
		_, err := coro.Sendrecv(ctx, c, []byte{0}, 1-c.Rank(), 2, []byte{0}, 1-c.Rank(), 2)
		require.NoError(t, err)
		began := time.Now()
		if c.Rank() == 0 {
			require.NoError(t, coro.SendMessage(ctx, c, []mem.Buffer{b.mem()}, 1, 1))
			_, err = coro.Recv(ctx, c, []byte{0}, 1, 3)
		} else {
			_, err = coro.RecvMessageInto(ctx, c, []mem.Buffer{b.mem()}, 0, 1)
			require.NoError(t, err)
			err = coro.Send(ctx, c, []byte{0}, 0, 3)
		}
		require.NoError(t, err)
		whole = min(whole, time.Since(began))
	}
	t.Logf("64 MiB: the slowest stage takes %v, the message %v: %.0f %%", stage, whole, 100*float64(stage)/float64(whole))
	// Without any overlap it would be less than half. 89 % is what 16 chunks can reach.
	require.Less(t, float64(whole), float64(stage)/0.6)
}
