package progress

import (
	"sync"
	"sync/atomic"

	"github.com/mpi4go/mpi4go/internal/cmpi"
)

// slots hands out operations in C memory and remembers whose they are. C code
// and parked goroutines refer to each other by index, never by pointer.
//
// Free slots lie in a lock-free stack for everybody, and in a cache that only
// the goroutine with the lead touches and that needs no atomic operation.
type slots struct {
	free  atomic.Uint64 // index+1 of the first free slot, below a counter against ABA
	slabs atomic.Pointer[[]*slab]
	grow  sync.Mutex

	cache []*cmpi.Op
}

const (
	slabSize  = 256
	cacheSize = 1024
)

type slab struct {
	ops  []cmpi.Op
	next [slabSize]atomic.Uint32      // index+1 of the next free slot
	own  [slabSize]atomic.Pointer[Op] // the operation in flight: it keeps the buffer reachable
}

const indexMask = 1<<32 - 1

// get takes n free slots; they are linked by nothing.
func (s *slots) get(into []*cmpi.Op) {
	for {
		head := s.free.Load()
		first := uint32(head & indexMask)
		at := first
		n := 0
		for ; n < len(into) && at != 0; n++ {
			slab := s.slab(at - 1)
			into[n] = &slab.ops[(at-1)%slabSize]
			at = slab.next[(at-1)%slabSize].Load()
		}
		switch {
		case n < len(into):
			s.more(head)
		case s.free.CompareAndSwap(head, (head>>32+1)<<32|uint64(at)):
			return
		}
	}
}

// put returns slots whose operations are complete.
func (s *slots) put(ops ...*cmpi.Op) {
	for i, op := range ops[1:] {
		s.slab(ops[i].Index).next[ops[i].Index%slabSize].Store(op.Index + 1)
	}
	last := ops[len(ops)-1].Index
	end := &s.slab(last).next[last%slabSize]
	for {
		head := s.free.Load()
		end.Store(uint32(head))
		if s.free.CompareAndSwap(head, (head>>32+1)<<32|uint64(ops[0].Index+1)) {
			return
		}
	}
}

// take is get for one slot and the goroutine with the lead.
func (s *slots) take() *cmpi.Op {
	n := len(s.cache)
	if n == 0 {
		s.cache = append(s.cache, make([]*cmpi.Op, cacheSize/4)...)
		s.get(s.cache)
		n = len(s.cache)
	}
	op := s.cache[n-1]
	s.cache = s.cache[:n-1]
	return op
}

// give is put for one slot and the goroutine with the lead.
func (s *slots) give(op *cmpi.Op) {
	if len(s.cache) == cacheSize {
		half := s.cache[cacheSize/2:]
		s.put(half...)
		s.cache = s.cache[:cacheSize/2]
	}
	s.cache = append(s.cache, op)
}

func (s *slots) owner(op *cmpi.Op) *atomic.Pointer[Op] {
	return &s.slab(op.Index).own[op.Index%slabSize]
}

func (s *slots) slab(i uint32) *slab { return (*s.slabs.Load())[i/slabSize] }

// more adds a slab, unless somebody has put slots back since the head was read.
// Slabs are never freed: MPI may hold pointers into them.
func (s *slots) more(head uint64) {
	s.grow.Lock()
	defer s.grow.Unlock()
	if s.free.Load() != head {
		return
	}
	var old []*slab
	if p := s.slabs.Load(); p != nil {
		old = *p
	}
	base := uint32(len(old) * slabSize)
	added := &slab{ops: cmpi.NewSlab(slabSize)}
	ops := make([]*cmpi.Op, slabSize)
	for i := range added.ops {
		added.ops[i].Index = base + uint32(i)
		ops[i] = &added.ops[i]
	}
	all := append(append(make([]*slab, 0, len(old)+1), old...), added)
	s.slabs.Store(&all)
	s.put(ops...)
}

// each calls f for every operation in flight. The caller holds the lead.
func (s *slots) each(f func(*Op)) {
	p := s.slabs.Load()
	if p == nil {
		return
	}
	for _, slab := range *p {
		for i := range slab.own {
			if op := slab.own[i].Load(); op != nil {
				f(op)
			}
		}
	}
}
