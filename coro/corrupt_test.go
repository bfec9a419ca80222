package coro_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/internal/inner"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/internal/wire"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/stretchr/testify/require"
)

// programCorrupt has rank 1 of 3 send what is no header to rank 0, which receives
// from all.
func programCorrupt() error {
	if err := mpicomm.Init(mpicomm.Config{}); err != nil {
		return err
	}
	ctx, world := context.Background(), mpicomm.World()
	switch world.Rank() {
	case 0:
		failed, innocent := make(chan error, 2), make(chan error, 2)
		go func() {
			_, err := coro.RecvMessage(ctx, world, 1, 5)
			failed <- err
		}()
		for _, source := range []int{2, mpicomm.AnySource} {
			go func() {
				_, err := coro.RecvMessage(ctx, world, source, 6)
				innocent <- err
			}()
		}
		time.Sleep(50 * time.Millisecond)
		for _, rank := range []int{1, 2} {
			if err := coro.Send(ctx, world, []byte{1}, rank, 1); err != nil {
				return err
			}
		}
		fmt.Println("its own receive:", errors.Is(<-failed, wire.ErrHeader))
		_, err := coro.RecvMessage(ctx, world, 1, 7)
		fmt.Println("a later receive:", errors.Is(err, wire.ErrHeader))
		fmt.Println("a send to it:", errors.Is(coro.SendMessage(ctx, world, nil, 1, 7), wire.ErrHeader))
		fmt.Println("others:", <-innocent, <-innocent)
	case 1:
		if _, err := coro.Recv(ctx, world, make([]byte, 1), 0, 1); err != nil {
			return err
		}
		p, err := inner.ThisProcess()
		if err != nil {
			return err
		}
		garbage := []byte("this is no header at all, but has more than 24 bytes")
		if _, err := mpicomm.Do(ctx, p.Private.(*mpicomm.Comm).SendOp(mem.Of(garbage), 0, 0)); err != nil {
			return err
		}
	case 2:
		if _, err := coro.Recv(ctx, world, make([]byte, 1), 0, 1); err != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
		for range 2 {
			if err := coro.SendMessage(ctx, world, []mem.Buffer{mem.Of([]byte("x"))}, 0, 6); err != nil {
				return err
			}
		}
	}
	return mpicomm.Finalize()
}

// TestCorruptHeader shows that a header that cannot be understood fails nobody but
// those who wait for its sender.
func TestCorruptHeader(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		r := mpitest.Job{MPI: mpi, Ranks: 3, Program: "corrupt"}.Run(t)
		require.Equal(t, 0, r.Code)
		for _, line := range []string{"its own receive: true", "a later receive: true", "a send to it: true", "others: <nil> <nil>"} {
			require.Contains(t, r.Output, line)
		}
	})
}

// TestMatching compares the receivers of messages with those that a search in the
// order of calls finds: sources and tags of every kind wait and come in any order.
func TestMatching(t *testing.T) {
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	const n = 300
	if c.Rank() == 0 {
		for i := range n {
			require.NoError(t, coro.SendMessage(ctx, c, framesOf([]int{i % 7}, i), 1, i%5))
			if i%50 == 49 {
				mpitest.Sync(t)
			}
		}
		return
	}
	// In every half the receives are there before the messages, or after them.
	for half := range n / 50 {
		requests := make([]*coro.MessageRequest, 0, 50)
		post := func() {
			for i := half * 50; i < half*50+50; i++ {
				source, tag := 0, i%5
				if i%3 == 0 {
					source = mpicomm.AnySource
				}
				r, err := coro.IrecvMessage(c, source, tag)
				require.NoError(t, err)
				requests = append(requests, r)
			}
		}
		if half%2 == 0 {
			post()
		}
		mpitest.Sync(t)
		if half%2 == 1 {
			post()
		}
		for j, r := range requests {
			m, err := r.Wait(ctx)
			require.NoError(t, err)
			require.Equal(t, (half*50+j)%5, m.Tag)
			requireFrames(t, m, []int{(half*50 + j) % 7}, half*50+j)
		}
	}
	_, err := coro.RecvMessage(soonAfter(t), c, mpicomm.AnySource, mpicomm.AnyTag)
	require.ErrorIs(t, err, context.DeadlineExceeded, "nothing is left")
}

func soonAfter(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(mpitest.Context(t), 20*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}
