package mpicomm_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/stretchr/testify/require"
)

// TestWaitForNothing shows that lists without requests complete at once, also
// when the context has ended.
func TestWaitForNothing(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, ctx := range []context.Context{context.Background(), ended} {
		require.NoError(t, mpicomm.Waitall(ctx))
		require.NoError(t, mpicomm.Waitall(ctx, []*mpicomm.Request(nil)...))
		i, status, err := mpicomm.Waitany(ctx)
		require.NoError(t, err)
		require.Equal(t, -1, i)
		require.Zero(t, status)
		done, err := mpicomm.Waitsome(ctx)
		require.NoError(t, err)
		require.Empty(t, done)
	}
}

// TestWaitTwice shows that a request can be asked again and again.
func TestWaitTwice(t *testing.T) {
	comm := mpitest.Comm(t)
	next, previous := ring(comm)
	for i, n := range []int{10, 1000, 100000} {
		receiving := irecv(t, comm, make([]byte, n), previous, i)
		sending := isend(t, comm, make([]byte, n), next, i)
		want := mpicomm.Status{Source: previous, Tag: i, Count: n}
		for range 3 {
			require.Equal(t, want, wait(t, receiving))
			status, done, err := receiving.Test()
			require.NoError(t, err)
			require.True(t, done)
			require.Equal(t, want, status)
			<-receiving.Done()
			wait(t, sending)
			require.NoError(t, mpicomm.Waitall(mpitest.Context(t), receiving, sending, receiving))
		}
	}
}

// TestTest polls until a message is there, also while older requests are not
// done.
func TestTest(t *testing.T) {
	comm := mpitest.Comm(t)
	next, previous := ring(comm)
	const nobody = 1000
	var older []*mpicomm.Request
	defer func() {
		for _, r := range older {
			require.NoError(t, r.Cancel())
			_, err := r.Wait(mpitest.Context(t))
			require.ErrorIs(t, err, errCanceled)
		}
	}()
	for _, count := range []int{0, 1, 2, 100} {
		for len(older) < count {
			older = append(older, irecv(t, comm, make([]byte, 8), previous, nobody))
		}
		testUntilDone(t, comm, next, previous)
	}
}

func testUntilDone(t *testing.T, comm *mpicomm.Comm, next, previous int) {
	t.Helper()
	for i, n := range []int{10, 1000, 100000} {
		receiving := irecv(t, comm, make([]byte, n), previous, i)
		_, done, err := receiving.Test()
		require.NoError(t, err)
		require.False(t, done, "nobody has sent")
		mpitest.Sync(t)
		sending := isend(t, comm, make([]byte, n), next, i)
		ctx := mpitest.Context(t)
		for !done {
			require.NoError(t, ctx.Err())
			_, done, err = receiving.Test()
			require.NoError(t, err)
		}
		wait(t, sending)
	}
}

// TestDone waits with select.
func TestDone(t *testing.T) {
	comm := mpitest.Comm(t)
	next, previous := ring(comm)
	first, second := irecv(t, comm, make([]byte, 10), previous, 1), irecv(t, comm, make([]byte, 1000), previous, 2)
	select {
	case <-first.Done():
		t.Fatal("nobody has sent")
	case <-second.Done():
		t.Fatal("nobody has sent")
	default:
	}
	mpitest.Sync(t)
	send(t, comm, make([]byte, 10), next, 1)
	select {
	case <-first.Done():
	case <-second.Done():
		t.Fatal("nobody has sent the second")
	case <-mpitest.Context(t).Done():
		t.Fatal("the first does not come")
	}
	mpitest.Sync(t)
	sending := isend(t, comm, make([]byte, 1000), next, 2)
	<-second.Done()
	wait(t, second)
	wait(t, sending)
	require.Equal(t, first.Done(), first.Done(), "the channel is always the same")
}

// soon is a context that ends after a moment in which nothing happens.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(mpitest.Context(t), 50*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// TestWaitContext shows that a wait whose context ends leaves the request as it
// is.
func TestWaitContext(t *testing.T) {
	comm := mpitest.Comm(t)
	next, previous := ring(comm)
	for i, n := range []int{10, 1000, 100000} {
		buf := make([]byte, n)
		receiving := irecv(t, comm, buf, previous, i)
		_, err := receiving.Wait(soon(t))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, mpicomm.Waitall(soon(t), receiving), context.DeadlineExceeded)
		index, _, err := mpicomm.Waitany(soon(t), receiving)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, -1, index)
		done, err := mpicomm.Waitsome(soon(t), receiving)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Empty(t, done)
		mpitest.Sync(t)
		sending := isend(t, comm, pattern(n, i), next, i)
		require.Equal(t, n, wait(t, receiving).Count)
		requirePattern(t, buf, i)
		wait(t, sending)
	}
}

// TestWaitallErrors shows which request has failed, and that the others have
// not.
func TestWaitallErrors(t *testing.T) {
	comm := mpitest.Comm(t)
	next, previous := ring(comm)
	right := irecv(t, comm, make([]byte, 1000), previous, 1)
	short := irecv(t, comm, make([]byte, 999), previous, 2)
	cancelled := irecv(t, comm, make([]byte, 999), previous, 3)
	require.NoError(t, cancelled.Cancel())
	sends := []*mpicomm.Request{isend(t, comm, make([]byte, 1000), next, 1), isend(t, comm, make([]byte, 1000), next, 2)}
	err := mpicomm.Waitall(mpitest.Context(t), right, short, cancelled, sends[0], sends[1])
	require.ErrorIs(t, err, mpicomm.ErrTruncate)
	require.ErrorContains(t, err, "request 1 of 5: irecv: truncated")
	require.Equal(t, 1000, wait(t, right).Count)
	_, err = cancelled.Wait(mpitest.Context(t))
	require.ErrorIs(t, err, errCanceled)
	_, err = short.Wait(mpitest.Context(t))
	require.ErrorIs(t, err, mpicomm.ErrTruncate)
}

// TestWaitany takes requests one by one in the order in which their messages
// are sent.
func TestWaitany(t *testing.T) {
	comm := mpitest.Pair(t)
	const n, ready = 20, 100
	order := make([]int, n)
	for i := range order {
		order[i] = (i*7 + 3) % n
	}
	if comm.Rank() == 0 {
		for _, tag := range order {
			await(t, comm, 1, ready)
			send(t, comm, pattern(tag*100, tag), 1, tag)
		}
		return
	}
	requests := make([]*mpicomm.Request, n)
	bufs := make([][]byte, n)
	for tag := range requests {
		bufs[tag] = make([]byte, tag*100)
		requests[tag] = irecv(t, comm, bufs[tag], 0, tag)
	}
	pending := slices.Clone(requests)
	for _, tag := range order {
		signal(t, comm, 0, ready)
		i, status, err := mpicomm.Waitany(mpitest.Context(t), pending...)
		require.NoError(t, err)
		require.Same(t, requests[tag], pending[i])
		require.Equal(t, mpicomm.Status{Source: 0, Tag: tag, Count: tag * 100}, status)
		requirePattern(t, bufs[tag], tag)
		pending = slices.Delete(pending, i, i+1)
	}
	i, status, err := mpicomm.Waitany(mpitest.Context(t), requests...)
	require.NoError(t, err)
	require.Equal(t, 0, i, "the first of those that are done")
	require.Equal(t, 0, status.Tag)
}

// TestWaitsome takes requests as they are done.
func TestWaitsome(t *testing.T) {
	comm := mpitest.Pair(t)
	const n = 50
	if comm.Rank() == 0 {
		for i := range n {
			send(t, comm, pattern(i*20, i), 1, (i*7)%n)
		}
		return
	}
	requests, seen := make([]*mpicomm.Request, n), make([]bool, n)
	bufs := make([][]byte, n)
	for i := range n {
		bufs[i] = make([]byte, i*20)
		requests[i] = irecv(t, comm, bufs[i], 0, (i*7)%n)
	}
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i
	}
	for len(numbers) > 0 {
		var pending []*mpicomm.Request
		for _, i := range numbers {
			pending = append(pending, requests[i])
		}
		done, err := mpicomm.Waitsome(mpitest.Context(t), pending...)
		require.NoError(t, err)
		require.NotEmpty(t, done)
		require.True(t, slices.IsSorted(done))
		for _, d := range slices.Backward(done) {
			i := numbers[d]
			require.False(t, seen[i])
			seen[i] = true
			wait(t, requests[i])
			requirePattern(t, bufs[i], i)
			numbers = slices.Delete(numbers, d, d+1)
		}
	}
}

// TestSharedRequests shows that many goroutines may wait for the same requests
// at once, in every way, and that some of them may give up.
func TestSharedRequests(t *testing.T) {
	comm := mpitest.Pair(t)
	const rounds, n, waiters = 30, 8, 12
	for round := range rounds {
		if comm.Rank() == 0 {
			await(t, comm, 1, 1000)
			for i := range n {
				send(t, comm, pattern(i*100, i), 1, i)
			}
			continue
		}
		requests := make([]*mpicomm.Request, n)
		for i := range n {
			requests[i] = irecv(t, comm, make([]byte, i*100), 0, i)
		}
		check := func(i int, status mpicomm.Status, err error) error {
			if want := (mpicomm.Status{Source: 0, Tag: i, Count: i * 100}); err != nil || status != want {
				return fmt.Errorf("request %d: %v %w, want %v", i, status, err, want)
			}
			return nil
		}
		var ready sync.WaitGroup
		ready.Add(waiters)
		err := coro.Run(mpitest.Context(t), func(g *coro.Group) error {
			for w := range waiters {
				g.Go(func(ctx context.Context) error {
					ready.Done()
					rotated := append(slices.Clone(requests[w%n:]), requests[:w%n]...)
					switch w % 6 {
					case 0:
						return mpicomm.Waitall(ctx, rotated...)
					case 1:
						i, status, err := mpicomm.Waitany(ctx, rotated...)
						return check((i+w%n)%n, status, err)
					case 2:
						done, err := mpicomm.Waitsome(ctx, rotated...)
						if err == nil && len(done) == 0 {
							err = fmt.Errorf("Waitsome returned nothing")
						}
						return err
					case 3: // gives up
						gone, cancel := context.WithCancel(ctx)
						cancel()
						_ = mpicomm.Waitall(gone, rotated...)
						_, _, _ = mpicomm.Waitany(gone, rotated...)
						_, _ = rotated[0].Wait(gone)
						return nil
					case 4:
						<-rotated[0].Done()
					}
					status, err := rotated[0].Wait(ctx)
					return check(w%n, status, err)
				})
			}
			ready.Wait()
			signal(t, comm, 0, 1000)
			return nil
		})
		require.NoError(t, err, "round %d", round)
		require.NoError(t, mpicomm.Waitall(mpitest.Context(t), requests...))
	}
}
