package progress

import (
	"sync"
	"sync/atomic"

	"github.com/mpi4go/mpi4go/internal/cmpi"
)

// slots hands out operations in C memory and remembers whose they are. C code
// and parked goroutines refer to each other by index, never by pointer.
type slots struct {
	free  atomic.Uint64 // index+1 of the first free slot, below a counter against ABA
	slabs atomic.Pointer[[]*slab]
	grow  sync.Mutex
}

const slabSize = 256

type slab struct {
	ops  []cmpi.Op
	next [slabSize]atomic.Uint32 // index+1 of the next free slot
	own  [slabSize]*Op           // the operation in flight: it keeps the buffer reachable
}

const indexMask = 1<<32 - 1

// get takes a free slot for an operation.
func (s *slots) get(owner *Op) *cmpi.Op {
	for {
		head := s.free.Load()
		if head&indexMask == 0 {
			s.more()
			continue
		}
		i := uint32(head&indexMask) - 1
		slab := s.slab(i)
		next := uint64(slab.next[i%slabSize].Load())
		if s.free.CompareAndSwap(head, (head>>32+1)<<32|next) {
			slab.own[i%slabSize] = owner
			return &slab.ops[i%slabSize]
		}
	}
}

// put returns a slot whose operation is complete.
func (s *slots) put(op *cmpi.Op) {
	i := op.Index
	slab := s.slab(i)
	slab.own[i%slabSize] = nil
	for {
		head := s.free.Load()
		slab.next[i%slabSize].Store(uint32(head))
		if s.free.CompareAndSwap(head, (head>>32+1)<<32|uint64(i+1)) {
			return
		}
	}
}

func (s *slots) owner(op *cmpi.Op) *Op { return s.slab(op.Index).own[op.Index%slabSize] }

func (s *slots) slab(i uint32) *slab { return (*s.slabs.Load())[i/slabSize] }

// more adds a slab. Slabs are never freed: MPI may hold pointers into them.
func (s *slots) more() {
	s.grow.Lock()
	defer s.grow.Unlock()
	if s.free.Load()&indexMask != 0 {
		return
	}
	var old []*slab
	if p := s.slabs.Load(); p != nil {
		old = *p
	}
	base := uint32(len(old) * slabSize)
	added := &slab{ops: cmpi.NewSlab(slabSize)}
	for i := range added.ops {
		added.ops[i].Index = base + uint32(i)
	}
	all := append(append(make([]*slab, 0, len(old)+1), old...), added)
	s.slabs.Store(&all)
	for i := range added.ops {
		s.put(&added.ops[len(added.ops)-1-i])
	}
}

// each calls f for every operation in flight. The caller holds the lead.
func (s *slots) each(f func(*Op, *cmpi.Op)) {
	p := s.slabs.Load()
	if p == nil {
		return
	}
	for _, slab := range *p {
		for i, op := range slab.own {
			if op != nil {
				f(op, &slab.ops[i])
			}
		}
	}
}
