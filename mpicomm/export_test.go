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

// FailSend reports a failure of a short send, which was complete for its caller.
func FailSend(c *Comm, code, dest, tag int) {
	c.sendFailed(&cmpi.Op{RC: int32(code), Peer: int32(dest), Tag: int32(tag)})
}

// EnvMPI is the environment variable that chooses the library.
const EnvMPI = cmpi.EnvMPI
