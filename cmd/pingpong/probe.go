package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mpi4go/mpi4go/gpu"
	"github.com/mpi4go/mpi4go/internal/cmpi"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
)

type probeGPUCmd struct {
	Timeout time.Duration `json:"timeout_ns" default:"60s" placeholder:"60s" help:"How long one trial may take (${default})."`
	Try     string        `json:"-" hidden:""` // the trial of this job
}

// The capabilities that are tried, by their fields in mpicomm.DeviceMemory.
const (
	pointToPoint = "point-to-point"
	datatypes    = "datatypes"
	collectives  = "collectives"
	beyond       = "not used by mpi4go"
)

// trial is something that MPI is given device memory for, in calls of its own that
// nothing of mpi4go stands before.
type trial struct {
	name       string
	capability string
	memory     memories
	modes      []cmpi.BenchMode
}

var (
	deviceAlone = []mem.Kind{mem.Device}
	onDevices   = memories{deviceAlone, deviceAlone}
	blocking    = []cmpi.BenchMode{cmpi.BenchLatency}
	trials      = []trial{
		{"send D,D", pointToPoint, onDevices, blocking},
		{"send D,H", pointToPoint, memories{deviceAlone, {mem.Host}}, blocking},
		{"send H,D", pointToPoint, memories{{mem.Host}, deviceAlone}, blocking},
		{"send M,M", pointToPoint, memories{{mem.Managed}, {mem.Managed}}, blocking},
		{"isend D,D", pointToPoint, onDevices, []cmpi.BenchMode{cmpi.BenchBandwidth, cmpi.BenchBibandwidth}},
		{"datatype D,D", datatypes, onDevices, []cmpi.BenchMode{cmpi.BenchFramesDatatype}},
		{"ibcast", collectives, onDevices, []cmpi.BenchMode{cmpi.BenchIbcast}},
		{"iallreduce", collectives, onDevices, []cmpi.BenchMode{cmpi.BenchIallreduce}},
		{"ialltoall", collectives, onDevices, []cmpi.BenchMode{cmpi.BenchIalltoall}},
		{"bcast", beyond, onDevices, []cmpi.BenchMode{cmpi.BenchBcast}},
		{"allreduce", beyond, onDevices, []cmpi.BenchMode{cmpi.BenchAllreduce}},
		{"alltoall", beyond, onDevices, []cmpi.BenchMode{cmpi.BenchAlltoall}},
	}
)

// claims is the name of the job that tries nothing, and says what mpi4go takes the MPI
// for.
const claims = "claims"

// probed is what that job prints.
type probed struct {
	Environment environment
	Claims      mpicomm.DeviceMemory
}

func (c *probeGPUCmd) ranksNeeded() int { return 2 }

// Validate refuses a probe in a job: each trial is one.
func (c *probeGPUCmd) Validate() error {
	if launched := cmpi.FindLauncher().Name; launched != "" && c.Try == "" {
		return fmt.Errorf("probe-gpu starts jobs of its own, and %s has started this one: run it without; --mpirun and --launcher-args say how it starts them", launched)
	}
	return nil
}

// find is the trial of this job.
func (c *probeGPUCmd) find() trial {
	i := slices.IndexFunc(trials, func(t trial) bool { return t.name == c.Try })
	if i < 0 {
		return trial{name: claims, memory: onDevices}
	}
	return trials[i]
}

func (c *probeGPUCmd) memory() memoryFlags { return memoryFlags{Buffers: c.find().memory} }

// Run makes one trial.
func (c *probeGPUCmd) Run(j *job) error {
	ctx := context.Background()
	j.memory.side = j.world.Rank()
	t := c.find()
	if t.name == claims {
		if j.world.Rank() != 0 {
			return nil
		}
		e := newEnvironment(j.info)
		e.Device = j.memory.String()
		return json.NewEncoder(os.Stdout).Encode(probed{e, j.info.DeviceMemory})
	}
	for _, mode := range t.modes {
		for _, size := range []int{8, 4096, 4104, 64 << 10, 1<<20 + 8, 4 << 20} {
			if err := errors.Join(j.try(ctx, mode, size), j.memory.reset()); err != nil {
				return fmt.Errorf("%s of %d bytes: %w", t.name, size, err)
			}
		}
	}
	return nil
}

// try makes one call and verifies what it has done.
func (j *job) try(ctx context.Context, mode cmpi.BenchMode, size int) error {
	rank, ranks := j.world.Rank(), j.world.Size()
	loop := cmpi.Bench{Mode: mode, Peer: 1 - rank, Sender: rank == 0, Window: 4, Iterations: 2, Size: size, Frames: ranks, Stride: size}
	if mode == cmpi.BenchFramesDatatype {
		loop.Stride = size + 256
	}
	send, parts, err := j.memory.frames(ctx, ranks, size, loop.Stride)
	if err != nil {
		return err
	}
	recv, got, err := j.memory.frames(ctx, ranks, size, loop.Stride)
	if err != nil {
		return err
	}
	contents := onDevice{j.memory}
	for i, part := range parts {
		if err := contents.fill(ctx, part, seedOf(rank, i)); err != nil {
			return err
		}
	}
	ours, sums := make([]float64, size/8), make([]float64, size/8)
	if reduces(mode) {
		for i := range ours {
			ours[i] = float64(i + rank)
			sums[i] = float64(ranks*i + ranks*(ranks-1)/2)
		}
		if err := gpu.Memcpy(ctx, j.memory.stream, parts[0].gpu, ours); err != nil {
			return err
		}
	}
	send.lend(&loop.Send, &loop.SendAt)
	recv.lend(&loop.Recv, &loop.RecvAt)
	if err := j.barrier(ctx); err != nil {
		return err
	}
	if exclusive := mpicomm.Exclusive(func() { _, err = loop.Run(j.lib) }); exclusive != nil || err != nil {
		return errors.Join(exclusive, err)
	}
	if err := j.barrier(ctx); err != nil {
		return err
	}
	peer := 1 - rank
	switch mode {
	case cmpi.BenchBcast, cmpi.BenchIbcast:
		return contents.verify(ctx, parts[0], seedOf(0, 0))
	case cmpi.BenchAllreduce, cmpi.BenchIallreduce:
		if err := gpu.Memcpy(ctx, j.memory.stream, ours, got[0].gpu); err != nil {
			return err
		}
		if !slices.Equal(ours, sums) {
			return errors.New("the sums are wrong")
		}
		return nil
	case cmpi.BenchAlltoall, cmpi.BenchIalltoall:
		return errors.Join(contents.verify(ctx, got[0], seedOf(0, rank)), contents.verify(ctx, got[1], seedOf(1, rank)))
	case cmpi.BenchFramesDatatype:
		return errors.Join(contents.verify(ctx, got[0], seedOf(peer, 0)), contents.verify(ctx, got[1], seedOf(peer, 1)))
	case cmpi.BenchBandwidth:
		if rank == 0 {
			return nil // it has received an answer only
		}
	}
	return contents.verify(ctx, got[0], seedOf(peer, 0))
}

func seedOf(rank, part int) int { return 1 + 10*rank + part }

func reduces(mode cmpi.BenchMode) bool {
	return mode == cmpi.BenchAllreduce || mode == cmpi.BenchIallreduce
}

// probeRow is one trial.
type probeRow struct {
	Try        string `json:"try"`
	Capability string `json:"capability"`
	Claimed    bool   `json:"claimed"` // mpi4go gives this MPI device memory for that
	Why        string `json:"why,omitempty"`
	Works      bool   `json:"works"`
	Failure    string `json:"failure,omitempty"`
}

func (r probeRow) columns() []column {
	yes := map[bool]string{true: "yes", false: "no"}
	claimed := yes[r.Claimed]
	if r.Capability == beyond {
		claimed = "-"
	}
	return []column{
		{"try          ", "%s", r.Try},
		{"works", "%s", yes[r.Works]},
		{"claimed", "%s", claimed},
		{"what", "%s", strings.TrimSpace(r.Capability + " " + r.Failure)},
	}
}

func (r probeRow) bench() []benchLine { return nil }

// start makes all trials, each in a job of its own. The exit code is 1 if one fails
// that mpi4go takes the MPI to be able to do.
func (c *probeGPUCmd) start(o *options) int {
	output, failure := c.runTrial(o, claims)
	var found probed
	if failure == "" {
		if err := json.Unmarshal(output, &found); err != nil {
			failure = fmt.Sprintf("what it printed: %v", err)
		}
	}
	if failure != "" {
		fmt.Fprintf(os.Stderr, "pingpong: the job that asks what the MPI says of itself: %s\n%s", failure, output)
		return exitFailure
	}
	code := 0
	r := newReport(o.Format, "probe-gpu", c, found.Environment)
	r.begin(len(trials),
		"device: "+found.Environment.Device,
		"works: MPI's own calls, two ranks, in a job of its own for each row, moved 8 bytes to 4 MiB and every byte was right",
		"claimed: mpi4go gives this MPI device memory for that. no is safe: then it stages",
		pointToPoint+": "+found.Claims.PointToPoint.Why,
		datatypes+": "+found.Claims.Datatypes.Why,
		collectives+": "+found.Claims.Collectives.Why)
	for _, t := range trials {
		claim := map[string]mpicomm.Capability{
			pointToPoint: found.Claims.PointToPoint, datatypes: found.Claims.Datatypes, collectives: found.Claims.Collectives,
		}[t.capability]
		row := probeRow{Try: t.name, Capability: t.capability, Claimed: claim.Able, Why: claim.Why}
		_, row.Failure = c.runTrial(o, t.name)
		row.Works = row.Failure == ""
		if claim.Able && !row.Works {
			code = exitFailure
		}
		r.row(row)
		r.tick()
	}
	if err := r.end(); err != nil {
		fmt.Fprintf(os.Stderr, "pingpong: %v\n", err)
		return exitFailure
	}
	return code
}

// runTrial runs a job and returns what it printed, and how it failed.
func (c *probeGPUCmd) runTrial(o *options, name string) (output []byte, failure string) {
	jobs, err := newJobs(o.launchFlags)
	if err != nil {
		return nil, err.Error()
	}
	command := jobs.command("", "probe-gpu", "--try", name)
	var out, all bytes.Buffer
	command.Stdout, command.Stderr, command.WaitDelay = &out, &all, time.Second
	if err := command.Start(); err != nil {
		return nil, err.Error()
	}
	late := time.AfterFunc(c.Timeout, func() {
		for _, pid := range descendants(command.Process.Pid).alive() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	err = command.Wait()
	if !late.Stop() {
		return out.Bytes(), fmt.Sprintf("not done after %v", c.Timeout)
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return append(all.Bytes(), out.Bytes()...), howItFailed(all.String()+out.String(), exit.Error())
	} else if err != nil {
		return out.Bytes(), err.Error()
	}
	return out.Bytes(), ""
}

// marks are the lines that tell how a job has failed, the best first.
var marks = []*regexp.Regexp{
	regexp.MustCompile(`(?m)^pingpong: (.*)$`),
	regexp.MustCompile(`(?m)^.*(SIG[A-Z]+: .*)$`),
	regexp.MustCompile(`(?m)(cu[A-Z]\w+ .*returned? .*)$`),
	regexp.MustCompile(`(?mi)^.*((?:exited on signal|killed by signal|fatal error).*)$`),
}

func howItFailed(output, otherwise string) string {
	for _, mark := range marks {
		if found := mark.FindStringSubmatch(output); found != nil {
			return strings.TrimSpace(found[1])
		}
	}
	return otherwise
}
