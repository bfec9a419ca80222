package mpitest

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/mpicomm"
)

// testDeadline is how long a test may wait for anything.
var testDeadline = duration("MPI4GO_TEST_DEADLINE", time.Minute)

// duration is the value of an environment variable.
func duration(variable string, otherwise time.Duration) time.Duration {
	if d, err := time.ParseDuration(os.Getenv(variable)); err == nil {
		return d
	}
	return otherwise
}

// world is the harness's own communicator, nil in a process that is not a rank.
var world struct {
	comm   *mpicomm.Comm
	rounds int // of Sync so far
}

func startWorld() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	world.comm, err = mpicomm.World().Dup(ctx)
	return err
}

// Comm returns a duplicate of the world that belongs to this test. The test then
// ends on all ranks together, and fails on all if it fails on one. In a process
// that no launcher started the test is skipped.
func Comm(t testing.TB) *mpicomm.Comm {
	t.Helper()
	NeedRanks(t, 1)
	comm, err := mpicomm.World().Dup(Context(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { agree(t) })
	return comm
}

// Pair is Comm for a test between two ranks, skipped on any other number.
func Pair(t testing.TB) *mpicomm.Comm {
	t.Helper()
	NeedRanks(t, 2)
	if n := world.comm.Size(); n != 2 {
		t.Skipf("runs on 2 ranks, not on %d", n)
	}
	return Comm(t)
}

// NeedRanks skips the test on fewer ranks than n.
func NeedRanks(t testing.TB, n int) {
	t.Helper()
	if world.comm == nil {
		t.Skip("needs ranks: runs under mpirun")
	}
	if world.comm.Size() < n {
		t.Skipf("needs %d ranks", n)
	}
}

// Alone skips the test in a rank: it starts jobs of its own, or needs no MPI.
func Alone(t testing.TB) {
	t.Helper()
	if world.comm != nil {
		t.Skip("runs without a launcher")
	}
}

// Context is the test's context, with a deadline against hangs.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), testDeadline)
	t.Cleanup(cancel)
	return ctx
}

// Sync waits for all ranks of the job. If the test has failed on any of them it
// ends here on all.
func Sync(t testing.TB) {
	t.Helper()
	if !agree(t) {
		t.FailNow()
	}
}

// disagreed holds the test that has failed on all ranks already: they do not
// meet again at its end.
var disagreed testing.TB

// agree waits for all ranks and tells whether the test has failed on none.
func agree(t testing.TB) bool {
	t.Helper()
	if disagreed == t {
		return false
	}
	// The test's own context has ended if this is called at its end.
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline+15*time.Second)
	defer cancel()
	failed := []byte{0}
	if t.Failed() {
		failed[0] = 1
	}
	c := world.comm
	world.rounds++
	tag, heard := world.rounds%32768, []byte{0}
	for step := 1; step < c.Size(); step *= 2 {
		to, from := (c.Rank()+step)%c.Size(), (c.Rank()+c.Size()-step)%c.Size()
		if _, err := coro.Sendrecv(ctx, c, failed, to, tag, heard, from, tag); err != nil {
			t.Errorf("the ranks do not meet: %v", err)
			return false
		}
		failed[0] |= heard[0]
	}
	if failed[0] == 0 {
		return true
	}
	disagreed = t
	if !t.Failed() {
		t.Error("the test failed on another rank")
	}
	return false
}
