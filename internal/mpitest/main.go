package mpitest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/internal/cmpi"
	"github.com/mpi4go/mpi4go/internal/cudasim"
	"github.com/mpi4go/mpi4go/mpicomm"
)

// Option changes what [Main] does.
type Option func(*plan)

// Ranks replaces the numbers of ranks to launch, which are 1 to 4 by default. None are
// launched for a package all of whose tests start jobs of their own.
func Ranks(n ...int) Option { return func(p *plan) { p.ranks = append([]int{}, n...) } }

// Program names a function that a [Job] of a test can run in the place of the
// tests. An error is printed and makes the exit code 1.
func Program(name string, f func() error) Option {
	return func(p *plan) { p.programs[name] = f }
}

// BeforeInit names a function that each rank calls before mpicomm.Init, and one that it
// calls after mpicomm.Finalize. A rank whose function fails fails.
func BeforeInit(before, after func() error) Option {
	return func(p *plan) { p.before, p.after = before, after }
}

// Environment names a function that makes what the ranks need, in a folder that is
// removed at the end. It sets variables of the environment; a rank does not call it.
func Environment(f func(dir string) error) Option {
	return func(p *plan) { p.environment = f }
}

type plan struct {
	ranks         []int
	programs      map[string]func() error
	before, after func() error
	environment   func(dir string) error
}

const envProgram = "MPI4GO_TEST_PROGRAM"

// Main is for the TestMain of a package whose tests need ranks. It does not
// return.
func Main(m *testing.M, options ...Option) {
	nothing := func() error { return nil }
	p := &plan{programs: map[string]func() error{}, before: nothing, after: nothing, environment: func(string) error { return nil }}
	for _, o := range options {
		o(p)
	}
	flag.Parse()
	switch program := os.Getenv(envProgram); {
	case program != "":
		p.runProgram(program)
	case cmpi.FindLauncher().Name != "":
		p.runRank(m)
	default:
		os.Exit(p.parent(m))
	}
}

// rankNumber is the rank as the launcher tells it, before MPI is initialised.
func rankNumber() int {
	n, _ := strconv.Atoi(os.Getenv(cmpi.FindLauncher().Variable))
	return n
}

// runRank is a rank of a launch.
func (p *plan) runRank(m *testing.M) {
	c, err := connect(rankNumber())
	if err != nil {
		fmt.Fprintln(os.Stderr, "mpitest:", err)
		os.Exit(1)
	}
	nameProfiles()
	fail := func(err error) { fmt.Fprintln(os.Stderr, err); c.exit(1) }
	if err := p.before(); err != nil {
		fail(err)
	}
	if err := mpicomm.Init(mpicomm.Config{}); err != nil {
		fail(err)
	}
	info, err := mpicomm.Info()
	if err != nil {
		fail(err)
	}
	host, _ := os.Hostname()
	c.tell("library %s", info.LibraryVersion)
	c.tell("host %s", host)
	if err := startWorld(); err != nil {
		fail(err)
	}
	code := m.Run()
	if err := mpicomm.Finalize(); err != nil {
		if pending := (*mpicomm.PendingError)(nil); !errors.As(err, &pending) || !pending.Hung {
			fail(err)
		}
		fmt.Fprintln(os.Stderr, err)
		c.tell("hung")
	}
	if err := p.after(); err != nil {
		fail(err)
	}
	c.exit(code)
}

// profiles are the flags of package testing that name files, which the ranks
// must not share.
var profiles = map[string]bool{
	"test.cpuprofile": true, "test.memprofile": true, "test.blockprofile": true, "test.mutexprofile": true, "test.trace": true,
}

const coverDir = "test.gocoverdir"

// nameProfiles gives this rank's profiles names of their own.
func nameProfiles() {
	flag.Visit(func(f *flag.Flag) {
		if profiles[f.Name] {
			_ = flag.Set(f.Name, fmt.Sprintf("%s.%d", f.Value, rankNumber()))
		}
		if f.Name == coverDir && os.Getenv(envControl) != "" {
			dir := filepath.Join(f.Value.String(), fmt.Sprint(rankNumber()))
			_ = os.MkdirAll(dir, 0o777)
			_ = flag.Set(f.Name, dir)
		}
	})
}

// parent runs the tests under each MPI, then those that need no ranks.
func (p *plan) parent(m *testing.M) int {
	for _, name := range []string{"test.bench", "test.fuzz", "test.list"} {
		if flag.Lookup(name).Value.String() != "" {
			return m.Run()
		}
	}
	chosen, notes, err := choose()
	if err != nil {
		fmt.Println("FAIL mpitest:", err)
		return 1
	}
	for _, note := range notes {
		fmt.Println("mpitest:", note)
	}
	dir, err := os.MkdirTemp("", "mpitest")
	if err == nil {
		defer os.RemoveAll(dir)
		err = p.environment(dir)
	}
	if err == nil && slices.ContainsFunc(chosen, func(c configuration) bool { return c.family == "openmpi-cuda" }) {
		err = cudasim.Use(dir)
	}
	if err != nil {
		fmt.Println("FAIL mpitest:", err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	defer stop()
	code := 0
	for _, c := range chosen {
		ranks := c.ranks
		if p.ranks != nil && (len(ranks) > 1 || len(p.ranks) == 0) {
			ranks = p.ranks
		}
		for _, n := range ranks {
			if !p.launch(ctx, &c, n) {
				code = 1
			}
			if ctx.Err() != nil {
				return 130
			}
		}
	}
	stop()
	if hosts() > 1 {
		fmt.Println("mpitest: MPI4GO_TEST_HOSTS: tests that start jobs of their own are left out")
		return code
	}
	if own := m.Run(); own != 0 {
		code = own
	}
	return code
}

// launch runs the tests on a number of ranks, prints the verdict and returns it.
func (p *plan) launch(ctx context.Context, c *configuration, ranks int) bool {
	id := fmt.Sprintf("%s-%d", c.name, ranks)
	cover, _ := os.MkdirTemp("", "mpitest")
	defer os.RemoveAll(cover)
	reports := map[int]*report{-1: {}}
	for rank := range ranks {
		reports[rank] = &report{}
	}
	tag := func(rank int) string {
		if rank < 0 {
			return fmt.Sprintf("[%s %d]", c.name, ranks)
		}
		return fmt.Sprintf("[%s %d:%d]", c.name, ranks, rank)
	}
	job := &processes{
		argv:    append(append(c.launch(ranks), "-n", strconv.Itoa(ranks), os.Args[0]), testFlags(id, cover)...),
		env:     c.environment(),
		ranks:   ranks,
		timeout: duration("MPI4GO_TEST_TIMEOUT", 4*time.Minute),
		line: func(rank int, line string) {
			for _, line := range reports[rank].add(line) {
				if testing.Verbose() {
					fmt.Println(tag(rank), line)
				}
			}
		},
	}
	err := job.run(ctx)
	wrong := judge(job, reports, ranks)
	on, hung, excused := job.hosts(), job.hung(), ""
	switch {
	case on < hosts():
		wrong = append(wrong, fmt.Sprintf("the ranks were on %s", plural(on, "host")))
	case hung > 0 && on > 1 && c.family == "mpich":
		excused = fmt.Sprintf("; then MPI_Finalize hung on %s, a fault of MPICH over UCX and TCP: docs/failures.md", plural(hung, "rank"))
	case hung > 0:
		wrong = append(wrong, fmt.Sprintf("MPI_Finalize hung on %s", plural(hung, "rank")))
	}
	if err != nil && !job.timedOut {
		wrong = append(wrong, err.Error())
	}
	if len(wrong) > 0 && !testing.Verbose() {
		for rank := -1; rank < ranks; rank++ {
			r := reports[rank]
			for _, line := range append(r.failures, r.pending...) {
				fmt.Println(tag(rank), line)
			}
		}
	}
	collectCoverage(cover)
	library := "no library"
	if first := job.peers[0]; first != nil && first.library != "" {
		library = first.library
	}
	title := fmt.Sprintf("%s (%s) on %s", c.name, library, plural(ranks, "rank"))
	if on > 1 {
		title += " of " + plural(on, "host")
	}
	took := time.Since(job.began).Round(10 * time.Millisecond)
	if len(wrong) > 0 {
		fmt.Printf("FAIL %s: %s (%v)\n", title, strings.Join(wrong, "; "), took)
		return false
	}
	fmt.Printf("ok %s: %s passed, %d skipped%s (%v)\n", title, plural(reports[0].count("PASS"), "test"), reports[0].count("SKIP"), excused, took)
	return true
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// testFlags are the flags of this process for the ranks of a launch.
func testFlags(id, cover string) []string {
	flags := []string{"-test.v=test2json"}
	flag.Visit(func(f *flag.Flag) {
		value := f.Value.String()
		switch {
		case f.Name == "test.v", f.Name == "test.testlogfile", f.Name == "test.coverprofile":
			return
		case f.Name == coverDir:
			value = cover
		case profiles[f.Name]:
			value += "." + id
		case f.Name == "test.shuffle" && value == "on": // in the same order on all ranks
			value = strconv.FormatInt(time.Now().UnixNano(), 10)
		}
		flags = append(flags, fmt.Sprintf("-%s=%s", f.Name, value))
	})
	return append(flags, flag.Args()...)
}

// collectCoverage adds what the ranks have covered to what this process will
// report at its end.
func collectCoverage(from string) {
	to := flag.Lookup(coverDir).Value.String()
	files, _ := filepath.Glob(filepath.Join(from, "*", "covcounters.*"))
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil && to != "" {
			_ = os.WriteFile(filepath.Join(to, filepath.Base(file)), data, 0o666)
		}
	}
}
