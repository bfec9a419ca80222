package mpicomm_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/stretchr/testify/require"
)

// The tests of this file show what docs/failures.md says.

const (
	envFailure = "MPI4GO_TEST_FAILURE" // what happens to rank 1
	envSurvive = "MPI4GO_TEST_SURVIVE" // 1: the others do not wait for it without an end
)

// programFailure has something happen to rank 1 of 3 while the others wait for
// it, without an end or for 2 s. Then they send to it and to each other, call
// Finalize, say what they see, and exit with 0.
func programFailure() error {
	if err := mpicomm.Init(mpicomm.Config{DrainTimeout: 2 * time.Second}); err != nil {
		return err
	}
	c := mpicomm.World()
	if err := exchange(c); err != nil {
		return err
	}
	how := os.Getenv(envFailure)
	if c.Rank() == 1 {
		if err := coro.Send(background, c, []int64{int64(os.Getpid())}, 0, 98); err != nil {
			return err
		}
		time.Sleep(300 * time.Millisecond) // what was printed is through
		if err := fail(how); err != nil {
			return err
		}
		for _, rank := range []int{0, 2} {
			if err := coro.Send(background, c, make([]byte, 1<<20), rank, 99); err != nil {
				return err
			}
		}
		return mpicomm.Finalize()
	}
	if c.Rank() == 0 {
		pid := make([]int64, 1)
		if _, err := coro.Recv(background, c, pid, 1, 98); err != nil {
			return err
		}
		fmt.Println("rank 1 runs")
		if how == stopped {
			_ = syscall.Kill(int(pid[0]), syscall.SIGSTOP)
			time.AfterFunc(2*time.Second, func() { _ = syscall.Kill(int(pid[0]), syscall.SIGCONT) })
		}
	}
	ctx := background
	if os.Getenv(envSurvive) == "1" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
	}
	_, err := coro.Recv(ctx, c, make([]byte, 1<<20), 1, 99)
	fmt.Printf("rank %d: Recv: %v\n", c.Rank(), err)
	if err == nil {
		return mpicomm.Finalize()
	}
	var inFlight *mpicomm.InFlightError
	ctx, cancel := context.WithTimeout(background, 500*time.Millisecond)
	defer cancel()
	_, err = mpicomm.Do(ctx, c.SendOp(mem.Of(make([]byte, 1<<20)), 1, 97))
	fmt.Printf("rank %d: Send in flight: %v\n", c.Rank(), errors.As(err, &inFlight))
	other, number := 2-c.Rank(), make([]int64, 1)
	_, err = coro.Sendrecv(background, c, []int64{42}, other, 96, number, other, 96)
	fmt.Printf("rank %d: from the other: %d %v\n", c.Rank(), number, err)
	var pending *mpicomm.PendingError
	err = mpicomm.Finalize()
	fmt.Printf("rank %d: Finalize skipped: %v\n", c.Rank(), errors.As(err, &pending) && pending.Skipped)
	time.Sleep(3 * time.Second) // the launcher may kill the other survivor when one ends without MPI_Finalize
	os.Exit(0)
	return nil
}

// What happens to a rank, as the tables name it.
const (
	interrupted = "the launcher is interrupted (SIGINT)"
	stopped     = "stopped (SIGSTOP) for 2 s, then continued"
)

// fail makes it happen.
func fail(how string) error {
	switch how {
	case "a panic in a goroutine":
		go panic("boom")
		time.Sleep(time.Minute)
	case "`os.Exit(3)`":
		os.Exit(3)
	case "an error: exit code 1 without `Finalize`":
		os.Exit(1)
	case "exit code 0 without `Finalize`":
		os.Exit(0)
	case "killed (SIGKILL)":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		time.Sleep(time.Minute)
	case "`mpicomm.Abort(5)`":
		mpicomm.Abort(5)
	case interrupted:
		time.Sleep(time.Minute)
	case stopped:
	default:
		return fmt.Errorf("no program does %q", how)
	}
	return nil
}

// table returns the rows of a table of docs/failures.md by its first heading.
func table(t *testing.T, heading string) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(mpitest.Root(t), "docs", "failures.md"))
	require.NoError(t, err)
	_, after, found := strings.Cut(string(text), "| "+heading+" |")
	require.True(t, found, heading)
	for i, line := range strings.Split(after, "\n") {
		if i > 0 && !strings.HasPrefix(line, "|") {
			break
		}
		if i > 1 {
			rows = append(rows, strings.Split(strings.Trim(line, "| "), " | "))
		}
	}
	require.NotEmpty(t, rows)
	return rows
}

// requireCode compares an exit code with what a table says.
func requireCode(t *testing.T, says string, code int) {
	t.Helper()
	switch says {
	case "anything", "anything, **even 0**":
	case "not 0":
		require.NotEqual(t, 0, code)
	default:
		want, err := strconv.Atoi(says)
		require.NoError(t, err)
		require.Equal(t, want, code)
	}
}

// TestFailures shows that a failing rank ends the job, and with which code.
func TestFailures(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		for _, row := range table(t, "what happens to a rank") {
			how, others, code := row[0], row[1], map[string]string{"openmpi": row[2], "mpich": row[3]}[mpi]
			t.Run(how, func(t *testing.T) {
				j := mpitest.Job{MPI: mpi, Ranks: 3, Program: "failure", Env: []string{envFailure + "=" + how}}
				if how == interrupted {
					j.When = "rank 1 runs"
				}
				r := j.Run(t)
				require.False(t, r.TimedOut)
				require.Zero(t, r.Left)
				require.Less(t, r.Took, 15*time.Second)
				requireCode(t, code, r.Code)
				require.Contains(t, r.Output, "rank 1 runs")
				if others == "are killed" {
					require.NotContains(t, r.Output, "Recv")
				} else {
					require.Contains(t, r.Output, "rank 0: Recv: <nil>")
					require.Contains(t, r.Output, "rank 2: Recv: <nil>")
				}
			})
		}
	})
}

// TestSurvivors shows what the others see if the launcher lets them live.
func TestSurvivors(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		for _, row := range table(t, "launcher and option") {
			launcher, option, _ := strings.Cut(row[0], " ")
			how, others, code := row[1], row[2], row[3]
			if launcher != mpi {
				continue
			}
			t.Run(option+" "+how, func(t *testing.T) {
				r := mpitest.Job{
					MPI: mpi, Ranks: 3, Program: "failure", Options: strings.Fields(strings.Trim(option, "`")),
					Env: []string{envFailure + "=" + how, envSurvive + "=1"},
				}.Run(t)
				require.False(t, r.TimedOut)
				require.Zero(t, r.Left)
				require.Less(t, r.Took, 28*time.Second)
				requireCode(t, code, r.Code)
				switch others {
				case "live":
					for _, rank := range []string{"rank 0: ", "rank 2: "} {
						require.Contains(t, r.Output, rank+"Recv: irecv: context deadline exceeded")
						require.Contains(t, r.Output, rank+"Send in flight: true")
						require.Contains(t, r.Output, rank+"from the other: [42] <nil>")
						require.Contains(t, r.Output, rank+"Finalize skipped: true")
					}
				case "are killed":
					require.NotContains(t, r.Output, "Recv")
				default:
					require.Equal(t, "may be killed", others)
				}
			})
		}
	})
}
