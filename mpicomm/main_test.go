package mpicomm_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	mpitest.Main(m,
		mpitest.Program("abort", programAbort),
		mpitest.Program("attach", programAttach),
		mpitest.Program("attach, bad call", programAttachBadCall),
		mpitest.Program("attach, level", programAttachLevel),
		mpitest.Program("attach, owner first", programAttachOwnerFirst),
		mpitest.Program("attach, too late", programAttachTooLate),
		mpitest.Program("after finalize", programAfterFinalize),
		mpitest.Program("before init", programBeforeInit),
		mpitest.Program("c peer", programCPeer),
		mpitest.Program("c peer, large", programCPeerLarge),
		mpitest.Program("dead peer", programDeadPeer),
		mpitest.Program("debug on one", programDebugOnOne),
		mpitest.Program("doorbell", programDoorbell),
		mpitest.Program("doorbell, flood", programDoorbellFlood),
		mpitest.Program("ends apart", programEndsApart),
		mpitest.Program("examples", programExamples),
		mpitest.Program("failure", programFailure),
		mpitest.Program("forgotten", programForgotten),
		mpitest.Program("hello", programHello),
		mpitest.Program("hung", programHung),
		mpitest.Program("out of order", programOutOfOrder),
		mpitest.Program("outstanding receive", programOutstandingReceive),
		mpitest.Program("procs", programProcs),
		mpitest.Program("slow reader", programSlowReader),
		mpitest.Program("stuck inside", programStuckInside),
		mpitest.Program("stuck send", programStuckSend),
		mpitest.Program("two tries", programTwoTries),
	)
}

// sizes of messages: around the limits of the library (256 bytes) and of MPI's
// eager protocol (4 KiB).
var sizes = []int{0, 1, 255, 256, 257, 4095, 4096, 4097, 64 << 10, 1 << 20}

// pattern is a message whose every byte depends on its place and on the seed.
func pattern(n, seed int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8 + seed*31)
	}
	return b
}

func requirePattern(t testing.TB, got []byte, seed int) {
	t.Helper()
	if want := pattern(len(got), seed); !bytes.Equal(want, got) {
		for i := range want {
			require.Equal(t, want[i], got[i], "byte %d of %d", i, len(got))
		}
	}
}

// canary is what lies behind a buffer that MPI must not overrun.
const canary = 0xa5

// guarded is a buffer of n bytes, all of them canary, with more of them behind.
type guarded struct{ all, buf []byte }

func newGuarded(n int) guarded {
	all := bytes.Repeat([]byte{canary}, n+128<<10)
	return guarded{all, all[:n:n]}
}

// requireIntact checks everything from an offset on.
func (g guarded) requireIntact(t testing.TB, from int) {
	t.Helper()
	for i, b := range g.all[from:] {
		if b != canary {
			require.Equal(t, byte(canary), b, "byte %d of a buffer of %d was written", from+i, len(g.buf))
		}
	}
}

// wait waits for a request that has to succeed.
func wait(t testing.TB, r *mpicomm.Request) mpicomm.Status {
	t.Helper()
	status, err := r.Wait(mpitest.Context(t))
	require.NoError(t, err)
	return status
}

func isend(t testing.TB, c *mpicomm.Comm, data []byte, dest, tag int) *mpicomm.Request {
	t.Helper()
	r, err := c.Isend(mem.Of(data), dest, tag)
	require.NoError(t, err)
	return r
}

func irecv(t testing.TB, c *mpicomm.Comm, data []byte, source, tag int) *mpicomm.Request {
	t.Helper()
	r, err := c.Irecv(mem.Of(data), source, tag)
	require.NoError(t, err)
	return r
}

// send and recv block until they are done.
func send(t testing.TB, c *mpicomm.Comm, data []byte, dest, tag int) {
	t.Helper()
	_, err := mpicomm.Do(mpitest.Context(t), c.SendOp(mem.Of(data), dest, tag))
	require.NoError(t, err)
}

func recv(t testing.TB, c *mpicomm.Comm, data []byte, source, tag int) mpicomm.Status {
	t.Helper()
	status, err := mpicomm.Do(mpitest.Context(t), c.RecvOp(mem.Of(data), source, tag))
	require.NoError(t, err)
	return status
}

// signal and await are messages without contents.
func signal(t testing.TB, c *mpicomm.Comm, dest, tag int) {
	t.Helper()
	send(t, c, nil, dest, tag)
}

func await(t testing.TB, c *mpicomm.Comm, source, tag int) {
	t.Helper()
	require.Equal(t, mpicomm.Status{Source: source, Tag: tag}, recv(t, c, nil, source, tag))
}

// awaitMessage waits until a message has arrived, and leaves it.
func awaitMessage(t testing.TB, c *mpicomm.Comm, source, tag int) mpicomm.Status {
	t.Helper()
	status, err := c.Probe(mpitest.Context(t), source, tag)
	require.NoError(t, err)
	return status
}

// started counts the operations that the engine has started so far.
func started() int {
	n, _ := mpicomm.Counters()
	return int(n)
}

// untilStarted waits until that many were started: what another goroutine has
// called is in its place.
func untilStarted(t testing.TB, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return started() >= n }, 30*time.Second, 100*time.Microsecond)
}

// onceStarted is a context that is cancelled when n more operations have been
// started.
func onceStarted(t testing.TB, n int) context.Context {
	ctx, cancel := context.WithCancel(mpitest.Context(t))
	n += started()
	go func() {
		defer cancel()
		for started() < n && ctx.Err() == nil {
			time.Sleep(100 * time.Microsecond)
		}
	}()
	return ctx
}

// ring is the ranks on both sides of this one.
func ring(c *mpicomm.Comm) (next, previous int) {
	return (c.Rank() + 1) % c.Size(), (c.Rank() + c.Size() - 1) % c.Size()
}
