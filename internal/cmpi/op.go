package cmpi

/*
#include "engine.h"
*/
import "C"

import (
	"unsafe"
)

// ScratchSize is the length in bytes up to which a message travels through
// Op.Scratch.
const ScratchSize = C.M4G_SCRATCH

// Op is one operation, in C memory: the mirror of m4g_op in engine.h.
type Op struct {
	Next    uint64 // address of the next operation of a chain or of the done list, or 0
	link    uint64
	Comm    uint64
	Addr    uint64
	Len     int64
	Handle  uint64
	head    uint64
	peers   uint64
	Count   int64
	Index   uint32
	Waiter  uint32
	Peer    int32
	Tag     int32
	Source  int32
	RecvTag int32
	RC      int32
	Serial  uint32

	Kind, Flags, state          uint8
	Found, Cancelled, Truncated uint8
	_                           [6]uint8
	remaining                   uint32

	Scratch [ScratchSize + 8]byte
}

// Kinds of operations; see enum m4g_kind.
const (
	Send    = C.M4G_SEND
	Ssend   = C.M4G_SSEND
	Recv    = C.M4G_RECV
	Imrecv  = C.M4G_IMRECV
	Mprobe  = C.M4G_MPROBE
	Probe   = C.M4G_PROBE
	Improbe = C.M4G_IMPROBE
	Iprobe  = C.M4G_IPROBE
	Unmatch = C.M4G_UNMATCH
	Cancel  = C.M4G_CANCEL
	Dup     = C.M4G_DUP
	Barrier = C.M4G_BARRIER

	Bcast      = C.M4G_BCAST
	Reduce     = C.M4G_REDUCE
	Allreduce  = C.M4G_ALLREDUCE
	Scan       = C.M4G_SCAN
	Exscan     = C.M4G_EXSCAN
	Gather     = C.M4G_GATHER
	Gatherv    = C.M4G_GATHERV
	Allgather  = C.M4G_ALLGATHER
	Allgatherv = C.M4G_ALLGATHERV
	Scatter    = C.M4G_SCATTER
	Scatterv   = C.M4G_SCATTERV
	Alltoall   = C.M4G_ALLTOALL
	Alltoallv  = C.M4G_ALLTOALLV
)

// Flags of operations; see enum m4g_flag.
const (
	InScratch = C.M4G_IN_SCRATCH
	Detached  = C.M4G_DETACHED
	Reserved  = C.M4G_RESERVED
	Fits      = C.M4G_FITS
	InParts   = C.M4G_IN_PARTS
	OnDevice  = C.M4G_ON_DEVICE
)

// NewSlab allocates n operations. They are never freed: MPI or a sleeping peer
// may still write to one.
func NewSlab(n int) []Op {
	p := C.m4g_op_slab(C.int(n))
	if p == nil {
		panic("mpi4go: out of memory")
	}
	return unsafe.Slice((*Op)(unsafe.Pointer(p)), n)
}

func opAt(address uint64) *Op { return *(**Op)(unsafe.Pointer(&address)) }

// Buffer is the memory that the operation names.
func (o *Op) Buffer() []byte { return unsafe.Slice(*(**byte)(unsafe.Pointer(&o.Addr)), o.Len) }

// Parts are the memory of a send or a receive that is not contiguous: the mirror
// of m4g_parts in engine.h.
type Parts struct {
	Addresses, Lengths uint64 // of arrays of int64 and of int32, an element for each part
	N                  int32
	_                  int32
}

// Parts is where an operation with InParts keeps them.
func (o *Op) Parts() *Parts { return (*Parts)(unsafe.Pointer(&o.Scratch)) }

// NextOp is the operation after o in a chain or in the done list, or nil.
func (o *Op) NextOp() *Op { return opAt(o.Next) }

// Join makes o part of the set of n operations that head begins. Only the head
// shows up among what is done, when all of them are.
func (o *Op) Join(head *Op, n int) {
	o.head = uint64(uintptr(unsafe.Pointer(head)))
	if o == head {
		o.remaining = uint32(n)
	}
}

// Link makes o precede next in a chain.
func (o *Op) Link(next *Op) { o.Next = uint64(uintptr(unsafe.Pointer(next))) }

// Reset makes the slot ready for a new operation, keeping Index. The peers are
// those of the communicator.
func (o *Op) Reset(kind uint8, comm uint64, peers Peers, peer, tag int32) {
	o.Next, o.Comm, o.Addr, o.Len, o.Handle, o.head, o.Count = 0, comm, 0, 0, 0, 0, 0
	o.peers = uint64(peers)
	o.Waiter = o.Index + 1
	o.Peer, o.Tag, o.RC = peer, tag, 0
	o.Serial++
	o.Kind, o.Flags, o.state = kind, 0, 0
	o.Found, o.Cancelled, o.Truncated = 0, 0, 0
}

// Finished tells whether the use of the slot under a serial number is complete.
func (o *Op) Finished(serial uint32) bool { return o.Serial != serial || o.state == C.M4G_DONE }

// Again makes the slot of a reserved match ready for what follows it: Imrecv or
// Unmatch. The operation keeps its place among the waiting receives until then.
func (o *Op) Again(kind uint8) {
	o.Next = 0
	o.Waiter = o.Index + 1
	o.Kind, o.Flags, o.Cancelled, o.Truncated = kind, 0, 0, 0
}

// Target makes o cancel the operation that used another slot under a serial
// number, if it still does.
func (o *Op) Target(other *Op, serial uint32) {
	o.Addr, o.Handle = uint64(uintptr(unsafe.Pointer(other))), uint64(serial)
}

// The layouts of Op, Parts, Coll and Patience are those of their C mirrors, or this does not compile.
var (
	_ [unsafe.Sizeof(Op{}) - C.sizeof_m4g_op]struct{}
	_ [C.sizeof_m4g_op - unsafe.Sizeof(Op{})]struct{}
	_ [unsafe.Offsetof(Op{}.Scratch) - unsafe.Offsetof(C.m4g_op{}.scratch)]struct{}
	_ [unsafe.Offsetof(Op{}.RC) - unsafe.Offsetof(C.m4g_op{}.rc)]struct{}
	_ [unsafe.Offsetof(Op{}.Index) - unsafe.Offsetof(C.m4g_op{}.index)]struct{}
	_ [unsafe.Offsetof(Op{}.Truncated) - unsafe.Offsetof(C.m4g_op{}.truncated)]struct{}
	_ [unsafe.Sizeof(Coll{}) - C.sizeof_m4g_coll]struct{}
	_ [C.sizeof_m4g_coll - unsafe.Sizeof(Coll{})]struct{}
	_ [unsafe.Offsetof(Coll{}.Wide) - unsafe.Offsetof(C.m4g_coll{}.wide)]struct{}
	_ [unsafe.Sizeof(Parts{}) - C.sizeof_m4g_parts]struct{}
	_ [C.sizeof_m4g_parts - unsafe.Sizeof(Parts{})]struct{}
	_ [unsafe.Sizeof(Patience{}) - C.sizeof_m4g_patience]struct{}
	_ [C.sizeof_m4g_patience - unsafe.Sizeof(Patience{})]struct{}
)
