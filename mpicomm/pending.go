package mpicomm

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/mpi4go/mpi4go/internal/cmpi"
	"github.com/mpi4go/mpi4go/internal/progress"
)

// PendingError lists what was unfinished when [Finalize] was called.
type PendingError struct {
	Operations []string // in flight: the kind, the peer, and with Config.Debug where it was started
	Forgotten  []string // with Config.Debug: complete, but nobody has asked
	Skipped    bool     // MPI_Finalize was not called, because it might have hung; of somebody else's MPI: it still might
	Cause      error    // why it was skipped, or nil
	Hung       bool     // MPI_Finalize was called and has not returned within Config.DrainTimeout
	attached   bool
}

// Error describes all of it, a line for each.
func (e *PendingError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d operations were in flight", len(e.Operations))
	for _, line := range e.Operations {
		b.WriteString("\n  " + line)
	}
	if len(e.Forgotten) > 0 {
		fmt.Fprintf(&b, "\n%d requests were never waited for", len(e.Forgotten))
		for _, line := range e.Forgotten {
			b.WriteString("\n  " + line)
		}
	}
	if e.Skipped {
		skipped := "\nMPI_Finalize was skipped, because it might hang"
		if e.attached {
			skipped = "\nMPI_Finalize, which is for the package that initialised MPI, might hang"
		}
		b.WriteString(skipped)
		if e.Cause != nil {
			fmt.Fprintf(&b, ": %v", e.Cause)
		}
	}
	if e.Hung {
		b.WriteString("\nall messages have arrived, but MPI_Finalize does not return: another rank has not called it, or the MPI library hangs")
	}
	return b.String()
}

// Unwrap returns why MPI_Finalize was skipped, if it was.
func (e *PendingError) Unwrap() error { return e.Cause }

var kindNames = map[uint8]string{
	cmpi.Send: "isend", cmpi.Ssend: "issend", cmpi.Recv: "irecv", cmpi.Imrecv: "imrecv", cmpi.Mprobe: "mprobe",
	cmpi.Probe: "probe", cmpi.Improbe: "improbe", cmpi.Iprobe: "iprobe", cmpi.Unmatch: "unmatch",
	cmpi.Cancel: "cancel", cmpi.Dup: "idup", cmpi.Barrier: "ibarrier",
	cmpi.Bcast: "ibcast", cmpi.Reduce: "ireduce", cmpi.Allreduce: "iallreduce", cmpi.Scan: "iscan", cmpi.Exscan: "iexscan",
	cmpi.Gather: "igather", cmpi.Gatherv: "igatherv", cmpi.Allgather: "iallgather", cmpi.Allgatherv: "iallgatherv",
	cmpi.Scatter: "iscatter", cmpi.Scatterv: "iscatterv", cmpi.Alltoall: "ialltoall", cmpi.Alltoallv: "ialltoallv",
}

// what says what an operation is.
func what(op *progress.Op) string {
	spec, _ := op.At(0)
	name := kindNames[spec.Kind]
	if spec.Peer != none {
		name += fmt.Sprintf(" peer %s tag %s", rankName(spec.Peer), tagName(spec.Tag))
	}
	if n := spec.Buf.Len(); n > 0 {
		name += fmt.Sprintf(", %d bytes", n)
	}
	if n := op.N(); n > 1 {
		name = fmt.Sprintf("a set of %d operations, the first: %s", n, name)
	}
	return name
}

// describe says what an operation is, and where it was started if that is known.
func describe(op *progress.Op) string {
	name := what(op)
	if t := op.Started(); t != nil {
		return fmt.Sprintf("%s, started %v ago at %s", name, time.Since(t.At).Round(time.Millisecond), place(t))
	}
	return name + " (set Config.Debug or MPI4GO_DEBUG=1 to see where it was started)"
}

// place is the first frame outside this module's packages.
func place(t *progress.Trace) string {
	frames := runtime.CallersFrames(t.Stack)
	for {
		f, more := frames.Next()
		inside := strings.Contains(f.Function, "mpi4go/mpi4go/mpicomm.") || strings.Contains(f.Function, "mpi4go/mpi4go/coro.") ||
			strings.Contains(f.Function, "mpi4go/mpi4go/internal/")
		if !inside || !more {
			return fmt.Sprintf("%s:%d (%s)", f.File, f.Line, f.Function)
		}
	}
}

// forgotten collects requests that were dropped before anybody asked for their
// outcome. No call of MPI is made for them.
var forgotten forgottenRequests

type forgottenRequests struct {
	mu    sync.Mutex
	lines []string
}

func (f *forgottenRequests) add(line string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lines = append(f.lines, line)
}

func (f *forgottenRequests) list() []string {
	runtime.GC() // finds those that were dropped a moment ago
	runtime.Gosched()
	time.Sleep(time.Millisecond)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lines
}
