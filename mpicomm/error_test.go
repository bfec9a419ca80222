package mpicomm_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/stretchr/testify/require"
)

// everyCall makes each call that names a rank and a tag, and returns the errors.
// Sends is what a send must not be given, when it is different.
func everyCall(t testing.TB, c *mpicomm.Comm, rank, tag int) (sends, receives map[string]error) {
	ctx, buf := mpitest.Context(t), mem.Of(make([]byte, 10))
	sends, receives = map[string]error{}, map[string]error{}
	_, sends["isend"] = c.Isend(buf, rank, tag)
	_, sends["issend"] = c.Issend(buf, rank, tag)
	sends["isend, waiting"] = coro.Send(ctx, c, buf, rank, tag)
	sends["issend, waiting"] = coro.Ssend(ctx, c, buf, rank, tag)
	_, sends["isend in a set"] = mpicomm.Post(c.SendOp(buf, rank, tag))
	_, receives["irecv"] = c.Irecv(buf, rank, tag)
	_, receives["irecv, waiting"] = coro.Recv(ctx, c, buf, rank, tag)
	_, receives["irecv in a set"] = mpicomm.DoAll(ctx, nil, c.RecvOp(buf, rank, tag))
	_, _, receives["mprobe, receiving"] = coro.RecvAlloc[byte](ctx, c, rank, tag)
	_, receives["probe"] = c.Probe(ctx, rank, tag)
	_, _, receives["iprobe"] = c.Iprobe(rank, tag)
	_, receives["mprobe"] = c.Mprobe(ctx, rank, tag)
	_, _, receives["improbe"] = c.Improbe(rank, tag)
	return sends, receives
}

func requireAll(t testing.TB, errs map[string]error, class mpicomm.Class, text string, rank, tag int) {
	t.Helper()
	for call, err := range errs {
		require.ErrorIs(t, err, class, call)
		require.ErrorContains(t, err, text, call)
		var e *mpicomm.Error
		require.ErrorAs(t, err, &e, call)
		require.Equal(t, rank, e.Peer, call)
		require.Equal(t, tag, e.Tag, call)
		require.Zero(t, e.Code, "found before MPI saw it")
		require.Regexp(t, "^"+e.Op, call)
	}
}

func TestRankOutOfRange(t *testing.T) {
	comm := mpitest.Comm(t)
	text := fmt.Sprintf("the communicator has the ranks 0 to %d", comm.Size()-1)
	for _, rank := range []int{comm.Size(), comm.Size() + 1000, -3, -100, 1 << 40} {
		sends, receives := everyCall(t, comm, rank, 1)
		requireAll(t, sends, mpicomm.ErrRank, text, rank, 1)
		requireAll(t, receives, mpicomm.ErrRank, text, rank, 1)
	}
	_, err := comm.Isend(mem.Buffer{}, mpicomm.AnySource, 1)
	require.ErrorIs(t, err, mpicomm.ErrRank)
	require.ErrorContains(t, err, "isend: invalid rank: peer any tag 1: AnySource is for receives")
}

// TestTagLimit shows that the largest tag of this MPI works, and that the next
// one is an error that names it.
func TestTagLimit(t *testing.T) {
	comm := mpitest.Comm(t)
	next, previous := ring(comm)
	info, err := mpicomm.Info()
	require.NoError(t, err)
	limit := info.TagUB
	require.GreaterOrEqual(t, limit, 32767, "what the standard promises")
	for _, tag := range []int{0, 1, 32767, limit - 1, limit} {
		for _, n := range []int{1, 5000} {
			buf := make([]byte, n)
			receiving := irecv(t, comm, buf, previous, tag)
			sending := isend(t, comm, pattern(n, tag), next, tag)
			require.Equal(t, mpicomm.Status{Source: previous, Tag: tag, Count: n}, wait(t, receiving))
			requirePattern(t, buf, tag)
			wait(t, sending)
		}
		receiving := irecv(t, comm, nil, previous, mpicomm.AnyTag)
		send(t, comm, nil, next, tag)
		require.Equal(t, tag, wait(t, receiving).Tag)
	}
	text := fmt.Sprintf("this MPI has the tags 0 to %d (MPI_TAG_UB", limit)
	for _, tag := range []int{limit + 1, -2, -1000, 1 << 40} {
		sends, receives := everyCall(t, comm, next, tag)
		requireAll(t, sends, mpicomm.ErrTag, text, next, tag)
		requireAll(t, receives, mpicomm.ErrTag, text, next, tag)
	}
	_, err = comm.Isend(mem.Buffer{}, next, mpicomm.AnyTag)
	require.ErrorIs(t, err, mpicomm.ErrTag)
	require.ErrorContains(t, err, "tag any: AnyTag is for receives")
}

func TestNilComm(t *testing.T) {
	mpitest.NeedRanks(t, 1)
	sends, receives := everyCall(t, nil, 0, 0)
	for _, errs := range []map[string]error{sends, receives} {
		for call, err := range errs {
			require.ErrorIs(t, err, mpicomm.ErrComm, call)
			require.ErrorContains(t, err, "the communicator is nil: use mpicomm.World()", call)
		}
	}
	_, err := (*mpicomm.Comm)(nil).Dup(mpitest.Context(t))
	require.ErrorIs(t, err, mpicomm.ErrComm)
}

func TestDeviceBuffer(t *testing.T) {
	comm := mpitest.Comm(t)
	buf := mem.FromPointer(0x7f0000000000, 100, mem.Device, nil)
	_, sendErr := comm.Isend(buf, 0, 1)
	_, recvErr := comm.Irecv(buf, 0, 1)
	for _, err := range []error{sendErr, recvErr, coro.Send(mpitest.Context(t), comm, buf, 0, 1)} {
		require.ErrorIs(t, err, errors.ErrUnsupported)
		require.ErrorContains(t, err, "device memory needs package gpu")
	}
}

// TestNoneOfASetIsStarted shows that a mistake in one operation keeps the others
// from being started.
func TestNoneOfASetIsStarted(t *testing.T) {
	comm := mpitest.Comm(t)
	before, _ := mpicomm.Counters()
	good := comm.SendOp(mem.Of([]byte{1}), mpicomm.ProcNull, 1)
	_, err := mpicomm.Post(good, comm.SendOp(mem.Of([]byte{1}), comm.Size(), 1))
	require.ErrorIs(t, err, mpicomm.ErrRank)
	require.ErrorContains(t, err, "operation 1 of 2")
	_, err = mpicomm.DoAll(mpitest.Context(t), nil, good, comm.RecvOp(mem.Buffer{}, 0, -2))
	require.ErrorIs(t, err, mpicomm.ErrTag)
	_, err = mpicomm.Post()
	require.ErrorIs(t, err, mpicomm.ErrCount)
	_, err = mpicomm.DoAll(mpitest.Context(t), nil)
	require.ErrorIs(t, err, mpicomm.ErrCount)
	after, _ := mpicomm.Counters()
	require.Equal(t, before, after)
}

// TestLateFailure shows that the failure of a short send, which was complete for
// its caller, is returned by the next call on the communicator, once.
func TestLateFailure(t *testing.T) {
	comm := mpitest.Comm(t)
	other, err := comm.Dup(mpitest.Context(t))
	require.NoError(t, err)
	truncated := 15 // of Open MPI; MPICH's code for something else
	for tag := range 20 {
		mpicomm.FailSend(comm, truncated, 0, tag)
	}
	_, err = other.Irecv(mem.Buffer{}, mpicomm.ProcNull, 0)
	require.NoError(t, err, "another communicator")
	for tag := range 16 { // more are not kept
		_, err = comm.Irecv(mem.Buffer{}, mpicomm.ProcNull, 0)
		var e *mpicomm.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, "isend", e.Op)
		require.Equal(t, truncated, e.Code)
		require.Equal(t, tag, e.Tag)
		require.ErrorContains(t, err, "an earlier send that was complete for its caller: ")
	}
	_, err = comm.Irecv(mem.Buffer{}, mpicomm.ProcNull, 0)
	require.NoError(t, err)
}

func TestErrorText(t *testing.T) {
	for want, err := range map[string]error{
		"isend: invalid rank: peer 9 tag 7: text":         &mpicomm.Error{Op: "isend", Class: mpicomm.ErrRank, Peer: 9, Tag: 7, Text: "text"},
		"irecv: invalid tag: peer any tag any: text":      &mpicomm.Error{Op: "irecv", Class: mpicomm.ErrTag, Peer: mpicomm.AnySource, Tag: mpicomm.AnyTag, Text: "text"},
		"irecv: truncated: peer null tag 0: text":         &mpicomm.Error{Op: "irecv", Class: mpicomm.ErrTruncate, Peer: mpicomm.ProcNull, Text: "text"},
		"idup: invalid communicator: text":                &mpicomm.Error{Op: "idup", Class: mpicomm.ErrComm, Peer: -3, Tag: -3, Text: "text"},
		"error class 1000":                                mpicomm.Class(1000),
		"out of memory":                                   mpicomm.ErrNoMem,
		"invalid key":                                     mpicomm.ErrKeyval,
		"thread level 9":                                  fmt.Errorf("%v", mpicomm.ThreadLevel(9)),
		"serialized":                                      fmt.Errorf("%v", mpicomm.ThreadSerialized),
		"wrapped: irecv: truncated: peer 1 tag 2: 3 of 4": fmt.Errorf("wrapped: %w", &mpicomm.Error{Op: "irecv", Class: mpicomm.ErrTruncate, Peer: 1, Tag: 2, Text: "3 of 4"}),
	} {
		require.EqualError(t, err, want)
	}
	err := fmt.Errorf("wrapped: %w", &mpicomm.Error{Class: mpicomm.ErrTruncate})
	require.ErrorIs(t, err, mpicomm.ErrTruncate)
	require.NotErrorIs(t, err, mpicomm.ErrTag)
	require.NotErrorIs(t, err, errors.New("truncated"))
}

// TestEveryClass shows that every class has a description.
func TestEveryClass(t *testing.T) {
	for class := mpicomm.ErrBuffer; class <= mpicomm.ErrKeyval; class++ {
		require.NotContains(t, class.Error(), "error class")
		require.ErrorIs(t, &mpicomm.Error{Class: class}, class)
	}
}
