package mpicomm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/mpi4go/mpi4go/internal/cmpi"
)

// ErrOrder tells, with Config.Debug, that ranks called different collective
// operations, or with different arguments, where MPI wants the same.
var ErrOrder = errors.New("the ranks called different collective operations")

// order checks, with Config.Debug, that the ranks of a communicator start the
// same collectives. Each is announced on a communicator of its own; only when
// all ranks have announced the same is it started.
type order struct {
	shadow *Comm // nil without Config.Debug

	sync.Mutex
	last chan struct{} // closed when the last operation was started, or given up
}

// call is what ranks compare.
type call struct {
	Kind     uint8
	Type, Op int16
	Root     int32
	Count    int64 // 0 where the ranks may differ
}

func (c *call) String() string {
	text := kindNames[c.Kind]
	switch c.Kind {
	case cmpi.Reduce, cmpi.Allreduce, cmpi.Scan, cmpi.Exscan:
		text += fmt.Sprintf(" (%v)", ReduceOp(c.Op))
	}
	if c.Count > 0 {
		text += fmt.Sprintf(" of %d elements of type %s", c.Count, typeNames[c.Type])
	}
	if c.Root != none {
		text += fmt.Sprintf(" with root %d", c.Root)
	}
	return text
}

var typeNames = [...]string{
	cmpi.Byte: "byte", cmpi.Int8: "int8", cmpi.Int16: "int16", cmpi.Int32: "int32", cmpi.Int64: "int64",
	cmpi.Uint8: "uint8", cmpi.Uint16: "uint16", cmpi.Uint32: "uint32", cmpi.Uint64: "uint64",
	cmpi.Float: "float32", cmpi.Double: "float64", cmpi.CFloatComplex: "complex64", cmpi.CDoubleComplex: "complex128",
	cmpi.TwoInt: "Loc[int32]", cmpi.LongInt: "Loc[int64]", cmpi.FloatInt: "Loc[float32]", cmpi.DoubleInt: "Loc[float64]",
}

func callOf(op *Op) call {
	c := call{Kind: op.Kind, Type: int16(op.Coll.Type), Op: int16(op.Coll.Op), Root: op.Coll.Root, Count: int64(op.Coll.Count)}
	switch op.Kind {
	case cmpi.Gatherv, cmpi.Allgatherv, cmpi.Scatterv, cmpi.Alltoallv:
		c.Count = 0
	}
	return c
}

// checksOrder tells whether collectives are compared before they start.
func (c *Comm) checksOrder() bool { return c != nil && c.order.shadow != nil }

// beginChecked starts a collective once every rank has announced the same.
func (c *Comm) beginChecked(op Op) (*Request, error) {
	p, err := op.check()
	if err != nil {
		return nil, err
	}
	var mine bytes.Buffer
	if err := binary.Write(&mine, binary.LittleEndian, callOf(&op)); err != nil {
		return nil, err
	}
	all := make([]byte, c.size*mine.Len())
	r := &Request{comm: c}
	var late *carrier
	if op.special() {
		if late, err = p.carry(&op); err != nil {
			return nil, err
		}
	}
	switch pieces := op.pieces(); {
	case late != nil:
		r = late.prepare()
	case pieces != nil:
		r.initSet(p, pieces)
	default:
		r.op.Init(p.engine, op.Spec)
	}
	c.order.Lock()
	defer c.order.Unlock()
	announced, err := Iallgather(c.order.shadow, mine.Bytes(), all)
	refuse := func(err error) {
		if late != nil {
			late.refuse(err)
			return
		}
		r.refused = err
		p.engine.Discard(&r.op)
	}
	if err != nil {
		refuse(err)
		return nil, err
	}
	before, now := c.order.last, make(chan struct{})
	c.order.last = now
	go func() {
		defer close(now)
		_, err := announced.Wait(context.Background())
		if before != nil {
			<-before
		}
		if err == nil {
			err = compareCalls(all)
		}
		switch {
		case err != nil:
			refuse(err)
		case late != nil:
			go late.run()
		default:
			p.engine.Begin(&r.op)
		}
	}()
	r.watch()
	return r, nil
}

// compareCalls compares what the ranks have announced.
func compareCalls(all []byte) error {
	calls := make([]call, len(all)/binary.Size(call{}))
	if err := binary.Read(bytes.NewReader(all), binary.LittleEndian, calls); err != nil {
		return err
	}
	for rank := range calls {
		if calls[rank] != calls[0] {
			return fmt.Errorf("%w: rank 0 %v, rank %d %v: start the collectives of a communicator in one order, with the same arguments, on every rank (MPI-4.1 6.14)",
				ErrOrder, &calls[0], rank, &calls[rank])
		}
	}
	return nil
}
