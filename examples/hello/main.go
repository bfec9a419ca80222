// Hello sends a message from rank 0 to rank 1. Run it with mpirun -n 2.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/mpicomm"
)

func main() {
	if err := mpicomm.Init(mpicomm.Config{}); err != nil {
		log.Fatal(err)
	}
	ctx, world, err := context.Background(), mpicomm.World(), error(nil)
	switch world.Rank() {
	case 0:
		err = coro.Send(ctx, world, []byte("hello from rank 0"), 1, 7)
	case 1:
		var greeting []byte
		greeting, _, err = coro.RecvAlloc[byte](ctx, world, 0, 7)
		fmt.Printf("rank 1 of %d got: %s\n", world.Size(), greeting)
	}
	if err != nil {
		log.Print(err)
		mpicomm.Abort(1)
	}
	if err := mpicomm.Finalize(); err != nil {
		log.Fatal(err)
	}
}
