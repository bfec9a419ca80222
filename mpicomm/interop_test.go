package mpicomm_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/stretchr/testify/require"
)

// The tags of peer.c.
const (
	peerTag = iota + 1
	peerBack
	peerMany
	peerLast
	peerLarge
)

// programCPeer is the Go end of a job whose rank 1 is peer.c: whatever one sends
// the other receives, one message for one message.
func programCPeer() error {
	return withPeer(func(c *mpicomm.Comm) error {
		for _, n := range sizes {
			if err := plainWithPeer(c, n); err != nil {
				return fmt.Errorf("%d bytes: %w", n, err)
			}
		}
		if err := numbersWithPeer(c); err != nil {
			return err
		}
		g := newGuarded(1000)
		if _, err := coro.Recv(background, c, g.buf, 1, peerBack); !isTruncation(err) {
			return fmt.Errorf("a message of 100000 bytes into 1000: %w", err)
		}
		if i := firstOther(g.all[1000:], canary); i >= 0 {
			return fmt.Errorf("byte %d behind the buffer was written", i)
		}
		next, _, err := coro.RecvAlloc[byte](background, c, mpicomm.AnySource, mpicomm.AnyTag)
		if err != nil || string(next) != string(pattern(5000, 2)) {
			return fmt.Errorf("the message after one that was too long: %w", err)
		}
		for i := range 100 {
			if err := coro.Send(background, c, make([]byte, i*5), 1, peerMany); err != nil {
				return err
			}
		}
		return coro.Send(background, c, []byte(nil), 1, peerLast)
	})
}

func isTruncation(err error) bool {
	e, ok := err.(*mpicomm.Error)
	return ok && e.Class == mpicomm.ErrTruncate
}

// firstOther is the index of the first byte that is not b, or -1.
func firstOther(bytes []byte, b byte) int {
	for i := range bytes {
		if bytes[i] != b {
			return i
		}
	}
	return -1
}

// withPeer runs f between Init and Finalize.
func withPeer(f func(c *mpicomm.Comm) error) error {
	if err := mpicomm.Init(mpicomm.Config{}); err != nil {
		return err
	}
	if err := f(mpicomm.World()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		mpicomm.Abort(8)
	}
	return mpicomm.Finalize()
}

// plainWithPeer sends in four ways and receives in four.
func plainWithPeer(c *mpicomm.Comm, n int) error {
	waitFor := func(r *mpicomm.Request, err error) (mpicomm.Status, error) {
		if err != nil {
			return mpicomm.Status{}, err
		}
		return r.Wait(background)
	}
	for way, send := range []func(message []byte) error{
		func(m []byte) error { return coro.Send(background, c, m, 1, peerTag) },
		func(m []byte) error { return coro.Ssend(background, c, m, 1, peerTag) },
		func(m []byte) error { _, err := waitFor(c.Isend(mem.Of(m), 1, peerTag)); return err },
		func(m []byte) error { _, err := waitFor(mpicomm.Post(c.SsendOp(mem.Of(m), 1, peerTag))); return err },
	} {
		if err := send(pattern(n, way)); err != nil {
			return fmt.Errorf("sending in way %d: %w", way, err)
		}
	}
	buf := make([]byte, n)
	for way, recv := range []func() (mpicomm.Status, error){
		func() (mpicomm.Status, error) { return coro.Recv(background, c, buf, 1, peerBack) },
		func() (s mpicomm.Status, err error) {
			buf, s, err = coro.RecvAlloc[byte](background, c, 1, peerBack)
			return s, err
		},
		func() (mpicomm.Status, error) { return waitFor(c.Irecv(mem.Of(buf), mpicomm.AnySource, peerBack)) },
		func() (mpicomm.Status, error) {
			m, err := c.Mprobe(background, 1, mpicomm.AnyTag)
			if err != nil {
				return mpicomm.Status{}, err
			}
			return waitFor(m.Imrecv(mem.Of(buf)))
		},
	} {
		status, err := recv()
		if want := (mpicomm.Status{Source: 1, Tag: peerBack, Count: n}); err != nil || status != want || string(buf) != string(pattern(n, way)) {
			return fmt.Errorf("receiving in way %d: %v %w", way, status, err)
		}
		buf = make([]byte, n)
	}
	return nil
}

func numbersWithPeer(c *mpicomm.Comm) error {
	numbers := make([]float64, 100)
	for i := range numbers {
		numbers[i] = float64(i) / 4
	}
	if err := coro.Send(background, c, numbers, 1, peerTag); err != nil {
		return err
	}
	back, status, err := coro.RecvAlloc[float64](background, c, 1, peerBack)
	if err != nil || status.Count != 800 || fmt.Sprint(back) != fmt.Sprint(numbers) {
		return fmt.Errorf("numbers: %v %v %w", status, back, err)
	}
	return nil
}

// programCPeerLarge sends more than 2 GiB to peer.c and gets it back.
func programCPeerLarge() error {
	return withPeer(func(c *mpicomm.Comm) error {
		for _, n := range largeSizes {
			buf := make([]byte, n)
			mark(buf, 0)
			if err := coro.Send(background, c, buf, 1, peerLarge); err != nil {
				return err
			}
			buf = make([]byte, n)
			status, err := coro.Recv(background, c, buf, 1, peerLarge)
			if err != nil || status.Count != n {
				return fmt.Errorf("%d bytes: %v %w", n, status, err)
			}
			if !marked(buf, 0) {
				return fmt.Errorf("%d bytes: they are not what was sent", n)
			}
		}
		return nil
	})
}

// runWithPeer starts a job of a Go program and peer.c.
func runWithPeer(t *testing.T, mpi, program string, timeout time.Duration, args ...string) mpitest.Result {
	source, err := os.ReadFile(filepath.Join(mpitest.Root(t), "internal", "mpitest", "testdata", "peer.c"))
	require.NoError(t, err)
	peer, complaint := mpitest.Compile(t, mpi, string(source))
	require.Empty(t, complaint)
	r := mpitest.Job{MPI: mpi, Program: program, Peer: append([]string{peer}, args...), Timeout: timeout}.Run(t)
	require.False(t, r.TimedOut)
	return r
}

func texts(numbers []int) (texts []string) {
	for _, n := range numbers {
		texts = append(texts, strconv.Itoa(n))
	}
	return texts
}

// TestCPeer exchanges plain messages with a C program.
func TestCPeer(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		r := runWithPeer(t, mpi, "c peer", time.Minute, append([]string{mpicomm.Version, "plain"}, texts(sizes)...)...)
		require.Equal(t, 0, r.Code)
		require.Contains(t, r.Output, "the C program has received all")
	})
}

// TestCPeerLarge does so with messages over 2 GiB.
func TestCPeerLarge(t *testing.T) {
	needLarge(t)
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		r := runWithPeer(t, mpi, "c peer, large", 5*time.Minute, append([]string{mpicomm.Version, "large"}, texts(largeSizes)...)...)
		require.Equal(t, 0, r.Code)
		require.Contains(t, r.Output, "the C program has received all")
	})
}

// TestOtherVersion shows that Init fails when another rank runs another version
// of the library.
func TestOtherVersion(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		r := runWithPeer(t, mpi, "c peer", time.Minute, "9.8.7-other", "plain")
		require.NotEqual(t, 0, r.Code)
		require.Contains(t, r.Output, "rank 0 runs mpi4go "+mpicomm.Version+" and rank 1 runs mpi4go 9.8.7-other")
	})
}
