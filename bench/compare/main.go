// Compare measures mpi4go beside other ways to send messages between two processes
// of one machine, in one session, and writes the report docs/comparison.md with its
// plots and the same in JSON.
//
//	go run ./bench/compare                     about ten minutes: --minutes
//	go run ./bench/compare --quick             one minute, for trying
//	go run ./bench/compare --peers ucx,coro --only latency
//	go run ./bench/compare check OLD.json NEW.json
//
// peers/README.md says what a peer is, and how to add one.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/alecthomas/kong"
)

type options struct {
	Run   runCmd   `cmd:"" default:"withargs" help:"Measure, and write the report (the default)."`
	Check checkCmd `cmd:"" help:"Say what is slower in one report than in an older one."`
}

func main() {
	var o options
	parsed := kong.Parse(&o, kong.Name("compare"),
		kong.Description("Measures mpi4go beside C MPI, mpi4py, MPI4Dask's way, gompi, sockets, Dask and UCX, and writes a report."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true}))
	if err := parsed.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

type runCmd struct {
	Quick       bool     `help:"Two repetitions with little time for each measurement: to see whether all peers work."`
	Reps        int      `default:"5" help:"Repetitions: every peer once, then every peer again (${default})."`
	Minutes     float64  `default:"10" help:"About how long the measurements may take; the time for each follows from it (${default})."`
	Ms          int      `name:"ms" help:"Milliseconds for one measurement, in the place of --minutes."`
	WaitMs      int      `default:"400" help:"Milliseconds of the measurements of CPU time while waiting (${default})."`
	Peers       []string `placeholder:"NAME,..." help:"Only peers whose name contains one of these. --list shows the names."`
	Only        []string `placeholder:"KIND,..." help:"Only these measurements: latency, throughput, multi, rate, wait, idle, memory."`
	EveryMPI    bool     `help:"Connections, mpi4py and MPI4Dask's way over every MPI that was found. Default: over the first two; C and coro are always measured over all."`
	List        bool     `help:"List the peers and the gaps, and measure nothing."`
	NoFetch     bool     `help:"Fetch nothing from PyPI: use what the cache has."`
	UCXPySource string   `placeholder:"SOURCE" default:"git+https://github.com/rapidsai/ucx-py@v0.45.00" help:"What pip builds UCX-Py from, a folder too, where PyPI has no wheel of it (${default})."`
	Cache       string   `placeholder:"DIR" help:"Where Python environments and programs are kept. Default: $XDG_CACHE_HOME/mpi4go/compare."`
	Out         string   `default:"docs" placeholder:"DIR" help:"Where comparison.md and the folder comparison are written (${default})."`
}

// Run measures and writes the report.
func (o *runCmd) Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if _, err := os.Stat("bench/compare/peers"); err != nil {
		return fmt.Errorf("run this in the project's folder: %w", err)
	}
	if o.Cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return err
		}
		o.Cache = filepath.Join(dir, "mpi4go", "compare")
	}
	var err error
	if o.Cache, err = filepath.Abs(o.Cache); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(o.Cache, "bin"), 0o777); err != nil {
		return err
	}
	items, err := wantedItems(o.Only, o.Quick)
	if err != nil {
		return err
	}
	p := newPreparation(ctx, o)
	p.prepare()
	if err := ctx.Err(); err != nil {
		return err
	}
	if o.List {
		for _, x := range p.peers {
			fmt.Printf("%-34s %s\n", x.Name, x.Tuning)
		}
		for _, g := range p.gaps {
			fmt.Printf("gap: %s\n", g)
		}
		return nil
	}
	if len(p.peers) == 0 {
		return fmt.Errorf("no peer is left to measure: --list shows them, and the gaps")
	}
	s := newSession(o, p, items)
	if err := s.measure(ctx); err != nil {
		return err
	}
	return write(s.report(), o.Out)
}
