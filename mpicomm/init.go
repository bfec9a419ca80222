package mpicomm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/mpi4go/mpi4go/internal/cmpi"
	"github.com/mpi4go/mpi4go/internal/device"
	"github.com/mpi4go/mpi4go/internal/inner"
	"github.com/mpi4go/mpi4go/internal/progress"
	"github.com/mpi4go/mpi4go/mem"
)

// Version is the version of this library. All ranks of a job must run the same.
const Version = "0.1.0"

// process is what Init makes: there is one MPI in a process, so there is one.
type process struct {
	lib     *cmpi.Library
	engine  *progress.Engine
	start   cmpi.Start
	config  Config
	info    Environment
	bells   *cmpi.Bells // nil without
	noBells error       // the reason
	world   *Comm
	private *Comm    // the library's own duplicate of the world
	hosts   []string // of each rank

	device *device.Attached // for MPI; nil if none was open
	able   DeviceMemory     // what MPI is given its memory for
	stages []bool           // by rank: whether it had opened a device

	gate     chan struct{} // held by whoever makes a communicator
	attached bool          // somebody else initialised MPI, and will finalise it
	touched  bool          // whether anything of MPI happened
	funnel   bool
	calls    chan func() // for the thread that initialised MPI, unless it is the funnel
}

// The states of the library.
const (
	beforeInit int32 = iota
	initializing
	initialized
	finalizing
	finalized
	disowned // the owner of MPI finalised it before Finalize was called
)

var (
	state atomic.Int32
	self  atomic.Pointer[process]
)

// current is the process in which operations can be started.
func current() (*process, error) {
	switch state.Load() {
	case initialized:
		return self.Load(), nil
	case finalizing, finalized:
		return nil, ErrFinalized
	case disowned:
		return nil, errDisowned
	}
	return nil, ErrNotInitialized
}

// Init finds the MPI library that launched the job, initialises it, and starts
// the progress engine. It is collective over all ranks, blocks until they are
// there, and may be called once. A process that no launcher started is a job of
// one rank.
//
// If another package of the process has initialised MPI, Init attaches to it.
// It is collective then too: no other call on MPI_COMM_WORLD may be under way.
// It needs MPI_THREAD_MULTIPLE, or MPI_THREAD_SERIALIZED with Config.Exclusive.
// The other package remains the owner: [Finalize] leaves MPI to it. The other
// way round, a package that initialises MPI after Init makes MPI end the job.
//
// The error says which libraries were looked for if there is none, and how to
// get one; that the launcher belongs to another MPI than the library; that the
// thread level is too low; or which ranks run another version.
//
// Source: MPI_Init_thread, MPI-4.1 11.2.1 and 11.6.
func Init(config Config) error {
	if !state.CompareAndSwap(beforeInit, initializing) {
		if state.Load() >= finalizing {
			return ErrFinalized
		}
		return ErrInitialized
	}
	p := &process{config: config, gate: make(chan struct{}, 1)}
	if err := p.init(); err != nil {
		if !p.touched { // nothing of MPI happened: another try may do better
			state.Store(beforeInit)
		} else {
			state.Store(finalized)
		}
		return fmt.Errorf("mpicomm.Init: %w", err)
	}
	self.Store(p)
	state.Store(initialized)
	return nil
}

func (p *process) init() error {
	settings, err := p.config.resolve()
	if err != nil {
		return err
	}
	launcher := cmpi.FindLauncher()
	if p.lib, err = cmpi.Find(p.config.MPI); err != nil {
		return err
	}
	p.config.familyDefaults(p.lib.Family, settings)
	if p.lib.Finalized() {
		return fmt.Errorf("%s was finalised already in this process, and cannot be initialised again (MPI-4.1 11.2)", p.lib.Path)
	}
	procs := p.raiseProcs()
	if err := p.attachDevice(); err != nil {
		return err
	}
	if p.lib.Initialized() {
		err = p.attach()
	} else {
		booted := make(chan error)
		go p.boot(booted)
		err = <-booted
	}
	if err != nil {
		return err
	}
	if launcher.Size > 1 && p.start.Size == 1 {
		return fmt.Errorf("%s started %d ranks (%s), but %s (%s) sees a job of 1: the launcher belongs to another MPI than the library. Launch with the mpirun of %s, or set %s to the library of the launcher",
			launcher.Name, launcher.Size, launcher.Variable, p.lib.Path, p.lib.ShortVersion(), p.lib.ShortVersion(), cmpi.EnvMPI)
	}
	all := cmpi.Comm{Handle: p.start.World, Rank: p.start.Rank, Size: p.start.Size}
	if p.world, err = p.newComm(all, "world"); err != nil {
		return err
	}
	all.Handle = p.start.Private
	p.private = p.wrapComm(all, "private")
	p.judgeDevice()
	p.private.peers = p.world.peers
	p.info = p.newInfo(settings, procs, launcher)
	return nil
}

// raiseProcs sees to it that a busy goroutine does not keep the others from
// running; it returns what it did.
func (p *process) raiseProcs() string {
	now, least := runtime.GOMAXPROCS(0), p.config.GOMAXPROCS
	switch {
	case os.Getenv("GOMAXPROCS") != "":
		return fmt.Sprintf("%d, from the environment", now)
	case now >= least:
		return fmt.Sprint(now)
	}
	runtime.GOMAXPROCS(least)
	return fmt.Sprintf("%d, raised from %d: with %d a busy goroutine would delay every message", least, now, now)
}

// boot initialises MPI on a thread of its own, which also finalises it, as the
// standard asks (MPI-4.1 11.2.2), and makes every other call as well if MPI
// gives less than MPI_THREAD_SERIALIZED.
func (p *process) boot(booted chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.initMPI()
	if err != nil {
		booted <- err
		return
	}
	p.calls = make(chan func())
	p.startEngine()
	booted <- nil
	if p.funnel {
		p.engine.RunFunnel()
		return
	}
	for f := range p.calls {
		f()
	}
}

func (p *process) initMPI() error {
	p.touched = true
	if err := p.lib.InitThread(int(p.config.ThreadLevel) - 1); err != nil {
		return fromCall("init", err)
	}
	return p.setUp()
}

// setUp makes what the library needs of an initialised MPI.
func (p *process) setUp() (err error) {
	p.touched = true
	if p.start, err = p.lib.Init(!p.attached); err != nil {
		return fromCall("init", err)
	}
	// MPICH handles SIGUSR1, UCX some others, without the alternate stack.
	for signal := 1; signal < 32; signal++ {
		cmpi.Restack(signal)
	}
	switch provided := ThreadLevel(p.start.Provided + 1); {
	case provided < ThreadFunneled:
		return fmt.Errorf("%s provides only MPI_THREAD_SINGLE, and a Go program always has several threads: use a build of it with thread support", p.lib.ShortVersion())
	case provided < ThreadSerialized:
		p.funnel = true
	}
	return p.greet()
}

func (p *process) startEngine() {
	var quirks uint32
	for _, q := range p.lib.Quirks() {
		quirks |= q.Bit
	}
	// With more ranks than cores a poll must let the others run.
	yield := 0
	if p.start.LocalSize > onlineCores() {
		yield = 64
	}
	p.engine = progress.New(p.lib, quirks, progress.Config{
		Spins:       p.config.Spins,
		LeadTime:    p.config.LeadTime,
		Watch:       2 * time.Millisecond,
		Yield:       yield,
		MaxDetached: 4096,
		Trace:       p.config.Debug,
		Funnel:      p.funnel,
		Bells:       p.bells,
		AllRing:     !p.attached, // the owner's own calls do not
		Describe:    func(op *progress.Op) (kind, which string) { return kindNames[op.Kind], what(op) },
		Patience: cmpi.Patience{
			Spin:    int64(100 * time.Microsecond),
			Hot:     int64(100 * time.Microsecond),
			Warm:    int64(min(time.Millisecond, p.config.IdleNap)),
			Cold:    int64(p.config.IdleNap),
			HotFor:  int64(5 * time.Millisecond),
			WarmFor: int64(5 * time.Second),
			Deep:    4 * int64(p.config.IdleNap),
		},
	})
	if p.config.Doorbell == doorbellFlood && p.bells != nil {
		go p.flood()
	}
}

// onInitThread runs f on the thread that initialised MPI.
func (p *process) onInitThread(f func()) {
	if p.funnel {
		p.engine.Exclusive(f)
		return
	}
	done := make(chan struct{})
	p.calls <- func() { defer close(done); f() }
	<-done
}

// Abort ends the whole job with an exit code, as far as the launcher can, and
// does not return. Deferred calls do not run. docs/failures.md says what else ends
// a job, and which exit codes can be trusted.
//
// Source: MPI_Abort, MPI-4.1 9.7.
func Abort(code int) {
	if p := self.Load(); p != nil && state.Load() < finalized {
		go p.engine.Exclusive(func() { p.lib.Abort(p.start.World, code) })
		time.Sleep(5 * time.Second) // MPI_Abort as a rule ends the process before
	}
	os.Exit(code)
}

// Exclusive calls f while no other goroutine of this process is inside MPI, for
// code that calls the same MPI library by itself, such as a C function. Nothing
// else of this library makes progress until f returns, so f must not wait for
// an operation of it, and must be short or collective. If MPI may be called by
// one thread only, f runs on that thread. If MPI is given device memory the device's
// context is current on the thread, which MPI needs then.
func Exclusive(f func()) error {
	p, err := current()
	if err != nil {
		return err
	}
	p.engine.Exclusive(func() {
		if p.able.Device != "" {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			defer cmpi.Leave(cmpi.Enter())
		}
		f()
	})
	p.bells.Rouse() // f may have sent something
	return nil
}

// Initialized tells whether operations can be started: after Init, before
// Finalize.
func Initialized() bool { return state.Load() == initialized }

// Finalize ends the use of MPI. It is collective and blocks. It waits up to
// Config.DrainTimeout for the operations in flight, and for the other ranks to
// get here too, because MPI itself would drop messages that are on their way.
//
// Receives that no rank can answer any more are cancelled. If there were any,
// or a send did not get through, or a request was forgotten (Config.Debug), the
// error is a [*PendingError] that lists them. If a rank is missing or a send is
// stuck, MPI_Finalize could hang, so it is not called: PendingError.Skipped is
// then true. If MPI_Finalize itself takes longer than Config.DrainTimeout,
// PendingError.Hung is. In both cases the program should exit with a code other
// than 0, which makes the launcher end the rest of the job.
//
// Where Init has attached to an MPI of somebody else, Finalize frees what Init
// has made and leaves MPI to its owner, who finalises it after that.
// Communicators that the program has made remain until then. If the owner is
// first, its call does the work of Finalize, and Finalize returns an error.
//
// Source: MPI_Finalize, MPI-4.1 11.2.2.
func Finalize() error {
	if Initialized() {
		inner.CallBeforeFinalize()
	}
	if !state.CompareAndSwap(initialized, finalizing) {
		if _, err := current(); err != nil {
			return err
		}
		return ErrFinalized
	}
	p := self.Load()
	report := p.drain()
	closed := p.engine.Close(p.config.DrainTimeout)
	if !closed && report == nil {
		report = &PendingError{}
	}
	if report != nil {
		report.Skipped = report.Skipped || !closed
		report.attached = p.attached
	}
	var err error
	switch {
	case report != nil && report.Skipped:
	case p.attached:
		err = errors.Join(p.lib.Detach(p.start.Private), p.detachDevice())
	default:
		ended := make(chan error, 1)
		go p.onInitThread(func() { ended <- p.lib.Finalize() })
		select {
		case err = <-ended:
			if e := p.detachDevice(); err == nil {
				err = e
			}
			if p.funnel {
				p.engine.EndFunnel()
			} else {
				close(p.calls)
			}
		case <-time.After(p.config.DrainTimeout):
			if report == nil {
				report = &PendingError{}
			}
			report.Hung = true
		}
	}
	if closed { // or else a thread that is inside MPI may still ring one
		p.endBells()
	}
	state.Store(finalized)
	switch {
	case report != nil:
		return fmt.Errorf("mpicomm.Finalize: %w", report)
	case err != nil:
		return fmt.Errorf("mpicomm.Finalize: %w", fromCall("finalize", err))
	}
	return p.asyncErrors()
}

// drain completes or cancels everything in flight; it reports what was left.
func (p *process) drain() *PendingError {
	ctx, cancel := context.WithTimeout(context.Background(), p.config.DrainTimeout)
	defer cancel()
	report := &PendingError{Forgotten: forgotten.list()}
	stuck := p.waitForSends(ctx)
	if stuck == nil {
		// Everything of ours is on its way or there. When every rank is as far,
		// nothing more will come.
		stuck = p.barrier(ctx)
	}
	if stuck != nil {
		report.Skipped, report.Cause = true, stuck
	}
	left, err := p.outstanding()
	report.Skipped = report.Skipped || err != nil
	for _, op := range left {
		report.Operations = append(report.Operations, describe(op))
		if !report.Skipped {
			p.cancel(op)
		}
	}
	if !report.Skipped {
		for p.engine.Busy() {
			if ctx.Err() != nil {
				report.Skipped = true
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
	if len(report.Operations) == 0 && len(report.Forgotten) == 0 && !report.Skipped {
		return nil
	}
	return report
}

// outstanding lists what is in flight at the end.
func (p *process) outstanding() ([]*progress.Op, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return p.engine.Outstanding(ctx)
}

// waitForSends waits until nothing but receives and probes is in flight.
func (p *process) waitForSends(ctx context.Context) error {
	for {
		if !p.engine.Busy() {
			return nil
		}
		sends := 0
		ops, err := p.outstanding()
		if err != nil {
			return errors.New("a call into MPI does not return, as may happen when another rank has died")
		}
		for _, op := range ops {
			for i := range op.N() {
				if spec, _ := op.At(i); !cancels(spec.Kind) && !op.Finished(i) {
					sends++
				}
			}
		}
		if sends == 0 && p.engine.Detached() == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d operations are stuck: their peers did not answer", sends)
		case <-time.After(200 * time.Microsecond):
		}
	}
}

// barrier waits for every rank to get here.
func (p *process) barrier(ctx context.Context) error {
	op := new(progress.Op)
	op.Init(p.engine, p.private.op(cmpi.Barrier, mem.Buffer{}, none, none).Spec)
	if err := p.engine.Run(ctx, op); err != nil {
		return errors.New("not every rank has called Finalize: one has died, or does something else")
	}
	return nil
}

// cancel asks MPI to cancel what it can of an operation or a set in flight.
func (p *process) cancel(op *progress.Op) {
	if op.CancelLater() {
		return
	}
	for i := range op.N() {
		if spec, _ := op.At(i); !cancels(spec.Kind) {
			continue
		}
		c := new(progress.Op)
		c.Init(p.engine, p.private.op(cmpi.Cancel, mem.Buffer{}, none, none).Spec)
		c.Cancels(op, i)
		p.engine.Begin(c)
	}
}
