package mpicomm_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/stretchr/testify/require"
)

// programOutOfOrder calls collectives that do not fit together, with
// Config.Debug, prints what it hears of that, and goes on with such that do.
func programOutOfOrder() error {
	if err := mpicomm.Init(mpicomm.Config{Debug: true}); err != nil {
		return err
	}
	c := mpicomm.World()
	one, sum := []int32{1}, []int32{0}
	report := func(what string, err error) error {
		if !errors.Is(err, mpicomm.ErrOrder) {
			return fmt.Errorf("%s: want ErrOrder, got %v", what, err)
		}
		fmt.Printf("%s: %v\n", what, err)
		return nil
	}
	var err error
	if c.Rank() == 0 {
		err = mpicomm.Allreduce(background, c, one, sum, mpicomm.Sum)
	} else {
		err = mpicomm.Bcast(background, c, one, 0)
	}
	if err := report("other call", err); err != nil {
		return err
	}
	if err := report("other root", mpicomm.Bcast(background, c, one, c.Rank())); err != nil {
		return err
	}
	if err := report("other length", mpicomm.Bcast(background, c, make([]int32, 1+c.Rank()), 0)); err != nil {
		return err
	}
	r, err := mpicomm.Iallreduce(c, one, sum, mpicomm.ReduceOp(c.Rank()))
	if err != nil {
		return err
	}
	// A non-blocking form does not wait for the others.
	barrier, err := c.Ibarrier()
	if err != nil {
		return err
	}
	next, previous := ring(c)
	if _, err := coro.Sendrecv(background, c, one, next, 1, sum, previous, 1); err != nil {
		return err
	}
	if _, err = r.Wait(background); err != nil {
		err = report("other operation", err)
	} else {
		err = errors.New("nothing was wrong with another operation")
	}
	if err != nil {
		return err
	}
	if _, err := barrier.Wait(background); err != nil {
		return err
	}
	dup, err := c.Dup(background)
	if err != nil {
		return err
	}
	if err := mpicomm.Allreduce(background, dup, one, sum, mpicomm.Sum); err != nil {
		return err
	}
	if err := dup.Free(background); err != nil {
		return err
	}
	fmt.Println("sum", sum[0])
	return mpicomm.Finalize()
}

// TestOrder shows what Config.Debug says of collectives that the ranks call in
// different orders, or with different arguments.
func TestOrder(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		r := mpitest.Job{MPI: mpi, Ranks: 3, Program: "out of order"}.Run(t)
		require.Equal(t, 0, r.Code, r.Output)
		for _, want := range []string{
			"other call: ibcast: the ranks called different collective operations: rank 0 iallreduce (Sum) of 1 elements of type int32, rank 1 ibcast of 4 elements of type byte with root 0: start",
			"other root: ibcast: the ranks called different collective operations: rank 0 ibcast of 4 elements of type byte with root 0, rank 1 ibcast of 4 elements of type byte with root 1",
			"other length: ibcast: the ranks called different collective operations: rank 0 ibcast of 4 elements",
			"other operation: iallreduce: the ranks called different collective operations: rank 0 iallreduce (Max) of 1 elements of type int32, rank 1 iallreduce (Min)",
			"sum 3",
		} {
			require.Equal(t, want != "", strings.Contains(r.Output, want), "%s\n%s", want, r.Output)
		}
	})
}

// TestOrderHolds runs the tests of the collectives with the check.
func TestOrderHolds(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		r := mpitest.Job{
			MPI: mpi, Ranks: 2, Env: []string{"MPI4GO_DEBUG=1"},
			Args: []string{"-test.run", "^(TestBcast|TestBarrier|TestInPlace|TestCollectiveRequests|TestTwoCommunicators|TestPieces|TestCancelledCollective|TestCollectiveSuspends|TestWrongCollectives|TestSplit|TestCreate|TestDup|TestSplitWaits)$", "-test.v"},
		}.Run(t)
		require.Equal(t, 0, r.Code, r.Output)
		require.Equal(t, 26, strings.Count(r.Output, "--- PASS: "), r.Output)
	})
}

// TestDebugAgrees shows that Init wants Config.Debug on all ranks or on none.
func TestDebugAgrees(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		r := mpitest.Job{MPI: mpi, Ranks: 2, Program: "debug on one"}.Run(t)
		require.NotEqual(t, 0, r.Code)
		require.Contains(t, r.Output, "rank 1 runs with Config.Debug false and rank 0 with true: give all ranks the same")
	})
}

func programDebugOnOne() error {
	first := os.Getenv("OMPI_COMM_WORLD_RANK") == "0" || os.Getenv("PMI_RANK") == "0"
	return mpicomm.Init(mpicomm.Config{Debug: first})
}
