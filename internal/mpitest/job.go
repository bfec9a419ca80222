package mpitest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/internal/cmpi"
)

// Job is a job that a test starts, for what cannot be done in the job that the
// tests themselves run in.
type Job struct {
	MPI     string        // a configuration such as "openmpi" or "mpich"; "" starts one process without a launcher
	Ranks   int           // that run Program; 1 if it is 0
	Program string        // a function named with [Program]
	Args    []string      // or arguments for the test binary, which then runs tests
	Command []string      // or another command in the place of the test binary
	Peer    []string      // a command that is one more rank, the last
	Options []string      // for the launcher
	Env     []string      // more environment variables
	When    string        // once a rank has printed this, the launcher gets an interrupt
	Timeout time.Duration // 0 for a minute
}

// Result is what a [Job] left.
type Result struct {
	Code     int    // the exit code of the launcher, or of the process; -1 for a signal
	Output   string // of the launcher and of all ranks
	TimedOut bool   // and was killed
	Took     time.Duration
	Left     int // ranks that still ran 2 s after the launcher had ended
}

// Run starts the job and waits for its end.
func (j Job) Run(t testing.TB) Result {
	t.Helper()
	var argv, env []string
	ranks := max(j.Ranks, 1)
	if j.MPI != "" {
		c := named(j.MPI)
		argv, env = c.launch(ranks+min(len(j.Peer), 1)), c.environment()
		argv = append(append(argv, j.Options...), "-n", strconv.Itoa(ranks))
	}
	if len(j.Command) > 0 {
		argv = append(argv, j.Command...)
	} else {
		argv = append(append(argv, os.Args[0]), j.Args...)
	}
	if len(j.Peer) > 0 {
		argv = append(append(argv, ":", "-n", "1"), j.Peer...)
	}
	env = append(env, j.Env...)
	if j.Program != "" {
		env = append(env, envProgram+"="+j.Program)
	}
	var output strings.Builder
	p := &processes{
		argv: argv, env: env, ranks: ranks, timeout: j.Timeout,
	}
	p.line = func(_ int, line string) {
		fmt.Fprintln(&output, line)
		if j.When != "" && strings.Contains(line, j.When) {
			p.interrupt.Do(func() { _ = syscall.Kill(p.launcher, syscall.SIGINT) })
		}
	}
	if p.timeout == 0 {
		p.timeout = time.Minute
	}
	if err := p.run(context.Background()); err != nil && !p.timedOut {
		t.Fatal(err)
	}
	r := Result{Code: p.code, Output: output.String(), TimedOut: p.timedOut, Took: p.took, Left: p.left}
	t.Logf("%s: exit code %d after %v, %d ranks left, timed out: %v\n%s", strings.Join(argv, " "), r.Code, r.Took.Round(time.Millisecond), r.Left, r.TimedOut, r.Output)
	return r
}

// runProgram runs a function in the place of the tests. A process that no
// launcher started keeps its output.
func (p *plan) runProgram(name string) {
	c, err := connect(rankNumber())
	if err == nil {
		f := p.programs[name]
		if f == nil {
			err = fmt.Errorf("mpitest: TestMain names no program %q", name)
		} else {
			err = f()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		c.exit(1)
	}
	c.exit(0)
}

// Mpirun is the launcher of a configuration, and the variables that it needs, for a
// program that calls it itself.
func Mpirun(mpi string) (path string, env []string) {
	c := named(mpi)
	return launcher(c.family), c.environment()
}

// EachMPI runs a test for each MPI that is installed and chosen. It is skipped
// if there is none, and in a rank.
func EachMPI(t *testing.T, f func(t *testing.T, mpi string)) {
	t.Helper()
	each(t, "needs an MPI: none is installed, or chosen", f, "openmpi", "mpich", "mpiabi")
}

// EachCUDA is EachMPI for the configurations of the CUDA-enabled Open MPI, which have to
// be chosen by name.
func EachCUDA(t *testing.T, f func(t *testing.T, mpi string)) {
	t.Helper()
	each(t, "needs a CUDA-enabled Open MPI: make test-cuda builds it and chooses it", f, "openmpi-cuda", "openmpi-cuda-noipc", "openmpi-cuda-tcp")
}

// each runs a test for those of the configurations that are there and were chosen.
func each(t *testing.T, missing string, f func(t *testing.T, mpi string), configurations ...string) {
	t.Helper()
	Alone(t)
	if testing.Short() {
		t.Skip("starts jobs of its own: not with -short")
	}
	chosen, _, err := choose()
	if err != nil {
		t.Fatal(err)
	}
	done := false
	for _, mpi := range configurations {
		if slices.ContainsFunc(chosen, func(c configuration) bool { return c.name == mpi }) {
			done = true
			t.Run(mpi, func(t *testing.T) { f(t, mpi) })
		}
	}
	if !done {
		t.Skip(missing)
	}
}

// BothMPIs is EachMPI for a test that needs Open MPI and MPICH at once.
func BothMPIs(t *testing.T) {
	t.Helper()
	Alone(t)
	for _, name := range []string{"openmpi", "mpich"} {
		if launcher(name) == "" || slices.Equal(list("MPI4GO_TEST_MPIS"), []string{"none"}) {
			t.Skip("needs Open MPI and MPICH")
		}
	}
}

// Launched tells whether a launcher started this process.
func Launched() bool { return cmpi.FindLauncher().Name != "" }
