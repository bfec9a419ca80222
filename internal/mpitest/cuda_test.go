package mpitest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpi4go/mpi4go/internal/cuda"
	"github.com/mpi4go/mpi4go/internal/cudasim"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/stretchr/testify/require"
)

// TestCUDAOpenMPI shows, with C alone, that the configurations openmpi-cuda are what
// they say: MPI itself asks the driver about device addresses and copies what is behind
// them, in each configuration by its own way.
func TestCUDAOpenMPI(t *testing.T) {
	const library = "libmca_common_cuda" // where Open MPI calls the driver
	mpitest.EachCUDA(t, func(t *testing.T, mpi string) {
		cudasim.Needed(t)
		driver := filepath.Dir(os.Getenv(cuda.EnvLibrary))
		source, err := os.ReadFile(filepath.Join("testdata", "cuda.c"))
		require.NoError(t, err)
		program, complaint := mpitest.Compile(t, mpi, string(source),
			"-I", filepath.Join(cudasim.Dir(), "include"), "-Wl,--no-as-needed", filepath.Join(driver, "libcuda.so.1"))
		require.Empty(t, complaint)
		file := filepath.Join(t.TempDir(), "trace")
		r := mpitest.Job{MPI: mpi, Ranks: 2, Command: []string{program}, Env: []string{"CUDASIM_TRACE=" + file}}.Run(t)
		require.Equal(t, 0, r.Code)
		for _, rank := range []string{"0", "1"} {
			require.Contains(t, r.Output, "rank "+rank+": right")
		}
		trace, err := os.ReadFile(file)
		require.NoError(t, err)
		calls := map[string]int{} // of MPI
		for line := range strings.Lines(string(trace)) {
			words := strings.Fields(line)
			require.Len(t, words, 5)
			if strings.HasPrefix(words[4], library) {
				calls[words[0]]++
				continue
			}
			require.NotContains(t, []string{"cuMemcpyAsync", "cuIpcOpenMemHandle_v2", "cuPointerGetAttributes"}, words[0], "the program itself calls it")
		}
		require.NotZero(t, calls["cuPointerGetAttributes"])
		require.NotZero(t, calls["cuMemcpyAsync"])
		if mpi == "openmpi-cuda" {
			require.NotZero(t, calls["cuIpcOpenMemHandle_v2"])
		} else {
			require.Zero(t, calls["cuIpcOpenMemHandle_v2"])
		}
	})
}
