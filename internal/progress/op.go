package progress

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/mpi4go/mpi4go/internal/cmpi"
	"github.com/mpi4go/mpi4go/mem"
)

// Spec describes an operation.
type Spec struct {
	Kind      uint8 // of cmpi's kinds
	Comm      uint64
	Peers     cmpi.Peers // of Comm
	Peer, Tag int
	Buf       mem.Buffer // what is sent or received
	Coll      *Coll      // of a collective operation
	Parts     *Parts     // of a send or a receive whose memory is not contiguous; Buf then has none
	Fits      bool       // no message for this receive is longer than its buffer
	Ready     bool       // whatever the memory is, it is ready, and MPI takes it
	Bound     bool       // what it meets is on its way: it is not cancelled when a context ends
	Posted    func()     // of the first of a set, for DoSet: called once its order among all operations is fixed
}

// Parts are buffers that travel as one message.
type Parts struct {
	Buffers   []mem.Buffer // of at most 2^31-1 bytes each
	Bytes     int          // of all of them
	addresses []int64
	lengths   []int32
}

// NewParts prepares buffers for an operation.
func NewParts(buffers []mem.Buffer) *Parts {
	p := &Parts{Buffers: buffers, addresses: make([]int64, len(buffers)), lengths: make([]int32, len(buffers))}
	for i, b := range buffers {
		p.addresses[i], p.lengths[i] = int64(b.Addr()), int32(b.Len())
		p.Bytes += b.Len()
	}
	return p
}

// pin keeps the buffers where they are until the pinner lets go.
func (p *Parts) pin(pin *runtime.Pinner) {
	for _, b := range p.Buffers {
		b.Pin(pin)
	}
	if len(p.Buffers) > 0 {
		pin.Pin(&p.addresses[0])
		pin.Pin(&p.lengths[0])
	}
}

// load gives a slot the parts.
func (p *Parts) load(s *cmpi.Op) {
	s.Len = int64(p.Bytes)
	s.Flags |= cmpi.InParts
	*s.Parts() = cmpi.Parts{
		Addresses: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(p.addresses)))),
		Lengths:   uint64(uintptr(unsafe.Pointer(unsafe.SliceData(p.lengths)))),
		N:         int32(len(p.Buffers)),
	}
}

// Coll is what a collective operation has besides its Spec.
type Coll struct {
	Type, Op, Root int32 // of cmpi's numbering
	InPlace        bool
	Count, Size    int        // elements for each rank, bytes of one
	Recv           mem.Buffer // what is received into, if not Spec.Buf

	// An element for each rank, or none.
	SendCounts, SDispls, RecvCounts, RDispls Ints
	Wide                                     bool // they are of 64 bits
}

// Ints are counts or displacements, of 32 bits or of 64: one of the two is nil.
type Ints struct {
	Narrow []int32
	Wide   []int64
}

func (a *Ints) pointer() unsafe.Pointer {
	if a.Wide != nil {
		return unsafe.Pointer(unsafe.SliceData(a.Wide))
	}
	return unsafe.Pointer(unsafe.SliceData(a.Narrow))
}

func (a *Ints) addr() uint64 { return uint64(uintptr(a.pointer())) }

// pin keeps the buffers where they are until the pinner lets go.
func (c *Coll) pin(p *runtime.Pinner) {
	c.Recv.Pin(p)
	for _, a := range []*Ints{&c.SendCounts, &c.SDispls, &c.RecvCounts, &c.RDispls} {
		if at := a.pointer(); at != nil {
			p.Pin(at)
		}
	}
}

// short tells whether the bytes travel through the slot's scratch.
func (s *Spec) short() bool {
	return s.Buf.Len() <= cmpi.ScratchSize && !s.onDevice() && s.Coll == nil && s.Parts == nil
}

// onDevice tells whether only MPI and the device may touch the bytes.
func (s *Spec) onDevice() bool { return s.Buf.Kind() == mem.Device || s.Buf.Kind() == mem.Managed }

func (s *Spec) sends() bool { return s.Kind == cmpi.Send || s.Kind == cmpi.Ssend }

// Op is an operation, or a set of them that completes together. From Start
// until it is done the engine owns it and its buffers.
type Op struct {
	engine *Engine
	part          // the operation, or the first of the set
	rest   []part // the others of the set
	pin    runtime.Pinner
	pinned bool

	waiter  atomic.Pointer[Waiter] // nil, who waits, or &complete
	ch      atomic.Pointer[chan struct{}]
	own     Waiter // of the goroutine that has set awaited
	awaited atomic.Bool
	detach  func(*cmpi.Op) // set in the owner of sends that nobody waits for
	started *Trace         // where and when, with Config.Trace
	isPart  bool           // see Part
}

// part is one operation of a set.
type part struct {
	Spec
	Result
	slot   *cmpi.Op // in flight, and somebody else's after that
	serial uint32   // of this use of the slot
}

// Result is the outcome of an operation, valid once it is done.
type Result struct {
	Count                       int64  // bytes of the message, for receives and probes
	Handle                      uint64 // the matched message, or the new communicator
	Source, RecvTag             int32  // of the message
	Code                        int32  // MPI's error code, 0 for success
	Found, Cancelled, Truncated bool
}

// Trace says where an operation was started.
type Trace struct {
	At    time.Time
	Stack []uintptr
}

// complete is what Op.waiter holds once the operation is done.
var complete Waiter

// Done tells whether the operation is complete, without looking at MPI.
func (op *Op) Done() bool { return op.waiter.Load() == &complete }

// Complete makes an operation that is done without ever having been started.
func (op *Op) Complete(spec Spec) {
	op.Spec = spec
	op.waiter.Store(&complete)
}

// Chan is closed when the operation is done. It is made on the first call.
func (op *Op) Chan() <-chan struct{} {
	if p := op.ch.Load(); p != nil {
		return *p
	}
	made := make(chan struct{})
	if !op.ch.CompareAndSwap(nil, &made) {
		return *op.ch.Load()
	}
	if op.Done() {
		op.closeChan()
	}
	return made
}

// closing makes sure that a channel is closed once, by the engine or by Chan.
var closing sync.Mutex

func (op *Op) closeChan() {
	closing.Lock()
	defer closing.Unlock()
	p := op.ch.Load()
	select {
	case <-*p:
	default:
		close(*p)
	}
}

// N is the number of operations in the set, 1 for a single one.
func (op *Op) N() int { return 1 + len(op.rest) }

// At is the description and the outcome of the i-th operation of the set.
func (op *Op) At(i int) (*Spec, *Result) {
	p := op.at(i)
	return &p.Spec, &p.Result
}

func (op *Op) at(i int) *part {
	if i == 0 {
		return &op.part
	}
	return &op.rest[i-1]
}

// Started is where the operation was started, if the engine traces.
func (op *Op) Started() *Trace { return op.started }

// Init makes an operation ready to be started.
func (op *Op) Init(e *Engine, spec Spec) {
	op.reset(e, spec)
	var slot [1]*cmpi.Op
	e.slots.get(slot[:])
	op.fill(&op.part, slot[0])
	e.slots.owner(slot[0]).Store(op)
}

// InitSet makes a set of n operations ready to be started.
func (op *Op) InitSet(e *Engine, n int, spec func(i int) Spec) {
	op.reset(e, spec(0))
	op.rest = slices.Grow(op.rest, n-1)[:n-1]
	slots := make([]*cmpi.Op, n)
	e.slots.get(slots)
	for i, s := range slots {
		p := op.at(i)
		if i > 0 {
			p.Spec = spec(i)
			slots[i-1].Link(s)
		}
		op.fill(p, s)
		s.Join(slots[0], n)
	}
	e.slots.owner(slots[0]).Store(op)
}

// attachSet takes over slots that carry a set already.
func (op *Op) attachSet(e *Engine, slots []*cmpi.Op, spec func(i int) Spec) {
	op.reset(e, spec(0))
	op.rest = slices.Grow(op.rest, len(slots)-1)[:len(slots)-1]
	for i, s := range slots {
		p := op.at(i)
		if i > 0 {
			p.Spec = spec(i)
		}
		p.slot, p.serial = s, s.Serial
		if s.Flags&cmpi.InScratch == 0 {
			op.keep(p)
		}
	}
	e.slots.owner(slots[0]).Store(op)
}

func (op *Op) reset(e *Engine, spec Spec) {
	op.engine, op.Spec, op.Result = e, spec, Result{}
	op.rest = op.rest[:0]
	if op.waiter.Load() != nil {
		op.waiter.Store(nil)
		op.ch.Store(nil)
	}
	if e.Trace {
		op.started = &Trace{At: time.Now(), Stack: make([]uintptr, 16)}
		op.started.Stack = op.started.Stack[:runtime.Callers(4, op.started.Stack)]
	}
}

// Clear lets go of the buffers of an operation that is done, before it is kept
// for reuse.
func (op *Op) Clear() {
	op.Buf, op.Coll, op.Parts = mem.Buffer{}, nil, nil
	clear(op.rest)
}

// Finished tells whether the i-th operation of a set in flight is complete.
func (op *Op) Finished(i int) bool {
	p := op.at(i)
	return op.Done() || p.slot != nil && p.slot.Finished(p.serial)
}

// fill makes a slot carry an operation.
func (op *Op) fill(p *part, s *cmpi.Op) {
	p.reset(s)
	p.slot, p.serial = s, s.Serial
	op.load(p)
}

// attach takes over a slot that carries an operation already.
func (op *Op) attach(e *Engine, spec *Spec, s *cmpi.Op) {
	op.reset(e, *spec)
	op.slot, op.serial = s, s.Serial
	if s.Flags&cmpi.InScratch == 0 {
		op.keep(&op.part)
	}
	e.slots.owner(s).Store(op)
}

// load gives the slot of a part its buffer.
func (op *Op) load(p *part) {
	p.Spec.load(p.slot)
	if p.slot.Flags&cmpi.InScratch == 0 {
		op.keep(p)
	}
}

// keep pins a buffer until the operation is done.
func (op *Op) keep(p *part) {
	p.Buf.Pin(&op.pin)
	if p.Coll != nil {
		p.Coll.pin(&op.pin)
	}
	if p.Parts != nil {
		p.Parts.pin(&op.pin)
	}
	op.pinned = true
}

// reset makes a slot ready for the operation, without its buffer.
func (spec *Spec) reset(s *cmpi.Op) {
	s.Reset(spec.Kind, spec.Comm, spec.Peers, int32(spec.Peer), int32(spec.Tag))
}

// load gives a slot the buffer: a copy if it is short, its address otherwise.
func (spec *Spec) load(s *cmpi.Op) {
	s.Len, s.Addr = int64(spec.Buf.Len()), uint64(spec.Buf.Addr())
	if spec.Coll != nil {
		spec.Coll.load(s)
	}
	if spec.Parts != nil {
		spec.Parts.load(s)
	}
	if spec.Fits {
		s.Flags |= cmpi.Fits
	}
	if spec.onDevice() {
		s.Flags |= cmpi.OnDevice
	}
	if !spec.short() {
		return
	}
	s.Flags |= cmpi.InScratch
	if spec.sends() {
		copy(s.Scratch[:], spec.Buf.Bytes())
	}
}

// load gives a slot the arguments of a collective operation.
func (c *Coll) load(s *cmpi.Op) {
	s.Len = max(s.Len, int64(c.Recv.Len()))
	to := s.Coll()
	*to = cmpi.Coll{
		Recv: uint64(c.Recv.Addr()), Count: int64(c.Count), Size: int64(c.Size),
		SendCounts: c.SendCounts.addr(), SDispls: c.SDispls.addr(), RecvCounts: c.RecvCounts.addr(), RDispls: c.RDispls.addr(),
		Type: c.Type, Op: c.Op, Root: c.Root,
	}
	if c.InPlace {
		to.InPlace = 1
	}
	if c.Wide {
		to.Wide = 1
	}
}

// finish takes the results out of the slots and wakes who waits; it returns
// whether that was a waiter. The caller holds the lead.
func (op *Op) finish() bool {
	e, s := op.engine, op.slot
	reserved := s.Kind == cmpi.Mprobe && s.Flags&cmpi.Reserved != 0 && s.Found != 0
	op.take()
	if !reserved {
		e.slots.owner(s).Store(nil)
		e.slots.give(s)
	}
	for i := range op.rest {
		p := &op.rest[i]
		p.take()
		e.slots.give(p.slot)
	}
	if op.pinned {
		op.pin.Unpin()
		op.pinned = false
	}
	waiter := op.waiter.Swap(&complete)
	if op.ch.Load() != nil {
		op.closeChan()
	}
	return waiter != nil && waiter.notify()
}

// take reads the outcome.
func (p *part) take() {
	s := p.slot
	p.Result = ResultOf(s)
	received(s)
}

// ResultOf is the outcome that a slot carries.
func ResultOf(s *cmpi.Op) Result {
	return Result{
		Count:     s.Count,
		Handle:    s.Handle,
		Source:    s.Source,
		RecvTag:   s.RecvTag,
		Code:      s.RC,
		Found:     s.Found != 0,
		Cancelled: s.Cancelled != 0,
		Truncated: s.Truncated != 0,
	}
}

// received copies a short message out of the scratch. Something else keeps the
// buffer where it is.
func received(s *cmpi.Op) {
	if s.Flags&cmpi.InScratch != 0 && s.Kind != cmpi.Send && s.Kind != cmpi.Ssend && s.RC == 0 && s.Count > 0 {
		copy(s.Buffer(), s.Scratch[:min(s.Count, s.Len)])
	}
}

// Reserve makes a cmpi.Mprobe keep its place among the receives until Again.
func (op *Op) Reserve() { op.slot.Flags |= cmpi.Reserved }

// Again readies the slot of a reserved match for what follows it: cmpi.Imrecv
// into buf, or cmpi.Unmatch.
func (op *Op) Again(kind uint8, buf mem.Buffer) {
	op.Buf, op.Kind = buf, kind
	op.waiter.Store(nil)
	op.slot.Again(kind)
	op.load(&op.part)
}

// Matched makes a cmpi.Imrecv receive a message that Improbe or Mprobe matched.
func (op *Op) Matched(message uint64, count int64) {
	op.slot.Handle, op.slot.Count = message, count
}

// Cancels makes a cmpi.Cancel name the operation that it cancels: the i-th of
// another set.
func (op *Op) Cancels(other *Op, i int) {
	p := other.at(i)
	op.slot.Target(p.slot, p.serial)
}
