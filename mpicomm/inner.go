package mpicomm

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/mpi4go/mpi4go/internal/cmpi"
	"github.com/mpi4go/mpi4go/internal/device"
	"github.com/mpi4go/mpi4go/internal/inner"
	"github.com/mpi4go/mpi4go/internal/progress"
	"github.com/mpi4go/mpi4go/internal/wire"
	"github.com/mpi4go/mpi4go/mem"
)

func init() {
	inner.ThisProcess = func() (*inner.Process, error) {
		p, err := current()
		if err != nil {
			return nil, err
		}
		return &inner.Process{
			Private: p.private, Plans: p.config.Plans,
			Hosts:  p.hosts,
			Stages: p.stages,
			Takes:  func(m device.Memory) bool { return p.takes(p.able.PointToPoint, m) },
			Limits: wire.Limits{Frames: p.config.MaxFrames, Header: p.config.MaxHeader, Message: p.config.MaxMessage},
		}, nil
	}
	inner.CommOf = func(comm any, operation string, sends bool, peer, tag int) (*inner.Comm, error) {
		c, kind := comm.(*Comm), uint8(cmpi.Recv)
		if sends {
			kind = cmpi.Send
		}
		p, err := c.usable(kind)
		if err != nil {
			return nil, err
		}
		if c.known == nil {
			return nil, fmt.Errorf("%s: the other ranks cannot tell what %s is, because this library did not make it: send messages on a Dup of it", operation, c.name)
		}
		op := c.op(kind, mem.Buffer{}, peer, tag)
		return c.known, op.explain(p, operation)
	}
	inner.Later = func(comm any, sends bool, peer, tag int) (any, func(error)) {
		c, kind := comm.(*Comm), uint8(cmpi.Imrecv)
		if sends {
			kind = cmpi.Send
		}
		r := &Request{comm: c}
		spec := c.op(kind, mem.Buffer{}, peer, tag).Spec
		r.op.Later(c.p.engine, 1, func(int) progress.Spec { return spec }, func() {})
		return r, func(err error) {
			r.refused = err
			r.op.Settle(func(int) progress.Result { return progress.Result{} })
		}
	}
}

// commIDs is the largest number of a communicator that this process is in.
var commIDs atomic.Uint32

// introduce agrees on a number for a communicator, which is the only one of that
// number for each of its ranks, and tells which rank of the world each is. It is
// collective.
func (p *process) introduce(c *Comm) error {
	if c.handle == p.start.World {
		c.known = &inner.Comm{}
		return nil
	}
	mine, all := []int32{int32(p.start.Rank), int32(commIDs.Load())}, make([]int32, 2*c.size)
	if err := Allgather(context.Background(), c, mine, all); err != nil {
		return err
	}
	ranks, id := make([]int32, c.size), uint32(0)
	for i := range ranks {
		ranks[i], id = all[2*i], max(id, uint32(all[2*i+1])+1)
	}
	c.known = inner.NewComm(id, ranks)
	for {
		old := commIDs.Load()
		if old >= id || commIDs.CompareAndSwap(old, id) {
			return nil
		}
	}
}
