package mpicomm_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/stretchr/testify/require"
)

var background = context.Background()

// programForgotten drops a request that is done, and another that it has asked.
func programForgotten() error {
	if err := mpicomm.Init(mpicomm.Config{}); err != nil {
		return err
	}
	c := mpicomm.World()
	next, previous := ring(c)
	if err := forget(c, next, previous); err != nil {
		return err
	}
	runtime.GC()
	return mpicomm.Finalize()
}

//go:noinline
func forget(c *mpicomm.Comm, next, previous int) error {
	if _, err := c.Isend(mem.Of(make([]byte, 1000)), next, 1); err != nil { // this one is forgotten
		return err
	}
	if _, err := coro.Recv(background, c, make([]byte, 1000), previous, 1); err != nil {
		return err
	}
	asked, err := c.Isend(mem.Of(make([]byte, 1000)), next, 2)
	if err != nil {
		return err
	}
	if _, err := coro.Recv(background, c, make([]byte, 1000), previous, 2); err != nil {
		return err
	}
	_, err = asked.Wait(background)
	return err
}

// TestForgottenRequest shows that with debugging on, Finalize reports a request
// that nobody has waited for, with the place where it was started.
func TestForgottenRequest(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		r := mpitest.Job{MPI: mpi, Ranks: 2, Program: "forgotten", Env: []string{"MPI4GO_DEBUG=1"}}.Run(t)
		require.NotEqual(t, 0, r.Code)
		require.False(t, r.TimedOut)
		require.Contains(t, r.Output, "0 operations were in flight\n1 requests were never waited for\n")
		require.Regexp(t, `isend peer [01] tag 1, 1000 bytes, started .* ago at .*finalize_test.go:\d+ \(.*forget\)`, r.Output)
		require.NotContains(t, r.Output, "tag 2")

		r = mpitest.Job{MPI: mpi, Ranks: 2, Program: "forgotten"}.Run(t)
		require.Equal(t, 0, r.Code, "without debugging it does no harm")
	})
}

// programOutstandingReceive leaves receives behind that nobody will answer.
func programOutstandingReceive() error {
	if err := mpicomm.Init(mpicomm.Config{}); err != nil {
		return err
	}
	c := mpicomm.World()
	next, _ := ring(c)
	short, err := c.Irecv(mem.Of(make([]byte, 10)), mpicomm.AnySource, 5)
	if err != nil {
		return err
	}
	if _, err := c.Irecv(mem.Of(make([]byte, 1000)), next, mpicomm.AnyTag); err != nil {
		return err
	}
	probing := make(chan error, 1)
	go func() {
		_, err := c.Mprobe(background, mpicomm.AnySource, 7)
		probing <- err
	}()
	for mpicomm.Outstanding() < 3 {
		time.Sleep(time.Millisecond)
	}
	err = mpicomm.Finalize()
	var pending *mpicomm.PendingError
	if !errors.As(err, &pending) {
		return fmt.Errorf("Finalize: %w", err)
	}
	if pending.Skipped || len(pending.Operations) != 3 {
		return err
	}
	fmt.Println(err)
	_, err = short.Wait(background)
	fmt.Println("Wait:", err)
	fmt.Println("Mprobe:", <-probing)
	return nil
}

// TestOutstandingReceive shows that Finalize cancels and lists receives that are
// still waiting, and tells their goroutines.
func TestOutstandingReceive(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		for _, debug := range []string{"0", "1"} {
			r := mpitest.Job{MPI: mpi, Ranks: 2, Program: "outstanding receive", Env: []string{"MPI4GO_DEBUG=" + debug}}.Run(t)
			require.Equal(t, 0, r.Code)
			require.Contains(t, r.Output, "mpicomm.Finalize: 3 operations were in flight\n")
			require.Contains(t, r.Output, "irecv peer any tag 5, 10 bytes")
			require.Regexp(t, "irecv peer [01] tag any, 1000 bytes", r.Output)
			require.Contains(t, r.Output, "mprobe peer any tag 7")
			require.Contains(t, r.Output, "Wait: irecv: context canceled")
			require.Contains(t, r.Output, "Mprobe: mprobe: context canceled")
			if debug == "1" {
				require.Regexp(t, `tag 5, 10 bytes, started .* ago at .*finalize_test.go:\d+ \(.*programOutstandingReceive\)`, r.Output)
			} else {
				require.Contains(t, r.Output, "set Config.Debug or MPI4GO_DEBUG=1")
			}
		}
	})
}

// programEndsApart has rank 0 end before the others.
func programEndsApart() error {
	if err := mpicomm.Init(mpicomm.Config{}); err != nil {
		return err
	}
	rank := mpicomm.World().Rank()
	if err := mpicomm.Finalize(); err != nil {
		return err
	}
	if rank == 0 {
		os.Exit(0)
	}
	time.Sleep(300 * time.Millisecond)
	fmt.Println("rank", rank, "has ended")
	return nil
}

// TestEndsApart shows that ranks may end at different times after Finalize, and
// that the job has succeeded then.
func TestEndsApart(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		r := mpitest.Job{MPI: mpi, Ranks: 3, Program: "ends apart"}.Run(t)
		require.Equal(t, 0, r.Code)
		require.Contains(t, r.Output, "rank 1 has ended")
		require.Contains(t, r.Output, "rank 2 has ended")
	})
}

// programStuckSend sends to a rank that does not receive.
func programStuckSend() error {
	if err := mpicomm.Init(mpicomm.Config{DrainTimeout: time.Second}); err != nil {
		return err
	}
	c := mpicomm.World()
	if c.Rank() == 0 {
		if _, err := c.Issend(mem.Of(make([]byte, 1<<20)), 1, 5); err != nil {
			return err
		}
	}
	err := mpicomm.Finalize()
	var pending *mpicomm.PendingError
	if errors.As(err, &pending) && pending.Skipped && errors.Is(err, pending.Cause) {
		fmt.Println("rank", c.Rank(), "skipped MPI_Finalize")
	}
	return err
}

// TestStuckSend shows that Finalize gives up on a send that nobody receives, and
// does not call MPI_Finalize, which might hang. The job then ends, with an error.
func TestStuckSend(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		r := mpitest.Job{MPI: mpi, Ranks: 2, Program: "stuck send"}.Run(t)
		require.False(t, r.TimedOut)
		require.NotEqual(t, 0, r.Code)
		require.Contains(t, r.Output, "issend peer 1 tag 5, 1048576 bytes")
		require.Contains(t, r.Output, "rank 0 skipped MPI_Finalize")
		require.Contains(t, r.Output, "MPI_Finalize was skipped, because it might hang")
	})
}

// programStuckInside has a call into MPI that does not return.
func programStuckInside() error {
	if err := mpicomm.Init(mpicomm.Config{DrainTimeout: time.Second}); err != nil {
		return err
	}
	c := mpicomm.World()
	if _, err := c.Irecv(mem.Of(make([]byte, 10)), mpicomm.AnySource, 5); err != nil {
		return err
	}
	inside := make(chan struct{})
	go func() {
		_ = mpicomm.Exclusive(func() {
			close(inside)
			select {}
		})
	}()
	<-inside
	err := mpicomm.Finalize()
	var pending *mpicomm.PendingError
	if !errors.As(err, &pending) || !pending.Skipped {
		return fmt.Errorf("Finalize: %w", err)
	}
	fmt.Println(err)
	os.Exit(6)
	return nil
}

// TestStuckInside shows that Finalize returns, with an error, even if a thread never
// comes back from MPI.
func TestStuckInside(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		for _, funneled := range []string{"", "MPI4GO_THREAD_LEVEL=funneled"} {
			r := mpitest.Job{MPI: mpi, Ranks: 1, Program: "stuck inside", Env: []string{funneled}}.Run(t)
			require.Equal(t, 6, r.Code)
			require.Contains(t, r.Output, "a call into MPI does not return")
		}
	})
}

// programHung has a peer that calls MPI_Finalize far too late.
func programHung() error {
	if err := mpicomm.Init(mpicomm.Config{DrainTimeout: time.Second}); err != nil {
		return err
	}
	err := mpicomm.Finalize()
	var pending *mpicomm.PendingError
	if !errors.As(err, &pending) || !pending.Hung || pending.Skipped || len(pending.Operations) > 0 {
		return fmt.Errorf("Finalize: %w", err)
	}
	fmt.Println(err)
	os.Exit(6)
	return nil
}

// TestFinalizeIsBounded shows that Finalize returns, with an error, when
// MPI_Finalize does not.
func TestFinalizeIsBounded(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		r := runWithPeer(t, mpi, "hung", time.Minute, mpicomm.Version, "late")
		require.Equal(t, 6, r.Code)
		require.Contains(t, r.Output, "all messages have arrived, but MPI_Finalize does not return")
		require.Less(t, r.Took, 9*time.Second, "it has waited for the other rank")
	})
}

// programSlowReader receives late what the other rank sent before it called
// Finalize.
func programSlowReader() error {
	const count, n = 500, 200
	if err := mpicomm.Init(mpicomm.Config{}); err != nil {
		return err
	}
	c := mpicomm.World()
	if c.Rank() == 0 {
		for i := range count {
			if err := coro.Send(background, c, pattern(n, i), 1, 1); err != nil {
				return err
			}
		}
		return mpicomm.Finalize()
	}
	time.Sleep(200 * time.Millisecond)
	for i := range count {
		buf := make([]byte, n)
		if _, err := coro.Recv(background, c, buf, 0, 1); err != nil {
			return err
		}
		if string(buf) != string(pattern(n, i)) {
			return fmt.Errorf("message %d is wrong", i)
		}
	}
	fmt.Println("received all")
	return mpicomm.Finalize()
}

// TestFinalizeWaitsForReaders shows that what was sent before Finalize arrives.
func TestFinalizeWaitsForReaders(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		r := mpitest.Job{MPI: mpi, Ranks: 2, Program: "slow reader"}.Run(t)
		require.Equal(t, 0, r.Code)
		require.Contains(t, r.Output, "received all")
	})
}

// programDeadPeer has rank 1 die while the others wait for it.
func programDeadPeer() error {
	if err := mpicomm.Init(mpicomm.Config{DrainTimeout: 2 * time.Second}); err != nil {
		return err
	}
	c := mpicomm.World()
	if err := exchange(c); err != nil {
		return err
	}
	if c.Rank() == 1 {
		os.Exit(7)
	}
	_, err := coro.Recv(background, c, make([]byte, 10), 1, 99)
	return err
}

// TestDeadPeer shows that a job ends, with an error, when one of its ranks does.
func TestDeadPeer(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		r := mpitest.Job{MPI: mpi, Ranks: 3, Program: "dead peer", Timeout: 30 * time.Second}.Run(t)
		require.False(t, r.TimedOut)
		require.NotEqual(t, 0, r.Code)
	})
}

// programAbort has one rank end the job.
func programAbort() error {
	if err := mpicomm.Init(mpicomm.Config{}); err != nil {
		return err
	}
	c := mpicomm.World()
	if err := exchange(c); err != nil {
		return err
	}
	if c.Rank() == 1 {
		mpicomm.Abort(5)
	}
	_, err := coro.Recv(background, c, make([]byte, 10), 1, 99)
	return err
}

// TestAbort shows that Abort ends the job with its exit code, while the other
// ranks wait.
func TestAbort(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		r := mpitest.Job{MPI: mpi, Ranks: 3, Program: "abort", Timeout: 30 * time.Second}.Run(t)
		require.False(t, r.TimedOut)
		require.Equal(t, 5, r.Code)
	})
}
