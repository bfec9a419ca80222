package mpicomm_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/stretchr/testify/require"
)

// Each of two ranks starts a receive and a send, and waits for both. The buffers are the
// library's until then.
func Example() {
	world, ctx := mpicomm.World(), context.Background()
	other := 1 - world.Rank()
	theirs := make([]int64, 1)
	receive, err := world.Irecv(mem.Of(theirs), other, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	send, err := world.Isend(mem.Of([]int64{int64(world.Rank())}), other, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := mpicomm.Waitall(ctx, receive, send); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("rank", world.Rank(), "got", theirs)
}

// The sum over all ranks, in place.
func ExampleAllreduce() {
	world, ctx := mpicomm.World(), context.Background()
	values := []float64{1, float64(world.Rank())}
	if err := mpicomm.Allreduce(ctx, world, values, values, mpicomm.Sum); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("sum", values)
}

// Operations that belong together are posted as one set, which completes as a whole.
func ExampleDoAll() {
	world, ctx := mpicomm.World(), context.Background()
	other := 1 - world.Rank()
	keys, values := make([]int32, 2), make([]float32, 2)
	statuses, err := mpicomm.DoAll(ctx, nil,
		world.RecvOp(mem.Of(keys), other, 2),
		world.RecvOp(mem.Of(values), other, 3),
		world.SendOp(mem.Of([]int32{1, 2}), other, 2),
		world.SendOp(mem.Of([]float32{0.5, 1.5}), other, 3))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(keys, values, statuses[0].Count, "bytes")
}

// Every rank is in a communicator of its own half.
func ExampleComm_Split() {
	world, ctx := mpicomm.World(), context.Background()
	half, err := world.Split(ctx, world.Rank()%2, world.Rank())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("rank", half.Rank(), "of", half.Size())
	if err := half.Free(ctx); err != nil {
		fmt.Println(err)
	}
}

func programExamples() error {
	if err := mpicomm.Init(mpicomm.Config{}); err != nil {
		return err
	}
	Example()
	ExampleAllreduce()
	ExampleDoAll()
	ExampleComm_Split()
	return mpicomm.Finalize()
}

// TestExamples shows that the examples print what they should.
func TestExamples(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		r := mpitest.Job{MPI: mpi, Ranks: 2, Program: "examples"}.Run(t)
		require.Equal(t, 0, r.Code)
		for _, line := range []string{"rank 0 got [1]", "rank 1 got [0]", "sum [2 1]", "[1 2] [0.5 1.5] 8 bytes", "rank 0 of 1"} {
			require.Contains(t, r.Output, line+"\n")
		}
	})
}
