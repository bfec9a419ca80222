package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/mpi4go/mpi4go/mpicomm"
)

// options are those of the command line. Every mode has only those that it
// looks at, so that a useless one is an error.
type options struct {
	Format  string           `enum:"text,json,bench" default:"text" help:"Of the output: a table (text), one object (json), or lines for benchstat (bench)."`
	Version kong.VersionFlag `help:"Print the version and exit."`

	launchFlags

	Latency     latencyCmd     `cmd:"" default:"withargs" help:"One-way time of a message: half a ping-pong (the default). Built with -tags gompi (make gompi) it has a column for gompi."`
	Bandwidth   bandwidthCmd   `cmd:"" help:"MB/s of a window of messages in one direction."`
	Bibandwidth bibandwidthCmd `cmd:"" help:"MB/s of a window of messages in both directions."`
	Rate        rateCmd        `cmd:"" help:"Messages/s of a window of messages in one direction."`
	Coroutines  coroutinesCmd  `cmd:"" help:"Messages/s of many goroutines that ping-pong at the same time."`
	Idle        idleCmd        `cmd:"" help:"CPU and wake-up latency of a process that only waits for a message (takes about 40 s)."`
	Waiters     waitersCmd     `cmd:"" help:"Many goroutines of which each waits for a message of its own."`
	Connections connectionsCmd `cmd:"" help:"What connections of package transport cost: connect time, memory, CPU and wake-up latency while many are open and idle (takes about two minutes)."`
	Busy        busyCmd        `cmd:"" help:"Latency while a goroutine of the second rank computes."`
	Allpairs    allpairsCmd    `cmd:"" help:"All ranks ping-pong with all others at the same time."`
	Multi       multiCmd       `cmd:"" help:"One-way time of a message of many buffers, beside the ways to do it in C."`
	Tune        tuneCmd        `cmd:"" help:"Which plans suit the frames of messages of many buffers on this machine, in the form that MPI4GO_PLANS takes, and what they gain (takes minutes)."`
	Collective  collectiveCmd  `cmd:"" help:"Time of a collective call of all ranks."`
	ProbeGPU    probeGPUCmd    `cmd:"" name:"probe-gpu" help:"What this MPI does with memory of a GPU: tries everything, each in a job of its own that may crash."`
	Info        infoCmd        `cmd:"" help:"What mpi4go found: the MPI library and why, transport, settings."`
}

// mode is one of the subcommands: inRanks or a starter.
type mode interface {
	ranksNeeded() int
}

// inRanks is a mode that every rank runs.
type inRanks interface {
	mode
	Run(j *job) error
}

// starter is a mode that starts jobs and is in none.
type starter interface {
	mode
	start(o *options) (exitCode int)
}

func newParser(o *options, more ...kong.Option) (*kong.Kong, error) {
	return kong.New(o, append([]kong.Option{
		kong.Name("pingpong"),
		kong.Description("Measures mpi4go between two ranks, beside a C loop over the same MPI in the same process. " +
			"Started without mpirun it starts its ranks itself. K, M and G in sizes are powers of 1024; 1 MB/s is 10^6 bytes/s."),
		kong.Vars{"version": "pingpong, mpi4go " + mpicomm.Version},
		kong.WithHyphenPrefixedParameters(true),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true}),
	}, more...)...)
}

// launchFlags matter only if no launcher has started the process.
type launchFlags struct {
	N            positive `short:"n" default:"2" placeholder:"RANKS" help:"Ranks to start when started without mpirun (${default})."`
	MPI          string   `enum:",openmpi,mpich" default:"" placeholder:"openmpi|mpich" help:"Whose mpirun to start them with. Default: the one that is installed, Open MPI first."`
	Mpirun       string   `placeholder:"PATH" help:"That mpirun itself, of Open MPI or MPICH, in the place of one that is found."`
	LauncherArgs string   `placeholder:"'ARG ...'" help:"More arguments for that mpirun, as in --launcher-args='--bind-to core'."`
}

// contextFlag says which context the calls get.
type contextFlag struct {
	Ctx bool `json:"ctx" default:"true" negatable:"" help:"Give the calls a context that can be cancelled (yes)."`
}

// context returns the context of the calls and what ends it.
func (f contextFlag) context() (context.Context, context.CancelFunc) {
	if !f.Ctx {
		return context.Background(), func() {}
	}
	return context.WithCancel(context.Background())
}

// pairFlags are those of modes between two ranks.
type pairFlags struct {
	contextFlag
	Ranks rankPair `json:"ranks" default:"0,1" placeholder:"A,B" help:"The two ranks (${default}); the others sleep."`
}

func (f pairFlags) ranksNeeded() int { return max(f.Ranks[0], f.Ranks[1]) + 1 }

// roundFlags say how often something is measured.
type roundFlags struct {
	Rounds     positive `json:"rounds" default:"5" placeholder:"N" help:"Rounds; their median is reported (${default})."`
	Iterations count    `json:"iterations" name:"iters" default:"0" placeholder:"N" help:"Iterations of a round. Default: by size."`
	Warmup     *count   `json:"warmup,omitempty" placeholder:"N" help:"Iterations before each round that are not timed. Default: a tenth."`
}

// iterations returns those to time and those before them.
func (f roundFlags) iterations(otherwise int) (timed, warmup int) {
	timed = int(f.Iterations)
	if timed == 0 {
		timed = otherwise
	}
	if f.Warmup != nil {
		return timed, int(*f.Warmup)
	}
	return timed, max(timed/10, 1)
}

// sizeFlags say what the messages are.
type sizeFlags struct {
	Sizes     sizes `json:"sizes" default:"${sizes}" placeholder:"SIZES" help:"Message lengths in bytes: a list 1,8,64K or ranges 0:4M that double (${default})."`
	Validated bool  `json:"validate" name:"validate" help:"Fill every message with another pattern and verify what arrives."`
}

// contents are what messages are filled with, nil unless they are validated.
func (f sizeFlags) contents(m *memory) contents {
	if !f.Validated {
		return nil
	}
	return m.contents(f.Sizes.max())
}

// compareFlags are those of modes with a C column.
type compareFlags struct {
	NoC bool `json:"no_c" name:"no-c" help:"Leave out the C loop."`
}

// plotFlag is that of modes with a curve.
type plotFlag struct {
	Plot picture `json:"plot,omitempty" placeholder:"FILE" help:"Draw the curves, ours and C's, into FILE.svg or FILE.png."`
}

// count is a number that is not negative.
type count int

// UnmarshalText reads a decimal number.
func (c *count) UnmarshalText(text []byte) error {
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 0 {
		return fmt.Errorf("%q is not a number from 0", text)
	}
	*c = count(n)
	return nil
}

// positive is a number that is not 0 either.
type positive int

// UnmarshalText reads a decimal number.
func (p *positive) UnmarshalText(text []byte) error {
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 1 {
		return fmt.Errorf("%q is not a number from 1", text)
	}
	*p = positive(n)
	return nil
}

// rankPair is two ranks, the first of which starts and prints.
type rankPair [2]int

// UnmarshalText reads "0,1".
func (p *rankPair) UnmarshalText(text []byte) error {
	a, b, found := strings.Cut(string(text), ",")
	var err [2]error
	p[0], err[0] = strconv.Atoi(a)
	p[1], err[1] = strconv.Atoi(b)
	if !found || errors.Join(err[:]...) != nil || p[0] < 0 || p[1] < 0 || p[0] == p[1] {
		return fmt.Errorf("%q is not two ranks such as 0,1", text)
	}
	return nil
}

// MarshalJSON writes [0,1]: without it the text form would be asked for.
func (p rankPair) MarshalJSON() ([]byte, error) { return json.Marshal([2]int(p)) }

// picture is the name of a file to draw into.
type picture string

// UnmarshalText reads a file name with an extension that can be drawn.
func (p *picture) UnmarshalText(text []byte) error {
	switch filepath.Ext(string(text)) {
	case ".svg", ".png":
		*p = picture(text)
		return nil
	}
	return fmt.Errorf("%q is neither a .svg nor a .png file", text)
}
