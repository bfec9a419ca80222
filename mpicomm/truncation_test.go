package mpicomm_test

import (
	"fmt"
	"testing"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/stretchr/testify/require"
)

// TestTruncation receives messages into buffers that are too short for them.
// The error says so, no byte behind the buffer is written, the message is
// consumed, and the next message arrives. See the quirk of Open MPI's ob1,
// which writes behind the buffer from 4,095 bytes on.
func TestTruncation(t *testing.T) {
	comm := mpitest.Pair(t)
	ways := []struct {
		name   string
		posted bool // before the message is sent; otherwise it has arrived
		recv   func(buf []byte, tag int) *mpicomm.Request
		block  func(buf []byte, tag int) (mpicomm.Status, error)
	}{
		{name: "Irecv before the message", posted: true, recv: func(buf []byte, tag int) *mpicomm.Request {
			return irecv(t, comm, buf, 0, tag)
		}},
		{name: "Irecv of anything before the message", posted: true, recv: func(buf []byte, _ int) *mpicomm.Request {
			return irecv(t, comm, buf, mpicomm.AnySource, mpicomm.AnyTag)
		}},
		{name: "Irecv after the message", recv: func(buf []byte, tag int) *mpicomm.Request {
			return irecv(t, comm, buf, 0, tag)
		}},
		{name: "Imrecv", recv: func(buf []byte, tag int) *mpicomm.Request {
			m, err := comm.Mprobe(mpitest.Context(t), 0, tag)
			require.NoError(t, err)
			r, err := m.Imrecv(mem.Of(buf))
			require.NoError(t, err)
			return r
		}},
		{name: "Recv", block: func(buf []byte, tag int) (mpicomm.Status, error) {
			return coro.Recv(mpitest.Context(t), comm, buf, 0, tag)
		}},
		{name: "DoAll", block: func(buf []byte, tag int) (mpicomm.Status, error) {
			_, err := mpicomm.DoAll(mpitest.Context(t), nil,
				comm.RecvOp(mem.Of(make([]byte, 1)), mpicomm.ProcNull, 0), comm.RecvOp(mem.Of(buf), 0, tag))
			return mpicomm.Status{}, err
		}},
	}
	const ready, tag = 1, 2
	for _, message := range []int{2, 300, 4095, 4096, 4097, 100000} {
		for _, length := range []int{0, 1, 255, 256, 257, 1024} {
			if length >= message {
				continue
			}
			for _, way := range ways {
				name := fmt.Sprintf("%s, %d bytes into %d", way.name, message, length)
				if comm.Rank() == 0 {
					if way.posted {
						await(t, comm, 1, ready)
					}
					first := isend(t, comm, pattern(message, 1), 1, tag)
					second := isend(t, comm, pattern(message, 2), 1, tag)
					wait(t, first)
					wait(t, second)
					continue
				}
				g := newGuarded(length)
				var r *mpicomm.Request
				if way.posted {
					r = way.recv(g.buf, tag)
					signal(t, comm, 0, ready)
				} else {
					require.Equal(t, message, awaitMessage(t, comm, 0, tag).Count)
				}
				var err error
				switch {
				case r != nil:
					_, err = r.Wait(mpitest.Context(t))
				case way.recv != nil:
					_, err = way.recv(g.buf, tag).Wait(mpitest.Context(t))
				default:
					_, err = way.block(g.buf, tag)
				}
				require.ErrorIs(t, err, mpicomm.ErrTruncate, name)
				require.ErrorContains(t, err, fmt.Sprintf("into a buffer of %d; the message was consumed", length), name)
				g.requireIntact(t, length)

				next := newGuarded(message)
				require.Equal(t, mpicomm.Status{Source: 0, Tag: tag, Count: message}, recv(t, comm, next.buf, 0, tag), name)
				requirePattern(t, next.buf, 2)
				next.requireIntact(t, message)
			}
		}
	}
}

// TestTruncationError shows what the error tells.
func TestTruncationError(t *testing.T) {
	comm := mpitest.Pair(t)
	const tag = 7
	if comm.Rank() == 0 {
		send(t, comm, pattern(5000, 1), 1, tag)
		return
	}
	_, err := irecv(t, comm, make([]byte, 1000), mpicomm.AnySource, mpicomm.AnyTag).Wait(mpitest.Context(t))
	var e *mpicomm.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "irecv", e.Op)
	require.Equal(t, mpicomm.ErrTruncate, e.Class)
	require.Equal(t, 0, e.Peer, "the rank that sent it, not AnySource")
	require.Equal(t, tag, e.Tag)
	require.ErrorContains(t, err, "irecv: truncated: peer 0 tag 7: ")
	require.ErrorContains(t, err, "MPI-4.1 3.2.4")
}

// TestTruncatedImrecv shows that a matched message does not write past a buffer
// that is too short, and that the error tells its length.
func TestTruncatedImrecv(t *testing.T) {
	comm := mpitest.Pair(t)
	tests := []struct{ message, buffer int }{{300, 100}, {4097, 256}, {4097, 257}, {100000, 4096}}
	bufs := make([]guarded, len(tests))
	errs := make([]error, len(tests))
	for tag, test := range tests {
		if comm.Rank() == 0 {
			wait(t, isend(t, comm, pattern(test.message, tag), 1, tag))
			continue
		}
		m, err := comm.Mprobe(mpitest.Context(t), 0, tag)
		require.NoError(t, err)
		bufs[tag] = newGuarded(test.buffer)
		r, err := m.Imrecv(mem.Of(bufs[tag].buf))
		require.NoError(t, err)
		_, errs[tag] = r.Wait(mpitest.Context(t))
	}
	if comm.Rank() == 0 {
		return
	}
	for tag, test := range tests {
		require.ErrorIs(t, errs[tag], mpicomm.ErrTruncate)
		require.ErrorContains(t, errs[tag], fmt.Sprintf("%d bytes into a buffer of %d", test.message, test.buffer))
		bufs[tag].requireIntact(t, test.buffer)
	}
}

// TestTruncationOfOneInASet shows that the others of the set are received.
func TestTruncationOfOneInASet(t *testing.T) {
	comm := mpitest.Pair(t)
	if comm.Rank() == 0 {
		for tag := range 3 {
			send(t, comm, pattern(5000, tag), 1, tag)
		}
		return
	}
	bufs := []guarded{newGuarded(5000), newGuarded(1000), newGuarded(5000)}
	var ops []mpicomm.Op
	for tag, g := range bufs {
		ops = append(ops, comm.RecvOp(mem.Of(g.buf), 0, tag))
	}
	statuses, err := mpicomm.DoAll(mpitest.Context(t), nil, ops...)
	require.ErrorIs(t, err, mpicomm.ErrTruncate)
	require.Len(t, statuses, 3)
	for _, tag := range []int{0, 2} {
		require.Equal(t, mpicomm.Status{Source: 0, Tag: tag, Count: 5000}, statuses[tag])
		requirePattern(t, bufs[tag].buf, tag)
	}
	for _, g := range bufs {
		g.requireIntact(t, len(g.buf))
	}
}

// TestRecvAllocTooShort shows that a message stays for the next receive when the
// allocator gives too little, or fails, or panics.
func TestRecvAllocTooShort(t *testing.T) {
	comm := mpitest.Pair(t)
	const n = 5000
	if comm.Rank() == 0 {
		send(t, comm, pattern(n, 1), 1, 1)
		return
	}
	g := newGuarded(n - 1)
	refusal := fmt.Errorf("no room")
	for _, test := range []struct {
		alloc func(mpicomm.Status) (mem.Buffer, error)
		check func(error)
	}{
		{
			func(mpicomm.Status) (mem.Buffer, error) { return mem.Of(g.buf), nil },
			func(err error) { require.ErrorIs(t, err, mpicomm.ErrBuffer); g.requireIntact(t, 0) },
		},
		{
			func(mpicomm.Status) (mem.Buffer, error) { return mem.Buffer{}, refusal },
			func(err error) { require.ErrorIs(t, err, refusal) },
		},
		{
			func(mpicomm.Status) (mem.Buffer, error) { panic("out of order") },
			func(err error) { require.ErrorContains(t, err, "out of order") },
		},
		{
			func(mpicomm.Status) (mem.Buffer, error) { return mem.FromPointer(4096, n, mem.Device, nil), nil },
			func(err error) { require.ErrorContains(t, err, "device memory") },
		},
	} {
		_, err := mpicomm.RecvAlloc(mpitest.Context(t), comm, 0, 1, test.alloc)
		test.check(err)
	}
	buf := make([]byte, n)
	require.Equal(t, n, recv(t, comm, buf, mpicomm.AnySource, mpicomm.AnyTag).Count)
	requirePattern(t, buf, 1)
}
