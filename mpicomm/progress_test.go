package mpicomm_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/stretchr/testify/require"
)

// TestProgressWhileOwnerComputes shows that large transfers go on while the
// goroutine that started them calls nothing of the library. Rank 0 computes
// until rank 1 has written a file, which it does when it has everything.
func TestProgressWhileOwnerComputes(t *testing.T) {
	comm := mpitest.Pair(t)
	const n = 32 << 20
	if comm.Rank() == 0 {
		file := filepath.Join(t.TempDir(), "received")
		send(t, comm, []byte(file), 1, 1)
		sending := isend(t, comm, pattern(n, 1), 1, 2)
		into := make([]byte, n)
		receiving := irecv(t, comm, into, 1, 3)
		computeUntil(t, file)
		wait(t, sending)
		wait(t, receiving)
		requirePattern(t, into, 3)
		return
	}
	file := make([]byte, 1000)
	file = file[:recv(t, comm, file, 0, 1).Count]
	buf := make([]byte, n)
	recv(t, comm, buf, 0, 2)
	requirePattern(t, buf, 1)
	send(t, comm, pattern(n, 3), 0, 3)
	require.NoError(t, os.WriteFile(string(file), nil, 0o666))
}

// computeUntil keeps a core busy until the file exists.
func computeUntil(t *testing.T, file string) {
	end := time.Now().Add(30 * time.Second)
	sum := 0
	for time.Now().Before(end) {
		for i := range 1_000_000 {
			sum += i * sum
		}
		if _, err := os.Stat(file); err == nil {
			return
		}
	}
	t.Fatal("the transfer has stalled", sum)
}

// TestBothSendFirst shows that two ranks may send large messages to each other
// before either receives.
func TestBothSendFirst(t *testing.T) {
	comm := mpitest.Pair(t)
	const n = 8 << 20
	peer := 1 - comm.Rank()
	sent := make(chan error, 1)
	go func() {
		_, err := mpicomm.Do(mpitest.Context(t), comm.SendOp(mem.Of(pattern(n, comm.Rank())), peer, 1))
		sent <- err
	}()
	select {
	case err := <-sent:
		require.NoError(t, err)
		sent <- nil
	case <-time.After(50 * time.Millisecond): // it waits for its receive, as it may
	}
	buf := make([]byte, n)
	recv(t, comm, buf, peer, 1)
	requirePattern(t, buf, peer)
	require.NoError(t, <-sent)
}

// TestBusyGoroutine exchanges messages while another goroutine computes, on
// whatever cores the launcher gave.
func TestBusyGoroutine(t *testing.T) {
	comm := mpitest.Pair(t)
	stop := make(chan struct{})
	done := make(chan int)
	go func() {
		sum := 0
		for {
			select {
			case <-stop:
				done <- sum
				return
			default:
			}
			for i := range 1000 {
				sum += i * sum
			}
		}
	}()
	peer, buf := 1-comm.Rank(), make([]byte, 100)
	for i := range 2000 {
		if comm.Rank() == 0 {
			send(t, comm, pattern(100, i), peer, 1)
			recv(t, comm, buf, peer, 1)
		} else {
			recv(t, comm, buf, peer, 1)
			send(t, comm, buf, peer, 1)
		}
		requirePattern(t, buf, i)
	}
	close(stop)
	<-done
}

// TestProcs shows that a launcher that binds a rank to one core does not leave
// GOMAXPROCS at 1. The rest of it is in TestProcsRaised.
func TestProcs(t *testing.T) {
	mpitest.NeedRanks(t, 1)
	if os.Getenv("GOMAXPROCS") != "" {
		t.Skip("GOMAXPROCS is set")
	}
	require.GreaterOrEqual(t, runtime.GOMAXPROCS(0), 2)
}

// TestUnreadMessage shows that messages that nobody ever receives disturb
// neither the others on their communicator nor Finalize.
func TestUnreadMessage(t *testing.T) {
	mpitest.NeedRanks(t, 2) // a message to oneself may wait for its receive
	comm := mpitest.Comm(t)
	next, previous := ring(comm)
	for tag := range 10 {
		send(t, comm, pattern(100, tag), next, tag)
	}
	buf := make([]byte, 100)
	recv(t, comm, buf, previous, 5)
	requirePattern(t, buf, 5)
}

// TestEngineBalance shows that whatever was started has completed when nobody
// waits for anything.
func TestEngineBalance(t *testing.T) {
	comm := mpitest.Comm(t)
	next, previous := ring(comm)
	startedBefore, completedBefore := mpicomm.Counters()
	const rounds = 100
	for i := range rounds {
		n := i * 40
		receiving := irecv(t, comm, make([]byte, n), previous, i)
		send(t, comm, make([]byte, i%257), next, 1000+i)
		sending := isend(t, comm, make([]byte, n), next, i)
		recv(t, comm, make([]byte, 300), previous, 1000+i)
		require.NoError(t, mpicomm.Waitall(mpitest.Context(t), sending, receiving))
		cancelled := irecv(t, comm, make([]byte, n), previous, 5000)
		require.NoError(t, cancelled.Cancel())
		_, err := cancelled.Wait(mpitest.Context(t))
		require.ErrorIs(t, err, errCanceled)
		_, _, err = comm.Iprobe(previous, 5000)
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool {
		started, completed := mpicomm.Counters()
		return started-startedBefore == completed-completedBefore
	}, 30*time.Second, time.Millisecond)
	started, completed := mpicomm.Counters()
	require.GreaterOrEqual(t, started-startedBefore, uint64(rounds*6))
	require.Equal(t, started, completed, "what other tests have started is complete as well")
	require.Zero(t, mpicomm.Outstanding())
}
