package coro_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/stretchr/testify/require"
)

// Rank 0 sends three numbers to rank 1. Run it with two ranks: mpirun -n 2.
func Example() {
	if err := mpicomm.Init(mpicomm.Config{}); err != nil {
		fmt.Println(err)
		return
	}
	world, ctx := mpicomm.World(), context.Background()
	if world.Rank() == 0 {
		if err := coro.Send(ctx, world, []float64{1, 2, 3}, 1, 7); err != nil {
			fmt.Println(err)
		}
	} else {
		values, status, err := coro.RecvAlloc[float64](ctx, world, 0, 7)
		fmt.Println(values, status.Source, err)
	}
	if err := mpicomm.Finalize(); err != nil {
		fmt.Println(err)
	}
}

// A group of goroutines sends to all ranks at once.
func ExampleRun() {
	world := mpicomm.World()
	err := coro.Run(context.Background(), func(g *coro.Group) error {
		for peer := range world.Size() {
			g.Go(func(ctx context.Context) error { return coro.Send(ctx, world, []byte("hello"), peer, 1) })
		}
		for range world.Size() {
			text, status, err := coro.RecvAlloc[byte](g.Context(), world, mpicomm.AnySource, 1)
			if err != nil {
				return err
			}
			fmt.Printf("%s from %d\n", text, status.Source)
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
}

// Rank 0 sends the three columns of a table, which rank 1 receives into memory that it
// makes when it knows their lengths.
func ExampleRecvMessageAlloc() {
	world, ctx := mpicomm.World(), context.Background()
	if world.Rank() == 0 {
		frames, err := mem.Frames([]int64{12, 7}, []float64{0.5, 1.5}, "applepear")
		if err == nil {
			err = coro.SendMessage(ctx, world, frames, 1, 2)
		}
		if err != nil {
			fmt.Println(err)
		}
		return
	}
	var counts []int64
	var prices []float64
	var names []byte
	m, err := coro.RecvMessageAlloc(ctx, world, 0, 2, func(in coro.Incoming) ([]mem.Buffer, error) {
		if len(in.Frames) != 3 {
			return nil, fmt.Errorf("want 3 columns, not %d", len(in.Frames))
		}
		counts = make([]int64, in.Frames[0].Len/8)
		prices = make([]float64, in.Frames[1].Len/8)
		names = make([]byte, in.Frames[2].Len)
		return mem.Frames(counts, prices, names)
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(counts, prices, string(names), "from", m.Source)
}

// A receive with a time limit. Had a message come just then, it would have been delivered
// with a nil error.
func ExampleRecv() {
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer stop()
	_, err := coro.Recv(ctx, mpicomm.World(), make([]byte, 8), mpicomm.AnySource, 3)
	fmt.Println("nothing came:", errors.Is(err, context.DeadlineExceeded))
}

// programExamples runs the examples that do not initialise MPI themselves.
func programExamples() error {
	if err := mpicomm.Init(mpicomm.Config{}); err != nil {
		return err
	}
	ExampleRun()
	ExampleRecvMessageAlloc()
	ExampleRecv()
	return mpicomm.Finalize()
}

// TestExamples shows that the examples print what they should.
func TestExamples(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		r := mpitest.Job{MPI: mpi, Ranks: 2, Program: "example"}.Run(t)
		require.Equal(t, 0, r.Code)
		require.Contains(t, r.Output, "[1 2 3] 0 <nil>\n")

		r = mpitest.Job{MPI: mpi, Ranks: 2, Program: "examples"}.Run(t)
		require.Equal(t, 0, r.Code)
		for _, line := range []string{"hello from 0", "hello from 1", "[12 7] [0.5 1.5] applepear from 0", "nothing came: true"} {
			require.Contains(t, r.Output, line+"\n")
		}
	})
}
