package mpicomm_test

import (
	"testing"

	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/stretchr/testify/require"
)

// TestSizes sends messages of every size around a ring, on any number of ranks,
// in every way there is to send and to receive.
func TestSizes(t *testing.T) {
	comm := mpitest.Comm(t)
	next, previous := ring(comm)
	ways := map[int]struct {
		send func(buf mem.Buffer, dest, tag int) (*mpicomm.Request, error)
		recv func(buf []byte, tag int) mpicomm.Status // after the sends have started
		post bool                                     // or before
	}{
		1: {send: comm.Isend, post: true},
		2: {send: comm.Issend, post: true},
		3: {send: comm.Isend, recv: func(buf []byte, tag int) mpicomm.Status { return recv(t, comm, buf, previous, tag) }},
		4: {send: comm.Issend, recv: func(buf []byte, tag int) mpicomm.Status {
			return recv(t, comm, buf, mpicomm.AnySource, tag)
		}},
		5: {send: comm.Isend, recv: func(buf []byte, tag int) mpicomm.Status {
			m, err := comm.Mprobe(mpitest.Context(t), previous, tag)
			require.NoError(t, err)
			require.Equal(t, len(buf), m.Status().Count)
			r, err := m.Imrecv(mem.Of(buf))
			require.NoError(t, err)
			return wait(t, r)
		}},
		6: {send: comm.Isend, recv: func(buf []byte, tag int) mpicomm.Status {
			status, err := mpicomm.RecvAlloc(mpitest.Context(t), comm, previous, tag, func(s mpicomm.Status) (mem.Buffer, error) {
				require.Equal(t, len(buf), s.Count)
				return mem.Of(buf), nil
			})
			require.NoError(t, err)
			return status
		}},
	}
	for way := 1; way <= len(ways); way++ {
		w := ways[way]
		for i, n := range sizes {
			tag := way*100 + i
			g := newGuarded(n)
			var posted *mpicomm.Request
			if w.post {
				posted = irecv(t, comm, g.buf, previous, tag)
			}
			sending, err := w.send(mem.Of(pattern(n, comm.Rank()+i)), next, tag)
			require.NoError(t, err)
			want := mpicomm.Status{Source: previous, Tag: tag, Count: n}
			if w.post {
				require.Equal(t, want, wait(t, posted))
			} else {
				require.Equal(t, want, w.recv(g.buf, tag), "way %d, %d bytes", way, n)
			}
			requirePattern(t, g.buf, previous+i)
			g.requireIntact(t, n)
			require.Equal(t, mpicomm.Status{}, wait(t, sending))
		}
	}
}

// TestShorterMessage shows that a message leaves the rest of a longer buffer
// alone, and that the status tells its length.
func TestShorterMessage(t *testing.T) {
	comm := mpitest.Comm(t)
	next, previous := ring(comm)
	for i, test := range []struct{ message, buffer int }{
		{0, 1}, {0, 300}, {0, 100000}, {1, 2}, {1, 1000}, {100, 256}, {255, 256}, {256, 257}, {257, 1000}, {4096, 5000}, {100000, 200000},
	} {
		g := newGuarded(test.buffer)
		receiving := irecv(t, comm, g.buf, previous, i)
		sending := isend(t, comm, pattern(test.message, i), next, i)
		require.Equal(t, mpicomm.Status{Source: previous, Tag: i, Count: test.message}, wait(t, receiving))
		requirePattern(t, g.buf[:test.message], i)
		g.requireIntact(t, test.message)
		wait(t, sending)
	}
}

// TestNothing shows that a message without contents is a message: it needs no
// memory, matches by its tag, and says who sent it.
func TestNothing(t *testing.T) {
	comm := mpitest.Comm(t)
	next, previous := ring(comm)
	for i, nothing := range []mem.Buffer{{}, mem.Of([]byte(nil)), mem.Of([]byte{}), mem.Of([]float64{}), mem.Of(make([]byte, 5)).Slice(5, 5)} {
		receiving, err := comm.Irecv(nothing, mpicomm.AnySource, i)
		require.NoError(t, err)
		sending, err := comm.Isend(nothing, next, i)
		require.NoError(t, err)
		require.Equal(t, mpicomm.Status{Source: previous, Tag: i}, wait(t, receiving))
		wait(t, sending)
	}
}

// TestOffHeap sends from memory outside the Go heap and from the middle of a
// slice.
func TestOffHeap(t *testing.T) {
	comm := mpitest.Comm(t)
	next, previous := ring(comm)
	for i, n := range sizes {
		block, err := mem.Alloc(n + 64)
		require.NoError(t, err)
		copy(block.Bytes()[32:], pattern(n, i))
		into := newGuarded(n)
		receiving := irecv(t, comm, into.buf, previous, i)
		sending, err := comm.Isend(block.Buffer().Slice(32, 32+n), next, i)
		require.NoError(t, err)
		wait(t, receiving)
		requirePattern(t, into.buf, i)
		into.requireIntact(t, n)
		wait(t, sending)
		require.NoError(t, block.Free())
	}
}

// TestProcNull shows that operations with nobody complete at once and move
// nothing.
func TestProcNull(t *testing.T) {
	comm := mpitest.Comm(t)
	for _, n := range []int{0, 1, 256, 257, 100000} {
		wait(t, isend(t, comm, make([]byte, n), mpicomm.ProcNull, 1))
		g := newGuarded(n)
		require.Equal(t, mpicomm.Status{Source: mpicomm.ProcNull, Tag: mpicomm.AnyTag}, wait(t, irecv(t, comm, g.buf, mpicomm.ProcNull, 1)))
		g.requireIntact(t, 0)
		send(t, comm, make([]byte, n), mpicomm.ProcNull, 1)
		require.Equal(t, mpicomm.ProcNull, recv(t, comm, g.buf, mpicomm.ProcNull, 1).Source)
	}
	status, err := comm.Probe(mpitest.Context(t), mpicomm.ProcNull, 1)
	require.NoError(t, err)
	require.Equal(t, mpicomm.Status{Source: mpicomm.ProcNull, Tag: mpicomm.AnyTag}, status)
	status, found, err := comm.Iprobe(mpicomm.ProcNull, 1)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, mpicomm.ProcNull, status.Source)
	m, err := comm.Mprobe(mpitest.Context(t), mpicomm.ProcNull, 1)
	require.NoError(t, err)
	require.Equal(t, mpicomm.ProcNull, m.Status().Source)
	r, err := m.Imrecv(mem.Of(make([]byte, 10)))
	require.NoError(t, err)
	require.Equal(t, mpicomm.ProcNull, wait(t, r).Source)
}

// TestSet exchanges with both neighbours in one set, on any number of ranks.
func TestSet(t *testing.T) {
	comm := mpitest.Comm(t)
	next, previous := ring(comm)
	for i, n := range sizes {
		right, left := newGuarded(n), newGuarded(n)
		ops := []mpicomm.Op{
			comm.RecvOp(mem.Of(right.buf), next, 1),
			comm.RecvOp(mem.Of(left.buf), previous, 2),
			comm.SendOp(mem.Of(pattern(n, comm.Rank()+1)), previous, 1),
			comm.SendOp(mem.Of(pattern(n, comm.Rank()+2)), next, 2),
		}
		want := []mpicomm.Status{{Source: next, Tag: 1, Count: n}, {Source: previous, Tag: 2, Count: n}, {}, {}}
		if i%2 == 0 {
			r, err := mpicomm.Post(ops...)
			require.NoError(t, err)
			require.Equal(t, want[0], wait(t, r))
			require.Equal(t, want, r.Statuses())
		} else {
			statuses, err := mpicomm.DoAll(mpitest.Context(t), nil, ops...)
			require.NoError(t, err)
			require.Equal(t, want, statuses)
		}
		requirePattern(t, right.buf, next+1)
		requirePattern(t, left.buf, previous+2)
		right.requireIntact(t, n)
		left.requireIntact(t, n)
	}
}

// TestSetOfMany posts a hundred operations at once, and one.
func TestSetOfMany(t *testing.T) {
	comm := mpitest.Comm(t)
	next, previous := ring(comm)
	const n = 50
	var ops []mpicomm.Op
	bufs := make([][]byte, n)
	for i := range n {
		bufs[i] = make([]byte, i*i)
		ops = append(ops, comm.RecvOp(mem.Of(bufs[i]), previous, i))
	}
	for i := range n {
		ops = append(ops, comm.SendOp(mem.Of(pattern(i*i, i)), next, i))
	}
	r, err := mpicomm.Post(ops...)
	require.NoError(t, err)
	wait(t, r)
	statuses := r.Statuses()
	require.Len(t, statuses, 2*n)
	for i, buf := range bufs {
		require.Equal(t, mpicomm.Status{Source: previous, Tag: i, Count: i * i}, statuses[i])
		requirePattern(t, buf, i)
	}

	single := irecv(t, comm, make([]byte, 1), previous, n)
	one, err := mpicomm.Post(comm.SendOp(mem.Of([]byte{1}), next, n))
	require.NoError(t, err)
	wait(t, one)
	wait(t, single)
	require.Equal(t, []mpicomm.Status{{}}, one.Statuses())
}
