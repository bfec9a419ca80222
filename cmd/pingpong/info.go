package main

import (
	"fmt"

	"github.com/mpi4go/mpi4go/gpu"
	"github.com/mpi4go/mpi4go/mem"
)

type infoCmd struct {
	GPU bool `json:"gpu" name:"gpu" help:"List the GPUs, and open one before MPI is initialised, as a program does that uses it."`
}

func (infoCmd) ranksNeeded() int { return 1 }

// memory makes the device open first.
func (c infoCmd) memory() memoryFlags {
	kinds := []mem.Kind{mem.Host}
	if c.GPU {
		kinds = []mem.Kind{mem.Device}
	}
	return memoryFlags{Buffers: memories{kinds, kinds}}
}

// Run prints what rank 0 knows of its environment.
func (c infoCmd) Run(j *job) error {
	if j.world.Rank() != 0 {
		return nil
	}
	j.report = j.begin()
	if j.report.format == "text" {
		if _, err := j.report.out.WriteString(j.info.String()); err != nil {
			return err
		}
		if err := c.devices(j.report); err != nil {
			return err
		}
	} else {
		j.report.begin(0)
	}
	return j.report.end()
}

// devices lists the GPUs.
func (c infoCmd) devices(r *report) error {
	if !c.GPU {
		return nil
	}
	all, err := gpu.Devices()
	for _, d := range all {
		fmt.Fprintf(r.out, "%-14s %d: %s, %s, %s, compute capability %d.%d, %d MiB\n", "gpu", d.Ordinal, d.Name, d.UUID, d.PCIBusID, d.Major, d.Minor, d.TotalMem>>20)
	}
	return err
}
