package mpicomm_test

import (
	"encoding/binary"
	"os"
	"runtime/debug"
	"testing"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/stretchr/testify/require"
)

// needLarge skips a test that moves more than 2 GiB unless it is asked for.
func needLarge(t testing.TB) {
	t.Helper()
	if os.Getenv("MPI4GO_TEST_LARGE") != "1" {
		t.Skip("moves more than 2 GiB: set MPI4GO_TEST_LARGE=1")
	}
}

// largeSizes do not fit into an int of C, or just do.
var largeSizes = []int{1<<31 - 1, 1 << 31, 1<<31 + 5, 3<<30 + 12345}

// mark writes the place of every 4 KiB into it, and the last byte.
func mark(b []byte, seed int) {
	for i := 0; i+8 <= len(b); i += 4096 {
		binary.LittleEndian.PutUint64(b[i:], uint64(i+seed))
	}
	b[len(b)-1] = byte(seed)
}

func requireMarks(t testing.TB, b []byte, seed int) {
	t.Helper()
	require.True(t, marked(b, seed), "%d bytes are not what was sent", len(b))
}

func marked(b []byte, seed int) bool {
	for i := 0; i+8 < len(b); i += 4096 {
		if binary.LittleEndian.Uint64(b[i:]) != uint64(i+seed) {
			return false
		}
	}
	return b[len(b)-1] == byte(seed)
}

// TestLarge sends more than 2 GiB in one message, in both directions, into
// buffers of the same length, longer ones, and such that are made for it.
func TestLarge(t *testing.T) {
	needLarge(t)
	comm := mpitest.Pair(t)
	peer := 1 - comm.Rank()
	for i, n := range largeSizes {
		for direction := range 2 {
			ctx := mpitest.Context(t)
			buf := make([]byte, n)
			if comm.Rank() == direction {
				mark(buf, i)
				require.NoError(t, coro.Send(ctx, comm, buf, peer, 1))
				require.NoError(t, coro.Ssend(ctx, comm, buf, peer, 2))
			} else {
				status, err := coro.Recv(ctx, comm, buf, peer, 1)
				require.NoError(t, err)
				require.Equal(t, n, status.Count)
				requireMarks(t, buf, i)
				clear(buf)
				receiving, err := mpicomm.Post(comm.RecvOp(mem.Of(buf), mpicomm.AnySource, 2))
				require.NoError(t, err)
				require.Equal(t, n, wait(t, receiving).Count)
				requireMarks(t, buf, i)
			}
			buf = nil
			debug.FreeOSMemory()
		}
	}
}

// TestLargeAlloc receives more than 2 GiB without knowing the length.
func TestLargeAlloc(t *testing.T) {
	needLarge(t)
	comm := mpitest.Pair(t)
	const n = 1<<31 + 8
	if comm.Rank() == 0 {
		buf := make([]byte, n)
		mark(buf, 1)
		require.NoError(t, coro.Send(mpitest.Context(t), comm, buf, 1, 1))
		return
	}
	words, status, err := coro.RecvAlloc[int64](mpitest.Context(t), comm, 0, 1)
	require.NoError(t, err)
	require.Equal(t, n, status.Count)
	require.Len(t, words, n/8)
	requireMarks(t, mem.Of(words).Bytes(), 1)
	debug.FreeOSMemory()
}

// TestLargeTruncation receives long messages into buffers that are too short.
func TestLargeTruncation(t *testing.T) {
	needLarge(t)
	comm := mpitest.Pair(t)
	const over = 1<<31 + 100
	for _, c := range []struct{ length, n int }{{0, 16 << 20}, {100, 16 << 20}, {5000, over}, {1<<31 + 50, over}} {
		length, n := c.length, c.n
		if comm.Rank() == 0 {
			require.NoError(t, coro.Send(mpitest.Context(t), comm, make([]byte, n), 1, 1))
			send(t, comm, pattern(300, 1), 1, 1)
			continue
		}
		g := newGuarded(length)
		_, err := coro.Recv(mpitest.Context(t), comm, g.buf, 0, 1)
		require.ErrorIs(t, err, mpicomm.ErrTruncate)
		g.requireIntact(t, length)
		next := make([]byte, 300)
		require.Equal(t, 300, recv(t, comm, next, 0, 1).Count)
		requirePattern(t, next, 1)
		debug.FreeOSMemory()
	}
}
