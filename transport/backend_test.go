package transport_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/mpi4go/mpi4go/transport"
	"github.com/stretchr/testify/require"
)

// The tests of this file show what Dask's own tests demand of a communication
// backend, and how many connections behave.

// serve answers every message of every connection with itself, until the listener is
// closed.
func serve(t testing.TB, l *transport.Listener) {
	ctx := mpitest.Context(t)
	go func() {
		for {
			conn, err := l.Accept(ctx)
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for {
					frames, err := conn.RecvMessage(ctx)
					if err != nil || conn.SendMessage(ctx, frames) != nil {
						return
					}
				}
			}()
		}
	}()
}

// number is the value of an environment variable.
func number(variable string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		return n
	}
	return otherwise
}

func TestClients(t *testing.T) {
	c := mpitest.Comm(t)
	ctx := mpitest.Context(t)
	serve(t, listen(t, "echo", transport.Config{}))
	next := transport.Addr{Rank: (c.Rank() + 1) % c.Size(), Service: "echo"}.String()
	for _, clients := range []int{1, 20, 100} {
		require.NoError(t, coro.Run(ctx, func(g *coro.Group) error {
			for i := range clients {
				g.Go(func(ctx context.Context) error {
					conn, err := transport.Dial(ctx, next, transport.Config{})
					if err != nil {
						return err
					}
					if i%3 > 0 { // the others are closed by the end of their peers
						defer conn.Close()
					}
					for round := range 10 {
						frames := []mem.Buffer{mem.Of([]byte{byte(i), byte(round)}), mem.Of(bytes.Repeat([]byte{byte(i)}, 2000*(i%7)))}
						if err := conn.SendMessage(ctx, frames); err != nil {
							return err
						}
						got, err := conn.RecvMessage(ctx)
						if err != nil {
							return err
						}
						if !slices.Equal(textOf(frames), textOf(got)) {
							return fmt.Errorf("client %d, round %d: another message came back", i, round)
						}
					}
					if i%3 == 0 {
						conn.Abort()
					}
					return nil
				})
			}
			return nil
		}))
	}
	mpitest.Sync(t)
	require.Eventually(t, func() bool { return transport.Open() == 0 }, 10*time.Second, time.Millisecond, "all connections are over")
}

func TestManyListeners(t *testing.T) {
	c := mpitest.Comm(t)
	ctx := mpitest.Context(t)
	const n = 100
	for i := range n {
		l := listen(t, fmt.Sprintf("service-%d", i), transport.Config{})
		require.Equal(t, transport.Addr{Rank: transport.ThisRank, Service: fmt.Sprintf("service-%d", i)}, l.Addr())
		require.Equal(t, fmt.Sprintf("mpi://%d/service-%d", mpicomm.World().Rank(), i), l.ContactAddr().String())
		serve(t, l)
	}
	for i := range n {
		conn := dial(t, (c.Rank()+1)%c.Size(), fmt.Sprintf("service-%d", i))
		require.NoError(t, conn.SendMessage(ctx, bytesOf(fmt.Sprint(i))))
		got, err := conn.RecvMessage(ctx)
		require.NoError(t, err)
		require.Equal(t, []string{fmt.Sprint(i)}, textOf(got))
	}
	mpitest.Sync(t)
}

// TestListenerComesLater dials before there is a listener.
func TestListenerComesLater(t *testing.T) {
	c := mpitest.Pair(t)
	if c.Rank() == 1 {
		dial(t, 0, "later")
		return
	}
	time.Sleep(100 * time.Millisecond)
	accept(t, listen(t, "later", transport.Config{}))
}

// TestCrossingDials has both ranks dial each other at the same time.
func TestCrossingDials(t *testing.T) {
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	l := listen(t, "cross", transport.Config{})
	for range 20 {
		out, in := dial(t, 1-c.Rank(), "cross"), accept(t, l)
		require.NoError(t, out.SendMessage(ctx, bytesOf("hello")))
		got, err := in.RecvMessage(ctx)
		require.NoError(t, err)
		require.Equal(t, []string{"hello"}, textOf(got))
	}
	mpitest.Sync(t)
}

func TestVersions(t *testing.T) {
	mpitest.Comm(t)
	ctx := mpitest.Context(t)
	l := listen(t, "version", transport.Config{})
	restore := transport.SpeakVersions(1, 200)
	here := dial(t, transport.ThisRank, "version")
	there := accept(t, l)
	require.NoError(t, here.SendMessage(ctx, bytesOf("x")))
	_, err := there.RecvMessage(ctx)
	require.NoError(t, err)
	restore()
	// This process dials, and then answers as one of another version.
	done := make(chan error, 1)
	require.NoError(t, mpicomm.Exclusive(func() {
		restore = transport.SpeakVersions(3, 4)
		go func() {
			_, err := transport.Dial(ctx, "mpi://*/version", transport.Config{})
			done <- err
		}()
		time.Sleep(50 * time.Millisecond)
		restore()
	}))
	err = <-done
	var version *transport.VersionError
	require.ErrorAs(t, err, &version)
	require.Equal(t, transport.VersionError{Least: 1, Most: 1, PeerLeast: 1, PeerMost: 1}, *version)
	require.False(t, errors.Is(err, transport.ErrRefused))
}

// TestHandshakeFails shows that a connection whose handshake does not come to its end
// is never accepted.
func TestHandshakeFails(t *testing.T) {
	c := mpitest.Comm(t)
	l := listen(t, "half", transport.Config{})
	mpitest.Sync(t)
	transport.HalfDial((mpicomm.World().Rank()+1)%c.Size(), "half")
	_, err := l.Accept(soon(t, 100*time.Millisecond))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	serve(t, l)
	dial(t, transport.ThisRank, "half")
	mpitest.Sync(t)
}

// TestSlowHandshake has the other rank do something else for a while.
func TestSlowHandshake(t *testing.T) {
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	l := listen(t, "slow", transport.Config{})
	mpitest.Sync(t)
	if c.Rank() == 0 {
		require.NoError(t, mpicomm.Exclusive(func() { time.Sleep(300 * time.Millisecond) }))
		accept(t, l)
		mpitest.Sync(t)
		return
	}
	_, err := transport.Dial(ctx, "mpi://0/slow", transport.Config{ConnectTimeout: 20 * time.Millisecond})
	require.ErrorIs(t, err, transport.ErrUnreachable)
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout())
	dial(t, 0, "slow")
	mpitest.Sync(t)
}

func TestStopDuringAccept(t *testing.T) {
	mpitest.Comm(t)
	ctx := mpitest.Context(t)
	l := listen(t, "stop", transport.Config{})
	failed := make(chan error, 1)
	go func() {
		_, err := l.Accept(ctx)
		failed <- err
	}()
	time.Sleep(10 * time.Millisecond)
	require.NoError(t, l.Close())
	require.NoError(t, l.Close())
	require.ErrorIs(t, <-failed, net.ErrClosed)

	l = listen(t, "stop", transport.Config{Backlog: 2})
	first := dial(t, transport.ThisRank, "stop")
	there := accept(t, l)
	queued := []*transport.Conn{dial(t, transport.ThisRank, "stop"), dial(t, transport.ThisRank, "stop")}
	_, err := transport.Dial(ctx, "mpi://*/stop", transport.Config{ConnectTimeout: 20 * time.Millisecond})
	require.ErrorIs(t, err, transport.ErrRefused)
	require.ErrorContains(t, err, "too many connections wait")
	require.NoError(t, l.Close())
	for _, conn := range queued {
		_, err := conn.RecvMessage(ctx)
		require.ErrorIs(t, err, transport.ErrClosedByPeer)
	}
	require.NoError(t, first.SendMessage(ctx, bytesOf("x")), "what was accepted lives on")
	_, err = there.RecvMessage(ctx)
	require.NoError(t, err)
}

// TestPendingCalls ends connections with calls waiting on both sides.
func TestPendingCalls(t *testing.T) {
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	l := listen(t, "pending", transport.Config{})
	for _, aborts := range []bool{false, true} {
		var conn *transport.Conn
		if c.Rank() == 0 {
			conn = accept(t, l)
		} else {
			conn = dial(t, 0, "pending")
		}
		results := make(chan error, 4)
		for range 3 {
			go func() {
				_, err := conn.RecvMessage(ctx)
				results <- err
			}()
		}
		if c.Rank() == 1 { // until the peer, which does not receive what is meant for others, makes no room
			go func() {
				for range 1000 {
					if err := conn.SendMessage(ctx, bytesOf("x")); err != nil {
						results <- err
						return
					}
				}
			}()
		}
		time.Sleep(50 * time.Millisecond)
		mpitest.Sync(t)
		want := transport.ErrClosedByPeer
		if c.Rank() == 0 {
			want = transport.ErrClosedHere
			if aborts {
				conn.Abort()
			} else {
				require.NoError(t, conn.Close())
			}
		} else if aborts {
			want = transport.ErrAbortedByPeer
		}
		n := 3
		if c.Rank() == 1 {
			n = 4
		}
		for range n {
			err := <-results
			if err == nil {
				continue // a message of the peer's
			}
			require.ErrorIs(t, err, want)
			require.ErrorIs(t, err, net.ErrClosed)
		}
		_, err := conn.RecvMessage(ctx)
		require.ErrorIs(t, err, net.ErrClosed)
		require.ErrorIs(t, conn.SendMessage(ctx, nil), net.ErrClosed)
		mpitest.Sync(t)
	}
}

// TestCloseFlushes closes a connection while messages wait for their turn.
func TestCloseFlushes(t *testing.T) {
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	conn := connect(t, c)
	const n = 300
	if c.Rank() == 1 {
		sent := make(chan error, n)
		var called atomic.Int64
		for range n {
			go func() {
				called.Add(1)
				sent <- conn.SendMessage(ctx, []mem.Buffer{mem.Of(make([]byte, 3000))})
			}()
		}
		for called.Load() < n || conn.Stats().Unacknowledged < 64 {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(50 * time.Millisecond)
		mpitest.Sync(t)
		require.NoError(t, conn.Close())
		for range n {
			require.NoError(t, <-sent)
		}
		return
	}
	mpitest.Sync(t)
	time.Sleep(20 * time.Millisecond)
	for range n {
		_, err := conn.RecvMessage(ctx)
		require.NoError(t, err)
	}
	_, err := conn.RecvMessage(ctx)
	require.ErrorIs(t, err, transport.ErrClosedByPeer)
}

// TestCloseGivesUp closes a connection whose peer makes no room.
func TestCloseGivesUp(t *testing.T) {
	mpitest.Comm(t)
	ctx := mpitest.Context(t)
	l := listen(t, "full", transport.Config{})
	here, err := transport.Dial(ctx, "mpi://*/full", transport.Config{FlushTimeout: 20 * time.Millisecond})
	require.NoError(t, err)
	accept(t, l)
	sent := make(chan error, 100)
	for range 100 {
		go func() { sent <- here.SendMessage(ctx, bytesOf("x")) }()
	}
	require.Eventually(t, func() bool { return here.Stats().Unacknowledged == 64 }, 10*time.Second, time.Millisecond)
	time.Sleep(50 * time.Millisecond) // all have called
	require.Positive(t, here.Stats().CreditStalls)
	require.ErrorContains(t, here.Close(), "messages were dropped")
	dropped := 0
	for range 100 {
		if err := <-sent; err != nil {
			require.ErrorIs(t, err, net.ErrClosed)
			dropped++
		}
	}
	require.Equal(t, 36, dropped)
}

// TestClosedWithLongMessage closes connections under a message that is announced and
// that nobody receives: its sender is not held up.
func TestClosedWithLongMessage(t *testing.T) {
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	conn := connect(t, c)
	if c.Rank() == 1 {
		require.NoError(t, conn.SendMessage(ctx, []mem.Buffer{mem.Of(make([]byte, 8<<20))}))
		var err error
		for err == nil { // until it is heard
			err = conn.SendMessage(ctx, []mem.Buffer{mem.Of(make([]byte, 8<<20))})
		}
		require.ErrorIs(t, err, net.ErrClosed)
		return
	}
	for conn.Stats().Waiting == 0 {
		time.Sleep(time.Millisecond)
	}
	require.NoError(t, conn.Close())
}

// TestNoSharedMemory: no byte of what was received belongs to two buffers.
func TestNoSharedMemory(t *testing.T) {
	mpitest.Comm(t)
	ctx := mpitest.Context(t)
	here, there := toSelf(t)
	random := rand.New(rand.NewPCG(5, 6))
	var all []mem.Buffer
	for range 60 {
		var frames []mem.Buffer
		for range random.IntN(20) {
			frames = append(frames, mem.Of(make([]byte, random.IntN(1<<random.IntN(14)))))
		}
		sent := make(chan error, 1)
		go func() { sent <- here.SendMessage(ctx, frames) }()
		got, err := there.RecvMessage(ctx)
		require.NoError(t, err)
		require.NoError(t, <-sent)
		all = append(append(all, got...), frames...)
	}
	all = slices.DeleteFunc(all, func(b mem.Buffer) bool { return b.Len() == 0 })
	slices.SortFunc(all, func(a, b mem.Buffer) int { return int(int64(a.Addr()) - int64(b.Addr())) })
	for i := range len(all) - 1 {
		require.LessOrEqual(t, all[i].Addr()+uintptr(all[i].Len()), all[i+1].Addr())
	}
	for _, b := range all { // nor can one grow into the next
		require.Equal(t, b.Len(), cap(b.Bytes()))
	}
}

// TestReaderThatNeverReads: it holds up its own connection only, and bounds the memory
// of both sides, also if there are so many of them that tags run short.
func TestReaderThatNeverReads(t *testing.T) {
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	const stuck = 600 // 64 messages of each are more than there are tags
	l := listen(t, "stuck", transport.Config{})
	serve(t, listen(t, "alive", transport.Config{}))
	mpitest.Sync(t)
	if c.Rank() == 0 {
		for range stuck {
			accept(t, l)
		}
		mpitest.Sync(t)
		return
	}
	before := heap()
	total := 0
	for range stuck {
		conn := dial(t, 0, "stuck")
		require.NoError(t, conn.SetWriteDeadline(time.Now().Add(2*time.Millisecond)))
		sent, err := 0, error(nil)
		for ; err == nil; sent++ {
			err = conn.SendMessage(ctx, bytesOf("a message that nobody reads"))
		}
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.LessOrEqual(t, sent, 65)
		total += sent - 1
	}
	require.Greater(t, total, 16384)
	require.Less(t, total, 32768)
	require.Less(t, heap()-before, 16<<20)
	for range 20 { // others have room
		conn := dial(t, 0, "alive")
		for i := range 100 {
			require.NoError(t, conn.SendMessage(ctx, bytesOf(fmt.Sprint(i))))
			got, err := conn.RecvMessage(ctx)
			require.NoError(t, err)
			require.Equal(t, []string{fmt.Sprint(i)}, textOf(got))
		}
	}
	mpitest.Sync(t)
}

// heap is how many bytes of it are in use.
func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestOneWay sends many short messages in one direction.
// MPI4GO_TEST_MESSAGES=1000000 makes it a million.
func TestOneWay(t *testing.T) {
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	conn := connect(t, c)
	n := number("MPI4GO_TEST_MESSAGES", 20_000)
	for i := range n {
		if c.Rank() == 1 {
			require.NoError(t, conn.SendMessage(ctx, bytesOf(strconv.Itoa(i))))
			continue
		}
		got, err := conn.RecvMessage(ctx)
		require.NoError(t, err)
		require.Equal(t, strconv.Itoa(i), string(got[0].Bytes()))
	}
}

// TestManyConnections opens many connections and uses all of them.
// MPI4GO_TEST_CONNECTIONS=10000 makes it ten thousand.
func TestManyConnections(t *testing.T) {
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	n := number("MPI4GO_TEST_CONNECTIONS", 1000)
	l := listen(t, "many", transport.Config{})
	conns := make([]*transport.Conn, n)
	before := heap()
	for i := range conns {
		var err error
		if c.Rank() == 0 {
			conns[i], err = l.Accept(ctx)
		} else {
			conns[i], err = transport.Dial(ctx, "mpi://0/many", transport.Config{})
		}
		require.NoError(t, err)
	}
	each := (heap() - before) / n
	t.Logf("%d bytes for each of %d idle connections", each, n)
	require.Less(t, each, 4096)
	require.NoError(t, coro.Run(ctx, func(g *coro.Group) error {
		for i, conn := range conns {
			g.Go(func(ctx context.Context) error {
				for round := range 3 {
					if c.Rank() == 1 {
						if err := conn.SendMessage(ctx, bytesOf(fmt.Sprint(i, round))); err != nil {
							return err
						}
					}
					got, err := conn.RecvMessage(ctx)
					if err != nil {
						return err
					}
					if text := string(got[0].Bytes()); c.Rank() == 1 && text != fmt.Sprint(i, round) {
						return fmt.Errorf("connection %d, round %d: %q", i, round, text)
					}
					if c.Rank() == 0 {
						if err := conn.SendMessage(ctx, got); err != nil {
							return err
						}
					}
				}
				return nil
			})
		}
		return nil
	}))
	for _, conn := range conns {
		require.NoError(t, conn.Close())
	}
	mpitest.Sync(t)
	require.Eventually(t, func() bool { return transport.Open() == 0 }, 10*time.Second, time.Millisecond)
}

// TestGivenBackAfterTheEnd shows that a receive that fails leaves its message to the
// next one, also when both sides have ended the connection before.
func TestGivenBackAfterTheEnd(t *testing.T) {
	mpitest.Comm(t) // no rank goes on to a test that dials this one
	ctx := mpitest.Context(t)
	here, there := toSelf(t)
	require.NoError(t, here.SendMessage(ctx, bytesOf("first")))
	require.NoError(t, here.SendMessage(ctx, bytesOf("second")))
	require.NoError(t, here.Close())
	require.Eventually(t, func() bool { return transport.Open() == 0 }, 10*time.Second, time.Millisecond)
	require.ErrorIs(t, there.RecvMessageInto(ctx, nil), coro.ErrFrames)
	for _, text := range []string{"first", "second"} {
		frames, err := there.RecvMessage(ctx)
		require.NoError(t, err)
		require.Equal(t, []string{text}, textOf(frames))
	}
	_, err := there.RecvMessage(ctx)
	require.ErrorIs(t, err, transport.ErrClosedByPeer)
}
