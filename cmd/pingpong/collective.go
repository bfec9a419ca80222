package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mpi4go/mpi4go/internal/cmpi"
	"github.com/mpi4go/mpi4go/mpicomm"
)

type collectiveCmd struct {
	contextFlag
	roundFlags
	memoryFlags
	compareFlags
	plotFlag
	Sizes sizes  `json:"sizes" default:"8,1K,64K,1M" placeholder:"SIZES" help:"Bytes that each rank contributes, and for alltoall sends to each other rank (${default})."`
	Call  string `json:"call" arg:"" enum:"barrier,bcast,allreduce,alltoall" help:"barrier, bcast, allreduce (float64, Sum) or alltoall."`
}

func (c *collectiveCmd) ranksNeeded() int { return 2 }

// Validate refuses memory that the calls do not take.
func (c *collectiveCmd) Validate() error {
	if !c.Buffers.host() && c.Call != "bcast" {
		return fmt.Errorf("-d: %s takes slices, and so memory of the host; bcast takes all", c.Call)
	}
	return c.memoryFlags.Validate()
}

// collectiveRow is one length. Us is the mean over the ranks of the time of a call.
type collectiveRow struct {
	Call  string `json:"call"`
	Ranks int    `json:"ranks"`
	Size  int    `json:"size"`
	timedPath
	Ratio float64 `json:"ratio,omitempty"`
}

func (r collectiveRow) columns() []column {
	return append([]column{
		{"call", "%s", r.Call},
		{"ranks", "%d", r.Ranks},
		{"size", "%d", r.Size},
		{"us", "%.2f", r.Us},
		optional("C_us", "%.2f", r.CUs),
		optional("ratio", "%.2f", r.Ratio),
	}, r.path.columns()...)
}

func (r collectiveRow) bench() []benchLine {
	return r.timing.bench(fmt.Sprintf("call=%s/ranks=%d/size=%d", r.Call, r.Ranks, r.Size), 0, "")
}

func (r collectiveRow) point() (float64, float64, float64) { return float64(r.Size), r.Us, r.CUs }

// Run measures a collective of all ranks.
func (c *collectiveCmd) Run(j *job) error {
	ctx, cancel := c.context()
	defer cancel()
	if j.world.Rank() == 0 {
		j.report = j.begin()
	}
	if c.Call == "barrier" {
		c.Sizes = []int{0}
	}
	passes := 2
	if c.NoC {
		passes = 1
	}
	j.memory.side = min(j.world.Rank(), 1)
	notes := j.memory.notes(
		"us = time of a call, mean over the ranks; C: the blocking call of the same MPI in the same process",
		turnsNote(c.Rounds))
	if j.memory.device != nil {
		notes = append(notes, "the root has the first of the two memories, all others the second; path is that of all ranks")
	}
	if takes := j.memory.collectiveAble(); !takes.Able {
		notes = append(notes, "no C column: "+takes.Why)
	}
	j.report.begin(len(c.Sizes)*int(c.Rounds)*passes, notes...)
	j.report.plot(c.Plot, "message size (bytes)", "time (us)")
	barrier := func() error { return j.barrier(ctx) }
	for _, size := range c.Sizes {
		timed, warmup := c.iterations(min(2000, max(10, 200*64*1024/max(size, 1))))
		m := &collective{j: j, ctx: ctx, size: size, timed: timed, warmup: warmup}
		if err := m.alloc(); err != nil {
			return err
		}
		passes := []pass{m.ours(c.Call), m.c(c.Call)}
		if c.NoC || !j.memory.collectiveAble().Able {
			passes[1] = nil
		}
		us, err := alternate(int(c.Rounds), barrier, j.report.tick, passes...)
		if err != nil {
			return err
		}
		t := newTiming(timed, us[0], us[1])
		way, err := m.path()
		if err != nil {
			return err
		}
		j.report.row(collectiveRow{c.Call, j.world.Size(), size, timedPath{t, way}, t.ratio()})
	}
	return j.report.end()
}

// collective is a call that is measured.
type collective struct {
	j             *job
	ctx           context.Context
	size          int
	timed, warmup int
	buf           buffer // of a bcast
}

func (m *collective) alloc() (err error) {
	m.buf, err = m.j.memory.alloc(m.ctx, m.size, 0)
	return err
}

// path frees the buffer and tells how the bytes of all ranks have travelled.
func (m *collective) path() (path, error) {
	if m.j.memory.device == nil {
		return path{}, nil
	}
	all := m.j.memory.traffic()
	err := mpicomm.Allreduce(m.ctx, m.j.world, all, all, mpicomm.Sum)
	return pathOf(all), errors.Join(err, m.j.memory.reset())
}

// bcast sends host memory as a slice, as most programs do.
func (m *collective) bcast() error {
	if m.buf.bytes != nil {
		return mpicomm.Bcast(m.ctx, m.j.world, m.buf.bytes, 0)
	}
	return mpicomm.Bcast(m.ctx, m.j.world, m.buf.mem, 0)
}

func (m *collective) ours(call string) pass {
	world, ranks := m.j.world, m.j.world.Size()
	bytes, all := make([]byte, m.size*ranks), make([]byte, m.size*ranks)
	floats, sums := make([]float64, m.size/8), make([]float64, m.size/8)
	once := map[string]func() error{
		"barrier":   func() error { return world.Barrier(m.ctx) },
		"bcast":     m.bcast,
		"allreduce": func() error { return mpicomm.Allreduce(m.ctx, world, floats, sums, mpicomm.Sum) },
		"alltoall":  func() error { return mpicomm.Alltoall(m.ctx, world, bytes, all) },
	}[call]
	return func() (float64, error) {
		var start time.Time
		for i := range m.warmup + m.timed {
			if i == m.warmup {
				start = time.Now()
			}
			if err := once(); err != nil {
				return 0, err
			}
		}
		return m.mean(usPer(time.Since(start), m.timed))
	}
}

func (m *collective) c(call string) pass {
	loop := cmpi.Bench{
		Mode: map[string]cmpi.BenchMode{
			"barrier": cmpi.BenchBarrier, "bcast": cmpi.BenchBcast, "allreduce": cmpi.BenchAllreduce, "alltoall": cmpi.BenchAlltoall,
		}[call],
		Size: m.size, Send: newBuffer(m.size * m.j.world.Size()), Recv: newBuffer(m.size * m.j.world.Size()),
	}
	if call == "bcast" {
		m.buf.lend(&loop.Send, &loop.SendAt)
	}
	return func() (float64, error) {
		took, err := runLoop(m.j.lib, loop, m.warmup, m.timed)
		if err != nil {
			return 0, err
		}
		return m.mean(usPer(took, m.timed))
	}
}

// mean is the mean of what the ranks have measured.
func (m *collective) mean(us float64) (float64, error) {
	sum := []float64{us}
	err := mpicomm.Allreduce(m.ctx, m.j.world, sum, sum, mpicomm.Sum)
	return sum[0] / float64(m.j.world.Size()), err
}
