package mpicomm

import (
	"fmt"

	"github.com/mpi4go/mpi4go/internal/cmpi"
)

// Class is an error class of MPI (MPI-4.1 9.4). Classes are errors themselves,
// to be used with errors.Is.
type Class int

// The error classes that the library can meet.
const (
	ErrBuffer   Class = cmpi.ClassBuffer   // MPI_ERR_BUFFER
	ErrCount    Class = cmpi.ClassCount    // MPI_ERR_COUNT
	ErrType     Class = cmpi.ClassType     // MPI_ERR_TYPE
	ErrTag      Class = cmpi.ClassTag      // MPI_ERR_TAG
	ErrComm     Class = cmpi.ClassComm     // MPI_ERR_COMM
	ErrRank     Class = cmpi.ClassRank     // MPI_ERR_RANK
	ErrRequest  Class = cmpi.ClassRequest  // MPI_ERR_REQUEST
	ErrRoot     Class = cmpi.ClassRoot     // MPI_ERR_ROOT
	ErrGroup    Class = cmpi.ClassGroup    // MPI_ERR_GROUP
	ErrOp       Class = cmpi.ClassOp       // MPI_ERR_OP
	ErrArg      Class = cmpi.ClassArg      // MPI_ERR_ARG
	ErrUnknown  Class = cmpi.ClassUnknown  // MPI_ERR_UNKNOWN
	ErrTruncate Class = cmpi.ClassTruncate // MPI_ERR_TRUNCATE
	ErrOther    Class = cmpi.ClassOther    // MPI_ERR_OTHER, and every class not listed here
	ErrIntern   Class = cmpi.ClassIntern   // MPI_ERR_INTERN
	ErrInStatus Class = cmpi.ClassInStatus // MPI_ERR_IN_STATUS
	ErrPending  Class = cmpi.ClassPending  // MPI_ERR_PENDING
	ErrNoMem    Class = cmpi.ClassNoMem    // MPI_ERR_NO_MEM
	ErrKeyval   Class = cmpi.ClassKeyval   // MPI_ERR_KEYVAL
)

var classNames = map[Class]string{
	ErrBuffer: "invalid buffer", ErrCount: "invalid count", ErrType: "invalid datatype", ErrTag: "invalid tag",
	ErrComm: "invalid communicator", ErrRank: "invalid rank", ErrRequest: "invalid request", ErrRoot: "invalid root",
	ErrGroup: "invalid group", ErrOp: "invalid operation", ErrArg: "invalid argument", ErrUnknown: "unknown error",
	ErrTruncate: "truncated", ErrOther: "other error", ErrIntern: "internal error of MPI",
	ErrInStatus: "error in status", ErrPending: "pending request", ErrNoMem: "out of memory", ErrKeyval: "invalid key",
}

// Error is the name of the class in words.
func (c Class) Error() string {
	if name, ok := classNames[c]; ok {
		return name
	}
	return fmt.Sprintf("error class %d", int(c))
}
