package progress

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mpi4go/mpi4go/internal/cmpi"
	"github.com/mpi4go/mpi4go/mem"
)

// Op is one operation. From Start until it is done the engine owns it and its
// buffer. An Op may be used again after it is done and Reset.
type Op struct {
	engine *Engine
	slot   *cmpi.Op // in flight, and somebody else's after that
	serial uint32   // of this use of the slot
	buf    mem.Buffer
	pin    runtime.Pinner
	pinned bool

	waiter atomic.Pointer[Waiter] // nil, who waits, or &complete
	ch     atomic.Pointer[chan struct{}]
	own    Waiter
	detach func(*cmpi.Op) // set in the owner of sends that nobody waits for

	Result
	Kind      uint8
	Comm      uint64
	Peer, Tag int
	started   *Trace // where and when, with Engine.Trace
}

// Result is the outcome of an operation, valid once it is done.
type Result struct {
	Source, RecvTag int    // of the message, for receives and probes
	Count           int    // its length in bytes
	Handle          uint64 // the matched message, or the new communicator
	Code            int    // MPI's error code, 0 for success
	Found           bool   // Improbe and Iprobe: there was a message
	Cancelled       bool
	Truncated       bool // the message was longer than the buffer
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

// Len is the length of the operation's buffer in bytes.
func (op *Op) Len() int { return op.buf.Len() }

// Started is where the operation was started, if the engine traces.
func (op *Op) Started() *Trace { return op.started }

// Init makes the operation ready to be started on a communicator.
func (op *Op) Init(e *Engine, kind uint8, comm uint64, peer, tag int, buf mem.Buffer) {
	op.engine, op.buf = e, buf
	op.Kind, op.Comm, op.Peer, op.Tag = kind, comm, peer, tag
	op.Result = Result{}
	if op.waiter.Load() != nil {
		op.waiter.Store(nil)
		op.ch.Store(nil)
	}
	s := e.slots.get(op)
	s.Reset(kind, comm, int32(peer), int32(tag))
	op.slot, op.serial = s, s.Serial
	op.load(s)
	if e.Trace {
		op.trace()
	}
}

// load gives the slot the buffer: a copy if it is short, its address otherwise.
func (op *Op) load(s *cmpi.Op) {
	n := op.buf.Len()
	s.Len = int64(n)
	if n <= cmpi.ScratchSize && op.buf.Kind() != mem.Device {
		s.Flags |= cmpi.InScratch
		if op.Kind == cmpi.Send || op.Kind == cmpi.Ssend {
			copy(s.Scratch[:], op.buf.Bytes())
		}
		return
	}
	op.buf.Pin(&op.pin)
	op.pinned = true
	s.Addr = uint64(op.buf.Addr())
}

func (op *Op) trace() {
	op.started = &Trace{At: time.Now(), Stack: make([]uintptr, 16)}
	op.started.Stack = op.started.Stack[:runtime.Callers(3, op.started.Stack)]
}

// finish takes the result out of a slot that is done and wakes who waits for
// it; it returns whether somebody did. The caller holds the lead.
func (op *Op) finish(s *cmpi.Op) (woke bool) {
	if s.Flags&cmpi.InScratch != 0 && (s.Kind == cmpi.Recv || s.Kind == cmpi.Imrecv) && s.RC == 0 {
		copy(op.buf.Bytes(), s.Scratch[:min(s.Count, s.Len)])
	}
	op.Result = Result{
		Source:    int(s.Source),
		RecvTag:   int(s.RecvTag),
		Count:     int(s.Count),
		Handle:    s.Handle,
		Code:      int(s.RC),
		Found:     s.Found != 0,
		Cancelled: s.Cancelled != 0,
		Truncated: s.Truncated != 0,
	}
	if op.pinned {
		op.pin.Unpin()
		op.pinned = false
	}
	if s.Kind != cmpi.Mprobe || s.Flags&cmpi.Reserved == 0 || s.Found == 0 {
		op.engine.slots.put(s)
	}
	waiter := op.waiter.Swap(&complete)
	if op.ch.Load() != nil {
		op.closeChan()
		woke = true
	}
	return waiter != nil && waiter.notify() || woke
}

// Again readies the slot of a reserved match (Engine.Match) for what follows
// it: cmpi.Imrecv into buf, or cmpi.Unmatch.
func (op *Op) Again(kind uint8, buf mem.Buffer) {
	op.buf, op.Kind = buf, kind
	op.waiter.Store(nil)
	op.slot.Again(kind)
	op.load(op.slot)
}

// Reserve makes a cmpi.Mprobe keep its place among the receives until Again.
func (op *Op) Reserve() { op.slot.Flags |= cmpi.Reserved }

// Matched makes a cmpi.Imrecv receive a message that Improbe or Mprobe matched.
func (op *Op) Matched(message uint64, count int) {
	op.slot.Handle, op.slot.Count = message, int64(count)
}

// Cancels makes a cmpi.Cancel name the operation that it cancels.
func (op *Op) Cancels(other *Op) { op.slot.Target(other.slot, other.serial) }
