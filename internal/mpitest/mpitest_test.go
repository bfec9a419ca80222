package mpitest_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	mpitest.Main(m, mpitest.Ranks(1, 2), mpitest.Program("exec", func() error {
		return syscall.Exec(os.Getenv(envExec), os.Args[:1], os.Environ())
	}))
}

// envExec names the binary of which the program "exec" makes a rank.
const envExec = "MPI4GO_TEST_EXEC"

// TestSample misbehaves on the last rank as the environment asks. TestVerdict
// looks at what the harness makes of it.
func TestSample(t *testing.T) {
	comm := mpitest.Comm(t)
	mpitest.Sync(t)
	if comm.Rank() != comm.Size()-1 {
		return
	}
	fmt.Println("process", os.Getpid())
	switch os.Getenv("MPI4GO_SAMPLE") {
	case "fail":
		t.Error("this is how it failed")
	case "hang":
		select {}
	case "exit":
		os.Exit(0)
	case "panic":
		panic("this is why")
	case "forget":
		_, err := comm.Irecv(mem.Of(make([]byte, 1)), 0, 0)
		require.NoError(t, err)
	}
}

// TestSampleSkip is not the same on all ranks if the environment asks for that.
func TestSampleSkip(t *testing.T) {
	mpitest.NeedRanks(t, 1)
	if os.Getenv("MPI4GO_SAMPLE") == "skip" && mpicomm.World().Rank() == 1 {
		t.Skip("only here")
	}
}

// TestSync shows that no rank leaves Sync before all have entered it, and that
// a failure that one of them met with is known to all.
func TestSync(t *testing.T) {
	comm := mpitest.Comm(t)
	const tag = 3
	from := (comm.Rank() + comm.Size() - 1) % comm.Size()
	to := (comm.Rank() + 1) % comm.Size()
	send, err := comm.Isend(mem.Of([]byte{1}), to, tag)
	require.NoError(t, err)
	mpitest.Sync(t)
	require.Eventually(t, func() bool {
		_, found, err := comm.Iprobe(from, tag)
		return found && err == nil
	}, 10*time.Second, time.Millisecond)
	_, err = mpicomm.Do(mpitest.Context(t), comm.RecvOp(mem.Of(make([]byte, 1)), from, tag))
	require.NoError(t, err)
	_, err = send.Wait(mpitest.Context(t))
	require.NoError(t, err)
}

func TestContext(t *testing.T) {
	ctx := mpitest.Context(t)
	require.NoError(t, ctx.Err())
	_, bounded := ctx.Deadline()
	require.True(t, bounded)
	require.NoError(t, context.Cause(ctx))
}

// TestVerdict runs the samples in jobs of their own.
func TestVerdict(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		tests := []struct {
			sample string
			code   int
			want   string // in the output
		}{
			{"pass", 0, `(?m)^ok ` + mpi + ` \(.*\d\) on 2 ranks: 2 tests passed, 0 skipped`},
			{"fail", 1, `(?s)\[` + mpi + ` 2:1\] .*this is how it failed.*FAIL ` + mpi + `.*rank 0: 1 of 2 tests failed: TestSample; rank 1: 1 of 2 tests failed`},
			{"exit", 1, `FAIL ` + mpi + `.*rank 1 died`},
			{"panic", 1, `(?s)\[` + mpi + ` 2:1\] panic: this is why.*FAIL ` + mpi + `.*rank 1 died`},
			{"forget", 1, `(?s)1 operations were in flight.*FAIL ` + mpi + `.*rank 1: exit code 1`},
			{"skip", 1, `FAIL ` + mpi + `.*rank 1 ran other tests than rank 0: 1 passed and 1 were skipped, and on rank 0 2 and 0`},
			{"hang", 1, `(?s)\[` + mpi + ` 2:1\] SIGQUIT.*\[` + mpi + ` 2:1\] .*TestSample.*FAIL ` + mpi + `.*timed out after 5s`},
		}
		for _, test := range tests {
			t.Run(test.sample, func(t *testing.T) {
				r := mpitest.Job{
					Args: []string{"-test.run=^TestSample", "-test.timeout=1m"},
					Env: []string{
						"MPI4GO_SAMPLE=" + test.sample, "MPI4GO_TEST_MPIS=" + mpi, "MPI4GO_TEST_RANKS=2", "MPI4GO_TEST_TIMEOUT=5s",
					},
				}.Run(t)
				require.Equal(t, test.code, r.Code)
				require.Regexp(t, test.want, r.Output)
				if process := regexp.MustCompile(`process (\d+)`).FindStringSubmatch(r.Output); process != nil {
					pid, err := strconv.Atoi(process[1])
					require.NoError(t, err)
					require.Eventually(t, func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH }, 10*time.Second, 10*time.Millisecond)
				}
			})
		}
	})
}

// TestGivenLauncher names the launcher by its path.
func TestGivenLauncher(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		path, err := exec.LookPath("mpirun." + mpi)
		if err != nil {
			t.Skip("needs a launcher called mpirun." + mpi)
		}
		r := mpitest.Job{
			Args: []string{"-test.run=^TestSample"},
			Env:  []string{"MPI4GO_TEST_MPIS=" + mpi + "=" + path, "MPI4GO_TEST_RANKS=2", "MPI4GO_TEST_REQUIRE=", "PATH=/nowhere:/bin"},
		}.Run(t)
		require.Equal(t, 0, r.Code)
		require.Regexp(t, `(?m)^ok `+mpi+` \(.*\d\) on 2 ranks: 2 tests passed`, r.Output)
	})
}

func TestRequiredMPI(t *testing.T) {
	mpitest.Alone(t)
	r := mpitest.Job{
		Args: []string{"-test.run=^TestSample"},
		Env:  []string{"MPI4GO_TEST_REQUIRE=openmpi", "MPI4GO_TEST_MPIS=none", "PATH=/nowhere"},
	}.Run(t)
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Output, "openmpi is required (MPI4GO_TEST_REQUIRE) and not installed")
}

func TestNoMPI(t *testing.T) {
	mpitest.Alone(t)
	for env, want := range map[string]string{
		"MPI4GO_TEST_MPIS=none":         "MPI4GO_TEST_MPIS=none: tests that need ranks are skipped",
		"MPI4GO_TEST_MPIS=":             "no MPI: tests that need ranks are skipped",
		"MPI4GO_TEST_MPIS=openmpi":      "openmpi is skipped: not installed",
		"MPI4GO_TEST_MPIS=openmpi-cuda": "openmpi-cuda is skipped: not built: scripts/cuda-openmpi builds it",
	} {
		r := mpitest.Job{Args: []string{"-test.run=^TestSample"}, Env: []string{env, "PATH=/nowhere", "MPI4GO_TEST_REQUIRE="}}.Run(t)
		require.Equal(t, 0, r.Code)
		require.Contains(t, r.Output, want)
	}
	r := mpitest.Job{Args: []string{"-test.run=^TestSample"}, Env: []string{"MPI4GO_TEST_MPIS=lam"}}.Run(t)
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Output, `no configuration "lam": want openmpi, mpich`)
}
