// Command pingpong measures mpi4go between two ranks, beside a C loop over the
// same MPI in the same process. It follows the OSU micro-benchmarks in what is
// measured and how it is printed.
//
//	pingpong                       # latency; starts its own two ranks
//	mpirun -n 2 pingpong bandwidth --sizes 1K:4M
//	pingpong --help
//
// The exit code is 0, 1 for a failure, 2 for wrong use, and 128 plus the signal
// (130, 143) if it was interrupted.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/alecthomas/kong"

	"github.com/mpi4go/mpi4go/internal/cmpi"
	"github.com/mpi4go/mpi4go/mpicomm"
)

const (
	exitFailure = 1
	exitUsage   = 2
)

// forwarding is how long an error message may take through the launcher: what
// is on its way when the job is aborted is lost with Hydra.
const forwarding = 200 * time.Millisecond

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	launcher := cmpi.FindLauncher()
	stdout, stderr := io.Writer(os.Stdout), io.Writer(os.Stderr)
	if launcher.Variable != "" && os.Getenv(launcher.Variable) != "0" { // the help, or what is wrong with the options, once
		stdout, stderr = io.Discard, io.Discard
	}
	usage := func(err error) int {
		fmt.Fprintf(stderr, "pingpong: %v (see pingpong --help)\n", err)
		return exitUsage
	}

	var options options
	parser, err := newParser(&options, kong.Writers(stdout, stderr))
	if err != nil {
		return usage(err)
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		return usage(err)
	}
	m := parsed.Selected().Target.Addr().Interface().(mode)
	if launcher.Name == "" {
		if err := enough(m, int(options.N)); err != nil {
			return usage(fmt.Errorf("-n: %w", err))
		}
		if s, ok := m.(starter); ok {
			return s.start(&options)
		}
		return launch(options.launchFlags, args)
	}
	run, ok := m.(inRanks)
	if !ok {
		return usage(fmt.Errorf("%s starts its jobs itself: run it without mpirun; --mpi and --launcher-args say how it starts them", parsed.Selected().Name))
	}

	memory, err := openMemory(m)
	if err == nil {
		err = mpicomm.Init(mpicomm.Config{})
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "pingpong: rank %s: %v\n", os.Getenv(launcher.Variable), err)
		return exitFailure
	}
	rank := mpicomm.World().Rank()
	fail := func(err error) { fmt.Fprintf(os.Stderr, "pingpong: rank %d: %v\n", rank, err) }
	if err := enough(m, mpicomm.World().Size()); err != nil {
		if rank == 0 {
			fail(err)
		}
		_ = mpicomm.Finalize() // what is wrong was said
		return exitUsage
	}
	j, err := newJob(&options, parsed.Selected().Name, m, memory)
	if err == nil {
		err = run.Run(j)
	}
	if err != nil {
		j.report.flush()
		fail(err)
		time.Sleep(forwarding)
		mpicomm.Abort(exitFailure)
	}
	if err := errors.Join(memory.reset(), mpicomm.Finalize(), memory.close()); err != nil {
		fail(err)
		time.Sleep(forwarding)
		return exitFailure
	}
	return 0
}

// enough tells whether a mode can run on so many ranks.
func enough(m mode, ranks int) error {
	if needed := m.ranksNeeded(); ranks < needed {
		return fmt.Errorf("%d ranks are needed at least, and the job has %d", needed, ranks)
	}
	return nil
}
