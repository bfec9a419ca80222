package mpitest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/mpi4go/mpi4go/internal/cuda"
	"github.com/mpi4go/mpi4go/internal/cudasim"
)

// cudaLauncher is the mpirun of what scripts/cuda-openmpi has built, or "".
func cudaLauncher() string {
	prefix, err := exec.Command(filepath.Join(cudasim.Dir(), "..", "..", "..", "scripts", "cuda-openmpi"), "--where").Output()
	if err != nil {
		return ""
	}
	return filepath.Join(strings.TrimSpace(string(prefix)), "bin", "mpirun")
}

// cudaEnvironment lets an MPI library find the driver that MPI4GO_CUDA names.
func cudaEnvironment() []string {
	library := os.Getenv(cuda.EnvLibrary)
	if library == "" {
		return nil
	}
	path := filepath.Dir(library)
	if more := os.Getenv("LD_LIBRARY_PATH"); more != "" {
		path += ":" + more
	}
	return []string{"LD_LIBRARY_PATH=" + path}
}
