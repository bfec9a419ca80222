package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/mpicomm"
)

func main() {
	if err := mpicomm.Init(mpicomm.Config{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	w := mpicomm.World()
	info, _ := mpicomm.Info()
	if w.Rank() == 0 {
		fmt.Print(info)
	}
	n := 1
	if len(os.Args) > 1 {
		n, _ = strconv.Atoi(os.Args[1])
	}
	iters := 100000
	if n > 10000 {
		iters = 2000
	}
	a, b := make([]byte, n), make([]byte, n)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for rep := 0; rep < 5; rep++ {
		t0 := time.Now()
		for i := 0; i < iters; i++ {
			var err error
			if w.Rank() == 0 {
				err = coro.Send(ctx, w, a, 1, 5)
				if err == nil {
					_, err = coro.Recv(ctx, w, b, 1, 5)
				}
			} else {
				_, err = coro.Recv(ctx, w, b, 0, 5)
				if err == nil {
					err = coro.Send(ctx, w, a, 0, 5)
				}
			}
			if err != nil {
				panic(err)
			}
		}
		if w.Rank() == 0 {
			fmt.Printf("%d bytes %.3f us one-way\n", n, time.Since(t0).Seconds()*1e6/float64(iters)/2)
		}
	}
	if err := mpicomm.Finalize(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
