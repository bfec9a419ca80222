package mpicomm_test

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/stretchr/testify/require"
)

func TestInfo(t *testing.T) {
	mpitest.NeedRanks(t, 1)
	info, err := mpicomm.Info()
	require.NoError(t, err)
	require.Equal(t, mpicomm.Version, info.Version)
	names := map[string]string{"openmpi": "Open MPI", "mpich": "MPICH|MVAPICH|MPI Library", "mpiabi": "MPI"}[info.Family]
	require.NotEmpty(t, names)
	require.Regexp(t, names, info.LibraryVersion)
	require.Contains(t, info.Library, ".so")
	require.Regexp(t, `^[345]\.\d$`, info.Standard)
	require.NotEmpty(t, info.Launcher)
	require.NotEmpty(t, info.Binding)
	if os.Getenv(mpicomm.EnvMPI) == "" {
		require.Contains(t, info.Why, "launched by "+info.Launcher)
	}
	require.Contains(t, info.GOMAXPROCS, []string{"0", "1", "2", "3", "4"}[min(4, runtime.GOMAXPROCS(0))])
	if os.Getenv("MPI4GO_THREAD_LEVEL") == "funneled" {
		require.Equal(t, mpicomm.ThreadFunneled, info.ThreadLevel)
		require.True(t, info.Funneled)
	} else {
		require.GreaterOrEqual(t, info.ThreadLevel, mpicomm.ThreadSerialized)
		require.False(t, info.Funneled)
	}
	require.NotEmpty(t, info.Settings)
	text := info.String()
	for _, want := range []string{info.LibraryVersion, info.Library, info.Why, info.Transport, info.ThreadLevel.String(), "tag limit", "quirk", "MPI4GO_SPINS"} {
		if want != "quirk" || len(info.Quirks) > 0 {
			require.Contains(t, text, want)
		}
	}
	require.Equal(t, strings.Count(text, "\n"), len(strings.Split(strings.TrimSpace(text), "\n")))
}

// hostNames are the names of the hosts of all ranks.
func hostNames(t *testing.T, c *mpicomm.Comm) []string {
	t.Helper()
	name, err := os.Hostname()
	require.NoError(t, err)
	names := make([]string, c.Size())
	for rank := range names {
		sending := isend(t, c, []byte(name), rank, 1)
		theirs, _, err := coro.RecvAlloc[byte](mpitest.Context(t), c, rank, 1)
		require.NoError(t, err)
		names[rank] = string(theirs)
		wait(t, sending)
	}
	return names
}

// TestLocalRank shows that ranks are numbered on each host by itself.
func TestLocalRank(t *testing.T) {
	comm := mpitest.Comm(t)
	info, err := mpicomm.Info()
	require.NoError(t, err)
	rank, size := 0, 0
	names := hostNames(t, comm)
	for other, name := range names {
		if name != names[comm.Rank()] {
			continue
		}
		if other < comm.Rank() {
			rank++
		}
		size++
	}
	require.Equal(t, rank, comm.LocalRank(), "hosts: %v", names)
	require.Equal(t, rank, info.LocalRank, "hosts: %v", names)
	require.Equal(t, size, info.LocalSize, "hosts: %v", names)
	if size < info.Size && strings.Contains(info.Transport, "pml ob1") {
		require.Contains(t, info.Transport, "btl tcp", "there is no other network")
	}
}

// TestTransport shows that the transport is the one that was asked for.
func TestTransport(t *testing.T) {
	mpitest.NeedRanks(t, 1)
	info, err := mpicomm.Info()
	require.NoError(t, err)
	switch {
	case strings.HasPrefix(info.LibraryVersion, "MPICH"):
		require.Contains(t, info.Transport, "device ")
	case !strings.HasPrefix(info.LibraryVersion, "Open MPI"): // others do not tell
		require.Equal(t, "unknown", info.Transport)
	case os.Getenv("OMPI_MCA_pml") == "ucx":
		require.Contains(t, info.Transport, "pml ucx")
		require.Empty(t, info.Quirks)
	default:
		require.Regexp(t, "^(pml |.*, pml )|built in", info.Transport)
		require.NotContains(t, info.Transport, "pml ucx")
		require.NotEmpty(t, info.Quirks, "ob1 writes past the end of a short receive")
	}
}

// TestInitTwice shows that Init may be called once.
func TestInitTwice(t *testing.T) {
	mpitest.NeedRanks(t, 1)
	require.ErrorIs(t, mpicomm.Init(mpicomm.Config{}), mpicomm.ErrInitialized)
	require.ErrorIs(t, mpicomm.Init(mpicomm.Config{Spins: -1}), mpicomm.ErrInitialized)
	require.True(t, mpicomm.Initialized())
}
