package mpicomm

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/mpi4go/mpi4go/internal/cmpi"
)

// The values of Config.Doorbell.
const (
	doorbellOn    = "on"
	doorbellOff   = "off"
	doorbellDrop  = "drop"
	doorbellFlood = "flood"
)

var doorbells = []string{doorbellOn, doorbellOff, doorbellDrop, doorbellFlood}

// introduceBells makes the doorbells and returns what the other ranks need to find
// them. Without them, which is no error, it is nil.
func (p *process) introduceBells() []byte {
	if p.config.Doorbell == doorbellOff {
		p.noBells = errors.New("Config.Doorbell is off")
		return nil
	}
	var introduction []byte
	bells, err := cmpi.NewBells(p.start.Rank, p.start.Size)
	if err == nil {
		p.bells = bells
		introduction, err = bells.Introduce()
	}
	p.withoutBells(err)
	return introduction
}

// shareBells finds those of the other ranks of this host.
func (p *process) shareBells(introductions [][]byte) {
	if p.bells != nil {
		p.withoutBells(p.bells.Meet(introductions))
	}
}

// withoutBells gives them up if there is an error.
func (p *process) withoutBells(err error) {
	if err == nil {
		return
	}
	p.endBells()
	p.bells, p.noBells = nil, err
}

func (p *process) endBells() {
	if p.bells != nil {
		p.bells.Close()
	}
}

// peers are whom to ring on a communicator of ranks of the world, nil for all.
func (p *process) peers(ranks []int32) cmpi.Peers {
	if p.config.Doorbell == doorbellDrop {
		return 0
	}
	return p.bells.Peers(ranks)
}

// everyPeer is for a communicator whose ranks are not known, or not yet.
func (p *process) everyPeer() cmpi.Peers {
	if p.config.Doorbell == doorbellDrop {
		return 0
	}
	return p.bells.Every()
}

// flood rings without end, for tests.
func (p *process) flood() {
	for state.Load() < finalized {
		p.bells.Ring()
		runtime.Gosched()
	}
}

// describeBells is what Info says.
func (p *process) describeBells() string {
	switch {
	case p.bells == nil:
		return fmt.Sprintf("none: %v", p.noBells)
	case p.bells.Count() < p.start.Size:
		return fmt.Sprintf("between the %d ranks of this host, not the %d of other hosts", p.bells.Count(), p.start.Size-p.bells.Count())
	}
	return fmt.Sprintf("between all %d ranks", p.start.Size)
}
