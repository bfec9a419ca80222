package device_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/internal/cudasim"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/stretchr/testify/require"
)

// TestCallers shows by the libraries that call the driver who copies device memory: where it goes to MPI directly, MPI and
// nobody else; where it is staged, package gpu and not MPI.
func TestCallers(t *testing.T) {
	cudasim.Needed(t)
	const n = 1<<20 + 1
	c, ctx := mpitest.Pair(t), mpitest.Context(t)
	peer := 1 - c.Rank()
	a, b := newMemory(t, mem.Device, n), newMemory(t, mem.Device, n)
	defer b.free(t)
	defer a.free(t)
	a.fill(t, stream, c.Rank())
	require.NoError(t, stream.Synchronize(ctx))
	mpitest.Sync(t)

	file := filepath.Join(t.TempDir(), "trace")
	cudasim.Configure(t, "CUDASIM_TRACE", file)
	_, err := coro.Sendrecv(ctx, c, a.mem(), peer, 1, b.mem(), peer, 1)
	require.NoError(t, err)
	mpitest.Sync(t) // nothing is under way any more
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	b.requirePattern(t, ctx, stream, peer, n)

	var mpi, ours int
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		require.Len(t, words, 5)
		switch {
		case !strings.HasPrefix(words[0], "cuMemcpy"):
		case strings.HasPrefix(words[4], "lib"): // of Open MPI: libmca_common_cuda.so
			mpi++
		default: // the test binary
			ours++
		}
	}
	if direct(t) {
		require.NotZero(t, mpi)
		require.Zero(t, ours)
	} else {
		require.Zero(t, mpi)
		require.NotZero(t, ours)
	}
}
