package cmpi

/*
#include "engine.h"
*/
import "C"

import "unsafe"

// Coll holds the arguments of a collective operation that Op itself has no field
// for: the mirror of m4g_coll in engine.h.
type Coll struct {
	Recv                                     uint64 // address of the buffer that is received into
	Count                                    int64  // elements for each rank
	Size                                     int64  // bytes of an element
	SendCounts, SDispls, RecvCounts, RDispls uint64 // addresses of arrays of int32, or with Wide of int64
	Type, Op, Root                           int32
	InPlace, Wide                            uint8
	_                                        [2]uint8
}

// Coll is where a collective operation keeps its arguments.
func (o *Op) Coll() *Coll { return (*Coll)(unsafe.Pointer(&o.Scratch)) }

// Predefined datatypes (MPI-4.1 3.2.2 and 6.9.4).
const (
	Byte           = C.M4G_TYPE_BYTE
	Int8           = C.M4G_TYPE_INT8_T
	Int16          = C.M4G_TYPE_INT16_T
	Int32          = C.M4G_TYPE_INT32_T
	Int64          = C.M4G_TYPE_INT64_T
	Uint8          = C.M4G_TYPE_UINT8_T
	Uint16         = C.M4G_TYPE_UINT16_T
	Uint32         = C.M4G_TYPE_UINT32_T
	Uint64         = C.M4G_TYPE_UINT64_T
	Float          = C.M4G_TYPE_FLOAT
	Double         = C.M4G_TYPE_DOUBLE
	CFloatComplex  = C.M4G_TYPE_C_FLOAT_COMPLEX
	CDoubleComplex = C.M4G_TYPE_C_DOUBLE_COMPLEX
	TwoInt         = C.M4G_TYPE_2INT
	LongInt        = C.M4G_TYPE_LONG_INT
	FloatInt       = C.M4G_TYPE_FLOAT_INT
	DoubleInt      = C.M4G_TYPE_DOUBLE_INT
)

// Predefined reduction operations (MPI-4.1 6.9.2).
const (
	Max    = C.M4G_OP_MAX
	Min    = C.M4G_OP_MIN
	Sum    = C.M4G_OP_SUM
	Prod   = C.M4G_OP_PROD
	Land   = C.M4G_OP_LAND
	Band   = C.M4G_OP_BAND
	Lor    = C.M4G_OP_LOR
	Bor    = C.M4G_OP_BOR
	Lxor   = C.M4G_OP_LXOR
	Bxor   = C.M4G_OP_BXOR
	MinLoc = C.M4G_OP_MINLOC
	MaxLoc = C.M4G_OP_MAXLOC
)
