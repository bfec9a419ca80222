package mpicomm

import "github.com/mpi4go/mpi4go/internal/cmpi"

// Special ranks and tags, the same numbers whatever the MPI library uses.
const (
	// AnySource receives from any rank (MPI_ANY_SOURCE).
	AnySource = cmpi.AnySource
	// ProcNull is the rank of nobody (MPI_PROC_NULL, MPI-4.1 3.10): operations
	// with it complete at once and move nothing.
	ProcNull = cmpi.ProcNull
	// AnyTag receives a message with any tag (MPI_ANY_TAG).
	AnyTag = cmpi.AnyTag
)

// Status describes a message that was received or probed (MPI_Status, MPI-4.1
// 3.2.5).
type Status struct {
	Source int // the rank that sent it
	Tag    int
	Count  int // its length in bytes
}
