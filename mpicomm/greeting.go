package mpicomm

import (
	"bytes"
	"fmt"
	"os"

	"github.com/mpi4go/mpi4go/internal/cmpi"
)

// greeting is what each rank tells all others in Init, padded with zeros. One without
// this library gives the version alone: docs/mixed-jobs.md.
type greeting [128]byte

func (g *greeting) version() []byte { return g[:32] }
func (g *greeting) host() []byte    { return g[32:96] } // HOST_NAME_MAX of Linux is 64
func (g *greeting) bells() []byte   { return g[96 : 96+cmpi.IntroductionSize] }
func (g *greeting) device() *byte   { return &g[126] } // 1: it has opened a device
func (g *greeting) debug() *byte    { return &g[127] } // 1: it checks the order of collectives

// greet compares the versions of all ranks, since the wire protocols between them
// have to match, and whether they check the order of collectives. It notes their
// hosts, and which of them have opened a device. Those of a host share their
// doorbells.
func (p *process) greet() error {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("the name of this host: %w", err)
	}
	var mine greeting
	copy(mine.version(), Version)
	copy(mine.host(), host)
	copy(mine.bells(), p.introduceBells())
	if p.device != nil {
		*mine.device() = 1
	}
	if p.config.Debug {
		*mine.debug() = 1
	}
	all, err := p.lib.Agree(p.start.Private, p.start.Size, mine[:])
	if err != nil {
		return fromCall("init", err)
	}
	names := map[string]string{} // each is kept once
	var bells [][]byte
	for rank := range p.start.Size {
		theirs := greeting(all[rank*len(mine):])
		if *theirs.debug() != *mine.debug() {
			return fmt.Errorf("rank %d runs with Config.Debug %t and rank %d with %t: give all ranks the same", p.start.Rank, p.config.Debug, rank, *theirs.debug() != 0)
		}
		if !bytes.Equal(theirs.version(), mine.version()) {
			return fmt.Errorf("rank %d runs mpi4go %s and rank %d runs mpi4go %s: build all ranks from the same version",
				p.start.Rank, Version, rank, text(theirs.version()))
		}
		bells = append(bells, theirs.bells())
		name := text(theirs.host())
		if _, known := names[name]; !known {
			names[name] = name
		}
		p.hosts = append(p.hosts, names[name])
		p.stages = append(p.stages, *theirs.device() != 0)
	}
	p.shareBells(bells)
	return nil
}

// text is a string padded with zeros.
func text(padded []byte) string {
	b, _, _ := bytes.Cut(padded, []byte{0})
	return string(b)
}
