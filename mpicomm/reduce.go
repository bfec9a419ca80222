package mpicomm

import (
	"context"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/mpi4go/mpi4go/internal/cmpi"
	"github.com/mpi4go/mpi4go/internal/progress"
	"github.com/mpi4go/mpi4go/mem"
)

// ReduceOp is a predefined reduction operation (MPI_Op, MPI-4.1 6.9.2).
type ReduceOp int32

// The predefined operations. Max and Min are for integers and floating-point
// numbers; Sum and Prod for complex numbers as well; the logical ones (Land, Lor,
// Lxor: 0 is false, results are 0 or 1) and the bitwise ones (Band, Bor, Bxor)
// for integers; MinLoc and MaxLoc for [Loc].
const (
	Max    ReduceOp = cmpi.Max
	Min    ReduceOp = cmpi.Min
	Sum    ReduceOp = cmpi.Sum
	Prod   ReduceOp = cmpi.Prod
	Land   ReduceOp = cmpi.Land
	Band   ReduceOp = cmpi.Band
	Lor    ReduceOp = cmpi.Lor
	Bor    ReduceOp = cmpi.Bor
	Lxor   ReduceOp = cmpi.Lxor
	Bxor   ReduceOp = cmpi.Bxor
	MinLoc ReduceOp = cmpi.MinLoc
	MaxLoc ReduceOp = cmpi.MaxLoc
)

var reduceOps = [...]struct {
	name string
	on   category // what it is defined for
}{
	Max:    {"Max", integer | floating},
	Min:    {"Min", integer | floating},
	Sum:    {"Sum", integer | floating | complexNumber},
	Prod:   {"Prod", integer | floating | complexNumber},
	Land:   {"Land", integer},
	Band:   {"Band", integer},
	Lor:    {"Lor", integer},
	Bor:    {"Bor", integer},
	Lxor:   {"Lxor", integer},
	Bxor:   {"Bxor", integer},
	MinLoc: {"MinLoc", located},
	MaxLoc: {"MaxLoc", located},
}

// String is the name of the operation.
func (op ReduceOp) String() string {
	if uint(op) < uint(len(reduceOps)) {
		return reduceOps[op].name
	}
	return fmt.Sprintf("ReduceOp(%d)", int32(op))
}

// Loc is a value and where it was found, for [MinLoc] and [MaxLoc]. Of equal
// values the one with the lowest Index wins. Its memory is that of the C types
// MPI_2INT, MPI_LONG_INT, MPI_FLOAT_INT and MPI_DOUBLE_INT (MPI-4.1 6.9.4).
type Loc[T int32 | int64 | float32 | float64] struct {
	Value T
	Index int32
}

// Reducible is what collective operations work on: numbers, and [Loc] of them.
type Reducible interface {
	mem.Element | Loc[int32] | Loc[int64] | Loc[float32] | Loc[float64]
}

// category sorts the datatypes by the operations that are defined for them.
type category uint8

const (
	integer category = 1 << iota
	floating
	complexNumber
	located
)

// datatype is the predefined datatype of a Go type.
type datatype struct {
	code int32
	size int // bytes
	category
}

var datatypes = map[reflect.Type]datatype{
	reflect.TypeFor[Loc[int32]]():   {cmpi.TwoInt, 8, located},
	reflect.TypeFor[Loc[int64]]():   {cmpi.LongInt, 16, located},
	reflect.TypeFor[Loc[float32]](): {cmpi.FloatInt, 8, located},
	reflect.TypeFor[Loc[float64]](): {cmpi.DoubleInt, 16, located},
}

var numbers = [...]datatype{
	reflect.Int8:       {cmpi.Int8, 1, integer},
	reflect.Int16:      {cmpi.Int16, 2, integer},
	reflect.Int32:      {cmpi.Int32, 4, integer},
	reflect.Int64:      {cmpi.Int64, 8, integer},
	reflect.Int:        {cmpi.Int64, 8, integer},
	reflect.Uint8:      {cmpi.Uint8, 1, integer},
	reflect.Uint16:     {cmpi.Uint16, 2, integer},
	reflect.Uint32:     {cmpi.Uint32, 4, integer},
	reflect.Uint64:     {cmpi.Uint64, 8, integer},
	reflect.Uint:       {cmpi.Uint64, 8, integer},
	reflect.Float32:    {cmpi.Float, 4, floating},
	reflect.Float64:    {cmpi.Double, 8, floating},
	reflect.Complex64:  {cmpi.CFloatComplex, 8, complexNumber},
	reflect.Complex128: {cmpi.CDoubleComplex, 16, complexNumber},
}

// int and uint are taken for 64 bits.
var _ [unsafe.Sizeof(int(0)) - 8]struct{}

func datatypeOf[T Reducible]() datatype {
	t := reflect.TypeFor[T]()
	if kind := t.Kind(); kind != reflect.Struct {
		return numbers[kind]
	}
	return datatypes[t]
}

// movedAs is the datatype under which elements move without being combined. A Loc
// moves as a number of its length: MPICH 4.0.2 loses elements of MPI_DOUBLE_INT,
// whose memory has a gap, in MPI_Iscatter (TestCollectives).
func movedAs[T Reducible]() datatype {
	d := datatypeOf[T]()
	switch {
	case d.category != located:
		return d
	case d.size == 16:
		return numbers[reflect.Complex128]
	default:
		return numbers[reflect.Int64]
	}
}

// bufferOf is mem.Of for every element that a collective takes.
func bufferOf[T Reducible](s []T) mem.Buffer {
	n := len(s) * int(unsafe.Sizeof(*new(T)))
	return mem.Of(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), n))
}

// Reduce combines the elements of all ranks, place by place, and leaves the
// result in recv on the root. All ranks send as many; elsewhere recv has no
// meaning and may be nil.
//
// Errors: [ErrRoot]; [ErrCount] if recv is not as long as send on the root;
// [ErrOp] for an operation that is not defined for the type; [ErrBuffer] for
// buffers that overlap without being the same.
//
// Source: MPI_Ireduce, MPI-4.1 6.12.7.
func Reduce[T Reducible](ctx context.Context, c *Comm, send, recv []T, op ReduceOp, root int) error {
	o, err := reduceOp(c, cmpi.Reduce, send, recv, op, root)
	return suspend(ctx, o, err)
}

// Ireduce starts a [Reduce].
func Ireduce[T Reducible](c *Comm, send, recv []T, op ReduceOp, root int) (*Request, error) {
	return begin(reduceOp(c, cmpi.Reduce, send, recv, op, root))
}

// Allreduce is [Reduce] with the result on every rank.
//
// Source: MPI_Iallreduce, MPI-4.1 6.12.8.
func Allreduce[T Reducible](ctx context.Context, c *Comm, send, recv []T, op ReduceOp) error {
	o, err := reduceOp(c, cmpi.Allreduce, send, recv, op, none)
	return suspend(ctx, o, err)
}

// Iallreduce starts an [Allreduce].
func Iallreduce[T Reducible](c *Comm, send, recv []T, op ReduceOp) (*Request, error) {
	return begin(reduceOp(c, cmpi.Allreduce, send, recv, op, none))
}

// Scan leaves in recv the combination of the elements of the ranks up to and
// including this one. Errors are those of [Reduce].
//
// Source: MPI_Iscan, MPI-4.1 6.12.11.
func Scan[T Reducible](ctx context.Context, c *Comm, send, recv []T, op ReduceOp) error {
	o, err := reduceOp(c, cmpi.Scan, send, recv, op, none)
	return suspend(ctx, o, err)
}

// Iscan starts a [Scan].
func Iscan[T Reducible](c *Comm, send, recv []T, op ReduceOp) (*Request, error) {
	return begin(reduceOp(c, cmpi.Scan, send, recv, op, none))
}

// Exscan leaves in recv the combination of the elements of the ranks below this
// one. On rank 0 recv is undefined. Errors are those of [Reduce].
//
// Source: MPI_Iexscan, MPI-4.1 6.12.12.
func Exscan[T Reducible](ctx context.Context, c *Comm, send, recv []T, op ReduceOp) error {
	o, err := reduceOp(c, cmpi.Exscan, send, recv, op, none)
	return suspend(ctx, o, err)
}

// Iexscan starts an [Exscan].
func Iexscan[T Reducible](c *Comm, send, recv []T, op ReduceOp) (*Request, error) {
	return begin(reduceOp(c, cmpi.Exscan, send, recv, op, none))
}

// reduceOp describes a reduction; the root is none where every rank has a result.
func reduceOp[T Reducible](c *Comm, kind uint8, send, recv []T, op ReduceOp, root int) (Op, error) {
	d := datatypeOf[T]()
	o := c.collective(kind, bufferOf(send), progress.Coll{Type: d.code, Size: d.size, Op: int32(op), Count: len(send), Root: int32(root)})
	if root != none {
		if err := o.checkRoot(); err != nil {
			return o, err
		}
	}
	if uint(op) >= uint(len(reduceOps)) || reduceOps[op].on&d.category == 0 {
		return o, o.fail(ErrOp, "%v is not defined for %v (MPI-4.1 6.9.2)", op, reflect.TypeFor[T]())
	}
	if root != none && !o.isRoot() {
		return o, nil
	}
	if err := o.checkCount("recv", len(recv), len(send)); err != nil {
		return o, err
	}
	o.Coll.Recv = bufferOf(recv)
	return o, o.place(o.Buf, o.Coll.Recv, 0, o.Buf.Len())
}
