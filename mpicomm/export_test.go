package mpicomm

import "github.com/mpi4go/mpi4go/internal/cmpi"

// Counters are the operations that the engine has started and completed. All
// that were called before are started: where one thread makes all calls, it
// does so between the two.
func Counters() (started, completed uint64) {
	engine := self.Load().engine
	engine.Counters()
	return engine.Counters()
}

// Outstanding is the number of operations that were started and are not
// complete.
func Outstanding() int {
	started, completed := Counters()
	return int(started - completed)
}

// Polls counts the polls of the engine.
func Polls() uint64 { return self.Load().engine.Polls() }

// FailSend reports a failure of a short send, which was complete for its caller.
func FailSend(c *Comm, code, dest, tag int) {
	c.sendFailed(&cmpi.Op{RC: int32(code), Peer: int32(dest), Tag: int32(tag)})
}

// EnvMPI is the environment variable that chooses the library.
const EnvMPI = cmpi.EnvMPI

// SetPiece sets the number of elements up to which an operation is not divided,
// until the function that it returns is called.
func SetPiece(n int) (restore func()) {
	old := piece
	piece = n
	return func() { piece = old }
}

// NameInMPI is the name that MPI has for a communicator.
func NameInMPI(c *Comm) (name string, err error) {
	c.p.engine.Exclusive(func() { name, err = c.p.lib.CommName(c.handle) })
	return name, err
}

// Handle is the MPI_Comm of a communicator.
func Handle(c *Comm) uint64 { return c.handle }
