package transport_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/mpi4go/mpi4go/transport"
	"github.com/stretchr/testify/require"
)

// The tests of this file show what docs/failures.md says of connections.

const envFate = "MPI4GO_TEST_FATE" // what happens to rank 1

// programLost has rank 1 of 2 stop or end while rank 0 waits for it on a connection in
// every way. Rank 0 says what it sees.
func programLost() error {
	if err := mpicomm.Init(mpicomm.Config{DrainTimeout: 2 * time.Second}); err != nil {
		return err
	}
	ctx := context.Background()
	config := transport.Config{KeepAlive: 100 * time.Millisecond, PeerTimeout: time.Second}
	if mpicomm.World().Rank() == 1 {
		l, err := transport.Listen(ctx, "mpi://*/victim", config)
		if err != nil {
			return err
		}
		conn, err := l.Accept(ctx)
		if err != nil {
			return err
		}
		if err := conn.SendMessage(ctx, []mem.Buffer{mem.Of([]int64{int64(os.Getpid())})}); err != nil {
			return err
		}
		if _, err := conn.RecvMessage(ctx); err != nil {
			return err
		}
		switch os.Getenv(envFate) {
		case "`os.Exit(3)`":
			os.Exit(3)
		case "killed (SIGKILL)":
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		for err == nil { // it is stopped here, and wakes up
			_, err = conn.RecvMessage(ctx)
		}
		fmt.Printf("rank 1: aborted: %v\n", errors.Is(err, transport.ErrAbortedByPeer))
		return mpicomm.Finalize()
	}
	conn, err := transport.Dial(ctx, "mpi://1/victim", config)
	if err != nil {
		return err
	}
	frames, err := conn.RecvMessage(ctx)
	if err != nil {
		return err
	}
	pid := make([]int64, 1)
	copy(mem.Of(pid).Bytes(), frames[0].Bytes())
	time.Sleep(1500 * time.Millisecond) // the pings are answered
	if err := conn.SendMessage(ctx, frames); err != nil {
		return err
	}
	if os.Getenv(envFate) == stopped {
		time.Sleep(50 * time.Millisecond)
		_ = syscall.Kill(int(pid[0]), syscall.SIGSTOP)
	}
	began := time.Now()
	results := make(chan string, 2)
	report := func(call string, err error) {
		var lost *transport.PeerLostError
		var flight *mpicomm.InFlightError
		results <- fmt.Sprintf("%s: lost: %v, in flight: %v", call,
			errors.As(err, &lost) && lost.Rank == 1 && time.Since(lost.Heard) >= time.Second, errors.As(err, &flight))
	}
	go func() {
		_, err := conn.RecvMessage(ctx)
		report("receive", err)
	}()
	go func() {
		time.Sleep(200 * time.Millisecond) // the victim is no more
		report("send", conn.SendMessage(ctx, []mem.Buffer{mem.Of(make([]byte, 8<<20))}))
	}()
	for range 2 {
		fmt.Println("rank 0:", <-results)
	}
	fmt.Printf("rank 0: in time: %v\n", time.Since(began) < 10*time.Second)
	_, err = conn.RecvMessage(ctx)
	fmt.Printf("rank 0: later: %v\n", errors.As(err, new(*transport.PeerLostError)))
	if os.Getenv(envFate) == stopped {
		_ = syscall.Kill(int(pid[0]), syscall.SIGCONT)
		return mpicomm.Finalize()
	}
	_ = mpicomm.Finalize()
	os.Exit(0)
	return nil
}

const stopped = "stopped (SIGSTOP)"

// TestPeerLost goes by the table of docs/failures.md.
func TestPeerLost(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(mpitest.Root(t), "docs", "failures.md"))
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "| launcher and option | what happens to the peer |")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n\n")
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		for _, row := range strings.Split(table, "\n")[2:] {
			cells := strings.Split(strings.Trim(row, "| "), " | ")
			launcher, option, _ := strings.Cut(cells[0], " ")
			if launcher != mpi {
				continue
			}
			t.Run(cells[0]+" "+cells[1], func(t *testing.T) {
				r := mpitest.Job{
					MPI: mpi, Ranks: 2, Program: "lost", Options: strings.Fields(strings.Trim(option, "`")), Env: []string{envFate + "=" + cells[1]},
				}.Run(t)
				require.False(t, r.TimedOut)
				require.Zero(t, r.Left)
				if cells[2] == "may be killed" && !strings.Contains(r.Output, "rank 0: later") {
					return
				}
				require.Equal(t, "PeerLostError", strings.Trim(cells[2], "`*"))
				require.Contains(t, r.Output, "rank 0: receive: lost: true, in flight: false")
				require.Contains(t, r.Output, "rank 0: send: lost: true, in flight: true")
				require.Contains(t, r.Output, "rank 0: in time: true")
				require.Contains(t, r.Output, "rank 0: later: true")
				if cells[1] == stopped {
					require.Contains(t, r.Output, "rank 1: aborted: true")
				}
			})
		}
	})
}

// programAlone dials a rank that uses no connections.
func programAlone() error {
	if err := mpicomm.Init(mpicomm.Config{}); err != nil {
		return err
	}
	if mpicomm.World().Rank() == 0 {
		_, err := transport.Dial(context.Background(), "mpi://1", transport.Config{ConnectTimeout: 200 * time.Millisecond})
		fmt.Println("dial:", errors.Is(err, transport.ErrUnreachable), err)
	}
	return mpicomm.Finalize()
}

// TestUnreachable dials a rank that does not answer; the job ends as any other.
func TestUnreachable(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		r := mpitest.Job{MPI: mpi, Ranks: 2, Program: "alone"}.Run(t)
		require.Equal(t, 0, r.Code)
		require.Contains(t, r.Output, "dial: true dial mpi mpi://1: the rank does not answer (tried for")
	})
}

// programLeft leaves listeners, connections and messages open.
func programLeft() error {
	if err := mpicomm.Init(mpicomm.Config{}); err != nil {
		return err
	}
	ctx := context.Background()
	if mpicomm.World().Rank() == 0 {
		conn, err := transport.Dial(ctx, "mpi://1/left", transport.Config{})
		if err != nil {
			return err
		}
		for range 10 {
			if err := conn.SendMessage(ctx, []mem.Buffer{mem.Of(make([]byte, 100))}); err != nil {
				return err
			}
		}
		go func() { _ = conn.SendMessage(ctx, []mem.Buffer{mem.Of(make([]byte, 8<<20))}) }()
		time.Sleep(50 * time.Millisecond)
		return mpicomm.Finalize()
	}
	l, err := transport.Listen(ctx, "mpi://*/left", transport.Config{})
	if err != nil {
		return err
	}
	conn, err := l.Accept(ctx)
	if err != nil {
		return err
	}
	if _, err := conn.RecvMessage(ctx); err != nil {
		return err
	}
	began := time.Now()
	err = mpicomm.Finalize()
	fmt.Println("finalized at once:", err == nil && time.Since(began) < 4*time.Second)
	return err
}

// TestFinalize ends a job with connections open.
func TestFinalize(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		r := mpitest.Job{MPI: mpi, Ranks: 2, Program: "left"}.Run(t)
		require.Equal(t, 0, r.Code)
		require.Contains(t, r.Output, "finalized at once: true")
	})
}
