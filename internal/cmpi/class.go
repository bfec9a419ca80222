package cmpi

/*
#include "engine.h"
*/
import "C"

// Error classes (MPI-4.1 9.4) in the Go side's numbering; 0 is success.
const (
	ClassBuffer   = C.M4G_ERR_BUFFER
	ClassCount    = C.M4G_ERR_COUNT
	ClassType     = C.M4G_ERR_TYPE
	ClassTag      = C.M4G_ERR_TAG
	ClassComm     = C.M4G_ERR_COMM
	ClassRank     = C.M4G_ERR_RANK
	ClassRequest  = C.M4G_ERR_REQUEST
	ClassRoot     = C.M4G_ERR_ROOT
	ClassGroup    = C.M4G_ERR_GROUP
	ClassOp       = C.M4G_ERR_OP
	ClassArg      = C.M4G_ERR_ARG
	ClassUnknown  = C.M4G_ERR_UNKNOWN
	ClassTruncate = C.M4G_ERR_TRUNCATE
	ClassOther    = C.M4G_ERR_OTHER
	ClassIntern   = C.M4G_ERR_INTERN
	ClassInStatus = C.M4G_ERR_IN_STATUS
	ClassPending  = C.M4G_ERR_PENDING
	ClassNoMem    = C.M4G_ERR_NO_MEM
	ClassKeyval   = C.M4G_ERR_KEYVAL
)
