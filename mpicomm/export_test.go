package mpicomm

import "github.com/mpi4go/mpi4go/internal/cmpi"

// Counters are the operations that the engine has started and completed.
func Counters() (started, completed uint64) { return self.Load().engine.Counters() }

// Outstanding is the number of operations that were started and are not
// complete.
func Outstanding() int {
	started, completed := Counters()
	return int(started - completed)
}

// ErrorString is what MPI itself says of an error code.
func ErrorString(code int) string { return self.Load().lib.ErrorString(code) }

// EnvMPI is the environment variable that chooses the library.
const EnvMPI = cmpi.EnvMPI
