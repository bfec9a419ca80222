package coro_test

import (
	"context"
	"fmt"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/mpicomm"
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
