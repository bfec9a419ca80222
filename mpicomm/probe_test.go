package mpicomm_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/stretchr/testify/require"
)

// TestProbe looks at messages of every size, with and without wildcards, and
// finds nothing where nothing is.
func TestProbe(t *testing.T) {
	comm := mpitest.Comm(t)
	next, previous := ring(comm)
	for tag, n := range sizes {
		_, found, err := comm.Iprobe(mpicomm.AnySource, mpicomm.AnyTag)
		require.NoError(t, err)
		require.False(t, found)
		m, found, err := comm.Improbe(previous, tag)
		require.NoError(t, err)
		require.False(t, found)
		require.Nil(t, m)
		mpitest.Sync(t)
		sending := isend(t, comm, pattern(n, tag), next, tag)
		want := mpicomm.Status{Source: previous, Tag: tag, Count: n}
		for _, source := range []int{previous, mpicomm.AnySource} {
			for _, which := range []int{tag, mpicomm.AnyTag} {
				require.Equal(t, want, awaitMessage(t, comm, source, which))
				status, found, err := comm.Iprobe(source, which)
				require.NoError(t, err)
				require.True(t, found)
				require.Equal(t, want, status)
			}
		}
		_, found, err = comm.Iprobe(previous, tag+1)
		require.NoError(t, err)
		require.False(t, found, "another tag")
		buf := make([]byte, n)
		require.Equal(t, want, recv(t, comm, buf, previous, tag))
		requirePattern(t, buf, tag)
		wait(t, sending)
	}
}

// TestMprobe shows that a matched message is nobody else's, and is received
// once.
func TestMprobe(t *testing.T) {
	comm := mpitest.Comm(t)
	next, previous := ring(comm)
	for tag, n := range sizes {
		sending := isend(t, comm, pattern(n, tag), next, tag)
		m, err := comm.Mprobe(mpitest.Context(t), mpicomm.AnySource, tag)
		require.NoError(t, err)
		want := mpicomm.Status{Source: previous, Tag: tag, Count: n}
		require.Equal(t, want, m.Status())
		_, found, err := comm.Iprobe(previous, tag)
		require.NoError(t, err)
		require.False(t, found)
		_, found, err = comm.Improbe(mpicomm.AnySource, tag)
		require.NoError(t, err)
		require.False(t, found)
		g := newGuarded(n + 100)
		r, err := m.Imrecv(mem.Of(g.buf))
		require.NoError(t, err)
		require.Equal(t, want, wait(t, r))
		requirePattern(t, g.buf[:n], tag)
		g.requireIntact(t, n)
		_, err = m.Imrecv(mem.Of(g.buf))
		require.ErrorIs(t, err, mpicomm.ErrRequest)
		require.ErrorContains(t, err, "received already")
		wait(t, sending)
	}
}

// TestImrecvLater receives matched messages in another order than they were
// matched in.
func TestImrecvLater(t *testing.T) {
	comm := mpitest.Comm(t)
	next, previous := ring(comm)
	const count = 20
	var sends []*mpicomm.Request
	for i := range count {
		sends = append(sends, isend(t, comm, pattern(i*1000, i), next, i))
	}
	var messages []*mpicomm.Message
	for i := range count {
		m, err := comm.Mprobe(mpitest.Context(t), previous, i)
		require.NoError(t, err)
		messages = append(messages, m)
	}
	for i := count - 1; i >= 0; i-- {
		buf := make([]byte, i*1000)
		r, err := messages[i].Imrecv(mem.Of(buf))
		require.NoError(t, err)
		require.Equal(t, mpicomm.Status{Source: previous, Tag: i, Count: i * 1000}, wait(t, r))
		requirePattern(t, buf, i)
	}
	require.NoError(t, mpicomm.Waitall(mpitest.Context(t), sends...))
}

// TestProbersCompete has many goroutines match messages: each message is
// matched once.
func TestProbersCompete(t *testing.T) {
	comm := mpitest.Pair(t)
	const count, probers = 400, 8
	if comm.Rank() == 0 {
		for i := range count {
			send(t, comm, numbered(8+i, i), 1, i%3)
		}
		return
	}
	var seen [count]atomic.Int32
	var all sync.WaitGroup
	errs := make(chan error, probers)
	for p := range probers {
		all.Go(func() {
			for range count / probers {
				b, err := receiveUnknown(mpitest.Context(t), comm, mpicomm.AnySource, mpicomm.AnyTag, p%2 == 0)
				if err != nil {
					errs <- err
					return
				}
				seen[number(b)].Add(1)
			}
		})
	}
	all.Wait()
	close(errs)
	require.NoError(t, <-errs)
	for i := range seen {
		require.EqualValues(t, 1, seen[i].Load(), "message %d", i)
	}
}

// TestProbeBehindReceiver shows that a message that belongs to a waiting receive
// is not shown to probes.
func TestProbeBehindReceiver(t *testing.T) {
	comm := mpitest.Pair(t)
	const ready = 9
	for i, n := range []int{8, 5000} {
		if comm.Rank() == 0 {
			await(t, comm, 1, ready)
			wait(t, isend(t, comm, numbered(n, 0), 1, i))
			wait(t, isend(t, comm, numbered(n+1, 1), 1, i))
			continue
		}
		buf := make([]byte, n)
		receiving := irecv(t, comm, buf, 0, i)
		signal(t, comm, 0, ready)
		require.Equal(t, n+1, awaitMessage(t, comm, 0, i).Count, "the second message")
		require.Equal(t, n, wait(t, receiving).Count)
		recv(t, comm, make([]byte, n+1), 0, i)
	}
}
