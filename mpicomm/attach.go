package mpicomm

import (
	"fmt"
	"strings"

	"github.com/mpi4go/mpi4go/internal/cmpi"
)

// attach makes use of an MPI that somebody else has initialised, and will
// finalise.
func (p *process) attach() error {
	if err := p.mayAttach(); err != nil {
		return err
	}
	p.attached = true
	cmpi.Finalizing = p.ownerFinalizes
	if err := p.setUp(); err != nil {
		return err
	}
	p.startEngine()
	return nil
}

// mayAttach tells whether the thread level suffices. It is local, so that Init
// may be called again with another configuration.
func (p *process) mayAttach() error {
	provided, err := p.lib.ThreadLevel()
	if err != nil {
		return fromCall("init", err)
	}
	level, needed, reason := ThreadLevel(provided+1), ThreadMultiple, "because the program's own calls of MPI and ours run at the same time"
	if p.config.Exclusive {
		needed, reason = ThreadSerialized, "because goroutines call MPI from several threads"
	}
	if level >= needed {
		return nil
	}
	promise := ""
	if level == ThreadSerialized {
		promise = " Or make the program's own calls of MPI inside mpicomm.Exclusive only, and say so with Config.Exclusive or MPI4GO_EXCLUSIVE=1."
	}
	return fmt.Errorf("%s was initialised by another package of this process with the thread level %v, and attaching to it needs %v, %s. "+
		"Initialise it with MPI_Init_thread and MPI_THREAD_%s; in gompi: mpi.Start(true).%s "+
		"Where the program calls MPI_Init and cannot be changed, set OMPI_MPI_THREAD_LEVEL=3 (Open MPI) or MPIR_CVAR_DEFAULT_THREAD_LEVEL=MPI_THREAD_MULTIPLE (MPICH)",
		p.lib.Path, level, needed, reason, strings.ToUpper(needed.String()), promise)
}

// ownerFinalizes is called from within the owner's call of MPI_Finalize. If
// Finalize was not called before it does Finalize's work: MPI is still there.
func (p *process) ownerFinalizes() {
	if !state.CompareAndSwap(initialized, finalizing) {
		return // Finalize itself is at work
	}
	p.engine.TakeBack()
	p.drain()
	p.engine.Close(p.config.DrainTimeout)
	p.endBells()
	state.Store(disowned)
}
