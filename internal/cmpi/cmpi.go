package cmpi

/*
#cgo CFLAGS: -Wall -Wextra
#cgo LDFLAGS: -ldl
#cgo nocallback call_poll
#cgo nocallback m4g_drive
#cgo noescape m4g_drive
#cgo nocallback m4g_ring
#include <stdlib.h>
#include "engine.h"

// Addresses travel as integers: cgo would check pointers at every call.
static uint64_t call_poll(uint64_t e, uint64_t chain, uint32_t target, uint32_t want, uint32_t spins) {
  return ((m4g_engine *)(uintptr_t)e)->family->poll((m4g_engine *)(uintptr_t)e, (m4g_op *)(uintptr_t)chain, target, want, spins, 0);
}
static int call_init_thread(const m4g_family *f, int required) { M4G_CALL(int, f->init_thread(required)); }
static int call_init(const m4g_family *f, m4g_start *s, int ours) { M4G_CALL(int, (f->init(s, ours), s->rc)); }
static int call_agree(const m4g_family *f, uint64_t comm, const char *mine, char *all, int width) { M4G_CALL(int, f->agree(comm, mine, all, width)); }
static int call_finalize(const m4g_family *f) { M4G_CALL(int, f->finalize()); }
static int call_abort(const m4g_family *f, uint64_t comm, int code) { M4G_CALL(int, f->abort(comm, code)); }
static int call_error_class(const m4g_family *f, int code) { return f->error_class(code); }
static void call_error_string(const m4g_family *f, int code, char *text, int size) { f->error_string(code, text, size); }
static void call_version(const m4g_family *f, char *text, int size, int *major, int *minor) { f->version(text, size, major, minor); }
static int call_initialized(const m4g_family *f) { return f->initialized(); }
static int call_finalized(const m4g_family *f) { return f->finalized(); }
*/
import "C"

import (
	"sync/atomic"
	"unsafe"
)

// Ranks and tags in the Go side's numbering, whatever the family's is.
const (
	AnySource = C.M4G_ANY_SOURCE
	ProcNull  = C.M4G_PROC_NULL
	AnyTag    = C.M4G_ANY_TAG
)

// Thread levels of MPI_Init_thread in the Go side's numbering.
const (
	ThreadSingle = iota
	ThreadFunneled
	ThreadSerialized
	ThreadMultiple
)

// Library is an MPI library that has been loaded.
type Library struct {
	Path    string // what was loaded: a soname or a path
	Family  string // "openmpi", "mpiabi" or "mpich"
	Why     string // why this one
	Version string // MPI_Get_library_version, its first line
	Major   int    // MPI_Get_version
	Minor   int
	family  *C.m4g_family
	handle  unsafe.Pointer // of dlopen
}

// Start is what MPI_Init_thread and the calls after it tell.
type Start struct {
	Provided             int // thread level
	Rank, Size           int
	LocalRank, LocalSize int
	TagUB                int
	World, Private       uint64 // MPI_COMM_WORLD and the library's duplicate of it
}

// CallError is an MPI call that failed.
type CallError struct {
	Call  string // such as "MPI_Comm_dup(...)"
	Class int    // of the Class constants
	Code  int    // the library's own error code
	Text  string // MPI_Error_string
}

func (e *CallError) Error() string { return e.Call + ": " + e.Text }

// InitThread calls MPI_Init_thread. It is collective and blocks.
func (l *Library) InitThread(required int) error {
	if rc := C.call_init_thread(l.family, C.int(required)); rc != 0 {
		return l.callError("MPI_Init_thread", int(rc))
	}
	return nil
}

// Init makes the communicators that the library needs of an initialised MPI. In
// one that is ours it makes errors return. It is collective and blocks.
func (l *Library) Init(ours bool) (Start, error) {
	var s C.m4g_start
	whose := C.int(0)
	if ours {
		whose = 1
	}
	for _, q := range l.Quirks() {
		s.quirks |= C.uint32_t(q.Bit)
	}
	if rc := C.call_init(l.family, &s, whose); rc != 0 {
		return Start{}, l.callError(C.GoString(s.failed), int(rc))
	}
	return Start{
		Provided:  int(s.provided),
		Rank:      int(s.rank),
		Size:      int(s.size),
		LocalRank: int(s.local_rank),
		LocalSize: int(s.local_size),
		TagUB:     int(s.tag_ub),
		World:     uint64(s.world),
		Private:   uint64(s.private_comm),
	}, nil
}

func (l *Library) callError(call string, code int) *CallError {
	return &CallError{Call: call, Class: l.ErrorClass(code), Code: code, Text: l.ErrorString(code)}
}

// Agree gathers width bytes of every rank (MPI_Allgather). It blocks.
func (l *Library) Agree(comm uint64, size int, mine []byte) ([]byte, error) {
	all := make([]byte, size*len(mine))
	rc := C.call_agree(l.family, C.uint64_t(comm), (*C.char)(unsafe.Pointer(&mine[0])), (*C.char)(unsafe.Pointer(&all[0])), C.int(len(mine)))
	if rc != 0 {
		return nil, l.callError("MPI_Allgather", int(rc))
	}
	return all, nil
}

// Finalize calls MPI_Finalize.
func (l *Library) Finalize() error {
	if rc := C.call_finalize(l.family); rc != 0 {
		return l.callError("MPI_Finalize", int(rc))
	}
	for _, q := range l.Quirks() {
		if q.Bit == QuirkFinalizedAtExit {
			tellLauncher()
		}
	}
	return nil
}

// Abort calls MPI_Abort, which as a rule does not return.
func (l *Library) Abort(comm uint64, code int) {
	C.call_abort(l.family, C.uint64_t(comm), C.int(code))
}

// Initialized calls MPI_Initialized.
func (l *Library) Initialized() bool { return C.call_initialized(l.family) != 0 }

// Finalized calls MPI_Finalized.
func (l *Library) Finalized() bool { return C.call_finalized(l.family) != 0 }

// ErrorClass is the class of an error code, one of the Class constants.
func (l *Library) ErrorClass(code int) int { return int(C.call_error_class(l.family, C.int(code))) }

// ErrorString is MPI's own description of an error code.
func (l *Library) ErrorString(code int) string {
	var text [1024]C.char
	C.call_error_string(l.family, C.int(code), &text[0], C.int(len(text)))
	return C.GoString(&text[0])
}

func (l *Library) readVersion() {
	var text [8192]C.char
	var major, minor C.int
	C.call_version(l.family, &text[0], C.int(len(text)), &major, &minor)
	l.Version, l.Major, l.Minor = C.GoString(&text[0]), int(major), int(minor)
}

// Restack makes the handler that C code installed for a signal run on the
// alternate stack, without which a signal in a goroutine crashes the process.
func Restack(signal int) { C.m4g_restack(C.int(signal)) }

// Engine is the part of the progress engine that lives in C memory. Its lead
// says who may call MPI: whoever moves it from LeadFree to something else.
type Engine struct {
	c  *C.m4g_engine
	at C.uint64_t // the address of *c
	// Into *c, for use without a call across the language boundary.
	Lead        *atomic.Uint32
	Preempt     *atomic.Uint32
	Epoch       *atomic.Uint64
	stack       *atomic.Uint64
	outstanding *atomic.Int64
	left        *uint32
	coarse      *int64
	large       *int64
	rested      int64 // when a goroutine with the lead last yielded, in coarse milliseconds
	napping     *atomic.Uint32
	stop        *atomic.Uint32
}

// The states of Engine.Lead.
const (
	LeadFree   = C.M4G_FREE_LEAD // nobody
	LeadWaiter = C.M4G_WAITER    // a goroutine that waits for an operation
	LeadDriver = C.M4G_DRIVER    // the background driver
	LeadClosed = C.M4G_CLOSED    // nobody else for good
)

// Quirks of MPI libraries that the engine works around.
const (
	QuirkShortRecvOverflows = C.M4G_QUIRK_SHORT_RECV_OVERFLOWS
	QuirkErrorsReturnAborts = C.M4G_QUIRK_ERRORS_RETURN_ABORTS
	QuirkFinalizedAtExit    = C.M4G_QUIRK_FINALIZED_AT_EXIT
)

// NewEngine makes an engine for a library. It is never freed.
func (l *Library) NewEngine(quirks uint32, yield int) *Engine {
	c := C.m4g_engine_new(l.family)
	if c == nil {
		panic("mpi4go: out of memory")
	}
	c.quirks, c.yield = C.uint32_t(quirks), C.uint32_t(yield)
	u32 := func(p *C.uint32_t) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(p)) }
	return &Engine{
		c:           c,
		at:          C.uint64_t(uintptr(unsafe.Pointer(c))),
		Lead:        u32(&c.lead),
		Preempt:     u32(&c.preempt),
		Epoch:       (*atomic.Uint64)(unsafe.Pointer(&c.epoch)),
		stack:       (*atomic.Uint64)(unsafe.Pointer(&c.stack)),
		outstanding: (*atomic.Int64)(unsafe.Pointer(&c.outstanding)),
		left:        (*uint32)(unsafe.Pointer(&c.left)),
		large:       (*int64)(unsafe.Pointer(&c.large)),
		coarse:      (*int64)(unsafe.Pointer(&c.coarse_ms)),
		napping:     u32(&c.napping),
		stop:        u32(&c.stop),
	}
}

// Outstanding counts the operations that were started and are not complete.
func (e *Engine) Outstanding() int64 { return e.outstanding.Load() }

// Leave gives the lead back and returns whether anything is outstanding.
func (e *Engine) Leave() bool {
	outstanding := e.outstanding.Load() != 0
	*e.left = 0
	if outstanding {
		*e.left = 1
	}
	e.Lead.Store(LeadFree)
	return outstanding
}

// Tired tells, once, that some milliseconds have passed since the goroutine with
// the lead last yielded, and that it should. The caller holds the lead.
//
// The Go runtime takes the P from a goroutine that is found in C and has not
// been rescheduled for 10 ms, and its monitor then wakes every 20 us for a
// while, which costs a sixth of the time where timers are slow.
func (e *Engine) Tired() bool {
	if *e.coarse-e.rested < 4 {
		return false
	}
	e.rested = *e.coarse
	return true
}

// Abandoned tells whether the last waiter with the lead left something
// outstanding.
func (e *Engine) Abandoned() bool { return *e.left != 0 }

// Attended tells whether somebody polls, or nothing is left to poll for.
func (e *Engine) Attended() bool {
	lead := e.Lead.Load()
	return lead == LeadWaiter || lead == LeadFree && e.outstanding.Load() == 0
}

// Transferring tells whether a transfer above 32 KiB is in flight, or may be. The
// caller holds the lead.
func (e *Engine) Transferring() bool { return *e.large > 0 }

// Counters are the operations started and completed so far. Call it with the lead.
func (e *Engine) Counters() (started, completed uint64) {
	return uint64(e.c.started), uint64(e.c.completed)
}

// Push submits a chain of operations, from last to first, to whoever leads.
func (e *Engine) Push(last, first *Op) {
	for {
		head := e.stack.Load()
		first.Next = head
		if e.stack.CompareAndSwap(head, uint64(uintptr(unsafe.Pointer(last)))) {
			return
		}
	}
}

// Submitted tells whether something was pushed that nobody has started.
func (e *Engine) Submitted() bool { return e.stack.Load() != 0 }

// Poll starts what was pushed and then chain, and polls for a number of passes,
// or until want operations of the target waiter are complete, or anything else
// is that somebody waits for. It returns the operations that are done. The
// caller holds the lead.
func (e *Engine) Poll(chain *Op, target uint32, want, spins int) *Op {
	return opAt(uint64(C.call_poll(e.at, C.uint64_t(uintptr(unsafe.Pointer(chain))), C.uint32_t(target), C.uint32_t(want), C.uint32_t(spins))))
}

// Patience is what the driver does while nobody else polls, in nanoseconds:
// it spins after the last event, then takes naps that become longer.
type Patience struct {
	Spin            int64
	Hot, Warm, Cold int64 // naps
	HotFor, WarmFor int64 // how long after the last event to take which
	Deep            int64 // naps instead of warm and cold ones where every message rings
}

// Drive polls for the goroutines that wait, for as long as nobody else does. It
// returns true holding the lead, with the operations that are done or nothing
// outstanding, or false without it when somebody else polls.
func (e *Engine) Drive(p *Patience) (done *Op, leads bool) {
	var first C.uint64_t
	leads = C.m4g_drive(e.c, (*C.m4g_patience)(unsafe.Pointer(p)), &first) == C.M4G_LEADING_DRIVER
	return opAt(uint64(first)), leads
}

// Nap lets the one thread that makes every call sleep for at most ns
// nanoseconds, or until Ring, or a bell, which it returns.
func (e *Engine) Nap(ns int64) (rung bool) {
	briefly := 0
	if ns < 500_000 {
		briefly = 1
	}
	return C.m4g_nap(e.c, C.int64_t(ns), C.m4g_listen(e.c, C.int(briefly)), C.M4G_FUNNEL) != 0
}

// Ring ends the driver's nap, if it takes a long one, or any at all.
func (e *Engine) Ring(anyNap bool) {
	n := e.napping.Load()
	if (n == C.M4G_LONG_NAP || n != 0 && anyNap) && e.napping.CompareAndSwap(n, C.M4G_AWAKE) { // one of many rings
		C.m4g_ring(e.c)
	}
}

// Stop makes Drive return for good.
func (e *Engine) Stop() {
	e.stop.Store(1)
	C.m4g_ring(e.c)
}
