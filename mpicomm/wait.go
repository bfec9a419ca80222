package mpicomm

import (
	"context"
	"fmt"

	"github.com/mpi4go/mpi4go/internal/progress"
)

// Waitall suspends the goroutine until all requests are done. The error is the
// first of theirs, in their order; each request's own is what its Wait returns.
// If the context ends first the error is the context's, and the requests go on.
// Without requests it returns at once.
//
// Source: MPI_Waitall, MPI-4.1 3.7.5.
func Waitall(ctx context.Context, requests ...*Request) error {
	if err := waitFor(ctx, "waitall", len(requests), requests); err != nil {
		return err
	}
	for i, r := range requests {
		if _, err := r.result(); err != nil {
			return fmt.Errorf("request %d of %d: %w", i, len(requests), err)
		}
	}
	return nil
}

// Waitany suspends the goroutine until one of the requests is done, and returns
// its index, status and error. Of several that are done it returns the first.
// If the context ends first, or there are no requests, the index is -1.
//
// Source: MPI_Waitany, MPI-4.1 3.7.5.
func Waitany(ctx context.Context, requests ...*Request) (int, Status, error) {
	if err := waitFor(ctx, "waitany", min(1, len(requests)), requests); err != nil {
		return -1, Status{}, err
	}
	for i, r := range requests {
		if r.op.Done() {
			status, err := r.result()
			return i, status, err
		}
	}
	return -1, Status{}, nil
}

// Waitsome suspends the goroutine until at least one of the requests is done,
// and returns the indices of all that are, in ascending order. The error is the
// context's; those of the requests are what their Wait returns, at once.
//
// Source: MPI_Waitsome, MPI-4.1 3.7.5.
func Waitsome(ctx context.Context, requests ...*Request) ([]int, error) {
	if err := waitFor(ctx, "waitsome", min(1, len(requests)), requests); err != nil {
		return nil, err
	}
	var done []int
	for i, r := range requests {
		if r.op.Done() {
			done = append(done, i)
		}
	}
	return done, nil
}

func waitFor(ctx context.Context, op string, want int, requests []*Request) error {
	if want == 0 {
		return nil
	}
	engine := requests[0].comm.p.engine
	if err := engine.WaitFor(ctx, want, len(requests), func(i int) *progress.Op { return &requests[i].op }); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}
