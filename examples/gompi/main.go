//go:build gompi

// Gompi uses gompi's collectives and our messages in one program: heat spreads
// along a ring of cells that the ranks share. Goroutines swap the cells at the
// borders with the neighbours, gompi adds up what is there.
//
//	go run -tags gompi ./examples/gompi           # one rank
//	go build -tags gompi -o heat ./examples/gompi && mpirun -n 4 ./heat
//
// gompi is linked with Open MPI when it is built; docs/from-gompi.md says how to
// tell it where that is.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/mpicomm"
	mpi "github.com/sbromberger/gompi"
)

const (
	cells = 1000 // of each rank
	steps = 200
	left  = 1 // the tags of what goes to the left and to the right
	right = 2
)

func main() {
	mpi.Start(true) // MPI_THREAD_MULTIPLE, which Init needs
	defer mpi.Stop()
	if err := mpicomm.Init(mpicomm.Config{}); err != nil {
		log.Fatal(err)
	}
	if err := run(context.Background()); err != nil {
		log.Print(err)
		mpicomm.Abort(1)
	}
	if err := mpicomm.Finalize(); err != nil { // before mpi.Stop
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	all := mpi.NewCommunicator(nil)
	// A duplicate keeps our messages apart from those that gompi may send.
	ring, err := mpicomm.World().Dup(ctx)
	if err != nil {
		return err
	}
	heat := make([]float64, cells+2) // with a cell of either neighbour
	if ring.Rank() == 0 {
		heat[1] = 1e6
	}
	next := make([]float64, len(heat))
	for range steps {
		if err := swap(ctx, ring, heat); err != nil {
			return err
		}
		for i := 1; i <= cells; i++ {
			next[i] = heat[i] + 0.25*(heat[i-1]-2*heat[i]+heat[i+1])
		}
		heat, next = next, heat
	}
	sum, most := []float64{0}, []float64{0}
	for _, h := range heat[1 : cells+1] {
		sum[0] += h
		most[0] = max(most[0], h)
	}
	total, hottest := make([]float64, 1), make([]float64, 1)
	if err := all.AllreduceFloat64s(total, sum, mpi.OpSum, 0); err != nil {
		return err
	}
	if err := all.AllreduceFloat64s(hottest, most, mpi.OpMax, 0); err != nil {
		return err
	}
	if all.Rank() == 0 {
		fmt.Printf("%d ranks: %.0f in all, %.0f in the hottest cell\n", all.Size(), total[0], hottest[0])
	}
	return nil
}

// swap gets the neighbours' cells, both at the same time.
func swap(ctx context.Context, ring *mpicomm.Comm, heat []float64) error {
	before, after := (ring.Rank()+ring.Size()-1)%ring.Size(), (ring.Rank()+1)%ring.Size()
	return coro.Run(ctx, func(g *coro.Group) error {
		g.Go(func(ctx context.Context) error {
			_, err := coro.Sendrecv(ctx, ring, heat[1:2], before, left, heat[cells+1:], after, left)
			return err
		})
		g.Go(func(ctx context.Context) error {
			_, err := coro.Sendrecv(ctx, ring, heat[cells:cells+1], after, right, heat[:1], before, right)
			return err
		})
		return nil
	})
}
