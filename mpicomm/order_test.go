package mpicomm_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/stretchr/testify/require"
)

// numbered is a message of at least 8 bytes with a number in it.
func numbered(n, number int) []byte {
	b := pattern(max(n, 8), number)
	binary.LittleEndian.PutUint64(b, uint64(number))
	return b
}

func number(b []byte) int { return int(binary.LittleEndian.Uint64(b)) }

// TestMessagesKeepTheirOrder sends many messages of all lengths from one
// goroutine, in every way, to one that receives in every way.
func TestMessagesKeepTheirOrder(t *testing.T) {
	comm := mpitest.Pair(t)
	const count, tag = 3000, 1
	lengths := []int{8, 300, 4097, 256, 257, 20000, 8, 8}
	if comm.Rank() == 0 {
		var pending []*mpicomm.Request
		for i := range count {
			message := numbered(lengths[i%len(lengths)], i)
			switch i % 3 {
			case 0:
				send(t, comm, message, 1, tag)
			case 1:
				pending = append(pending, isend(t, comm, message, 1, tag))
			case 2:
				r, err := mpicomm.Post(comm.SendOp(mem.Of(message), 1, tag))
				require.NoError(t, err)
				pending = append(pending, r)
			}
		}
		require.NoError(t, mpicomm.Waitall(mpitest.Context(t), pending...))
		return
	}
	buf := make([]byte, 20000)
	for i := 0; i < count; i++ {
		n := max(lengths[i%len(lengths)], 8)
		switch i % 5 {
		case 0:
			require.Equal(t, n, recv(t, comm, buf, 0, tag).Count)
		case 1:
			require.Equal(t, n, recv(t, comm, buf[:n], mpicomm.AnySource, mpicomm.AnyTag).Count)
		case 2:
			got, _, err := coro.RecvAlloc[byte](mpitest.Context(t), comm, 0, mpicomm.AnyTag)
			require.NoError(t, err)
			require.Len(t, got, n)
			copy(buf, got)
		case 3:
			require.Equal(t, n, wait(t, irecv(t, comm, buf[:n], 0, tag)).Count)
		case 4:
			m, err := comm.Mprobe(mpitest.Context(t), mpicomm.AnySource, tag)
			require.NoError(t, err)
			r, err := m.Imrecv(mem.Of(buf))
			require.NoError(t, err)
			require.Equal(t, n, wait(t, r).Count)
		}
		require.Equal(t, i, number(buf))
		requireNumbered(t, buf[:n], i)
	}
}

// requireNumbered checks all of a numbered message.
func requireNumbered(t testing.TB, got []byte, number int) {
	t.Helper()
	require.Equal(t, string(numbered(len(got), number)), string(got))
}

// TestOverlappingReceivers starts receives that could all match the same
// messages, and shows that they are served in the order of their calls:
// wildcards or not, long buffers, short ones, or of unknown length.
func TestOverlappingReceivers(t *testing.T) {
	comm := mpitest.Pair(t)
	const tag, ready = 5, 6
	type receive struct {
		source, tag int
		n           int // bytes of the buffer; -1: RecvAlloc, -2: Mprobe
	}
	any, anyTag := mpicomm.AnySource, mpicomm.AnyTag
	for _, test := range []struct {
		name     string
		lengths  []int // of the messages, in turn
		receives []receive
	}{
		{"short", []int{8}, []receive{{0, tag, 8}, {any, tag, 8}, {0, anyTag, 200}, {any, anyTag, 8}, {0, tag, 100}}},
		{"long", []int{300, 100000}, []receive{{0, tag, 100000}, {any, tag, 100000}, {0, anyTag, 200000}, {any, anyTag, 100000}, {0, tag, 100000}}},
		{
			"short and long",
			[]int{8, 100},
			[]receive{{0, tag, 8}, {any, tag, 5000}, {0, anyTag, 100}, {any, anyTag, 100000}, {0, tag, 256}, {any, tag, 257}, {0, tag, 8}},
		},
		{
			"unknown",
			[]int{8, 5000},
			[]receive{{0, tag, -1}, {any, anyTag, -1}, {0, tag, -2}, {0, anyTag, -1}, {any, tag, -2}, {any, tag, -1}},
		},
		{
			"mixed",
			[]int{8, 200},
			[]receive{
				{0, tag, 8},
				{0, tag, -1},
				{any, tag, 200},
				{any, anyTag, -1},
				{0, anyTag, 5000},
				{any, anyTag, -2},
				{0, tag, 300},
				{any, tag, 200},
				{0, tag, -1},
				{0, tag, 200},
			},
		},
	} {
		if comm.Rank() == 0 {
			await(t, comm, 1, ready)
			for i := range test.receives {
				n := test.lengths[i%len(test.lengths)]
				wait(t, isend(t, comm, numbered(n, i), 1, tag))
			}
			continue
		}
		got := make([]func() (int, error), len(test.receives)) // the number of the message that each gets
		for i, r := range test.receives {
			before := started()
			if r.n >= 0 {
				buf := make([]byte, r.n)
				request := irecv(t, comm, buf, r.source, r.tag)
				got[i] = func() (int, error) {
					_, err := request.Wait(mpitest.Context(t))
					return number(buf), err
				}
				continue
			}
			result := make(chan []byte, 1)
			failed := make(chan error, 1)
			go func() {
				b, err := receiveUnknown(mpitest.Context(t), comm, r.source, r.tag, r.n == -2)
				failed <- err
				result <- b
			}()
			got[i] = func() (int, error) {
				if err := <-failed; err != nil {
					return 0, err
				}
				return number(<-result), nil
			}
			untilStarted(t, before+1)
		}
		signal(t, comm, 0, ready)
		for i, f := range got {
			n, err := f()
			require.NoError(t, err, "%s: receive %d", test.name, i)
			require.Equal(t, i, n, "%s: the message of receive %d", test.name, i)
		}
	}
}

func receiveUnknown(ctx context.Context, comm *mpicomm.Comm, source, tag int, mprobe bool) ([]byte, error) {
	if !mprobe {
		b, _, err := coro.RecvAlloc[byte](ctx, comm, source, tag)
		return b, err
	}
	m, err := comm.Mprobe(ctx, source, tag)
	if err != nil {
		return nil, err
	}
	b := make([]byte, m.Status().Count)
	r, err := m.Imrecv(mem.Of(b))
	if err != nil {
		return nil, err
	}
	_, err = r.Wait(ctx)
	return b, err
}

// TestReceiverKeepsItsPlace shows that a RecvAlloc that waits does not let later
// receives pass, nor hold up those that cannot match its message.
func TestReceiverKeepsItsPlace(t *testing.T) {
	comm := mpitest.Pair(t)
	const tag, other, ready = 5, 6, 7
	if comm.Rank() == 0 {
		await(t, comm, 1, ready)
		send(t, comm, numbered(8, 100), 1, other)
		await(t, comm, 1, ready)
		for i := range 2 {
			send(t, comm, numbered(8, i), 1, tag)
		}
		return
	}
	before := started()
	first := make(chan []byte, 1)
	go func() {
		b, _, _ := coro.RecvAlloc[byte](mpitest.Context(t), comm, 0, tag)
		first <- b
	}()
	untilStarted(t, before+1)
	buf := make([]byte, 8)
	second := irecv(t, comm, buf, mpicomm.AnySource, tag)
	signal(t, comm, 0, ready)
	free := make([]byte, 8)
	recv(t, comm, free, 0, other)
	require.Equal(t, 100, number(free))
	signal(t, comm, 0, ready)
	require.Equal(t, 0, number(<-first))
	wait(t, second)
	require.Equal(t, 1, number(buf))
}

// TestAllocatorHoldsTheOrder shows that while a RecvAlloc allocates, later
// receives wait, and take the messages in order, whatever becomes of the first.
func TestAllocatorHoldsTheOrder(t *testing.T) {
	comm := mpitest.Pair(t)
	const tag = 5
	for _, refuse := range []bool{false, true} {
		if comm.Rank() == 0 {
			for i := range 3 {
				wait(t, isend(t, comm, numbered(300, i), 1, tag))
			}
			continue
		}
		allocating, proceed := make(chan int, 1), make(chan struct{})
		first := make(chan error, 1)
		buf := make([]byte, 300)
		go func() {
			_, err := mpicomm.RecvAlloc(mpitest.Context(t), comm, 0, tag, func(s mpicomm.Status) (mem.Buffer, error) {
				allocating <- s.Count
				<-proceed
				if refuse {
					return mem.Buffer{}, fmt.Errorf("refused")
				}
				return mem.Of(buf), nil
			})
			first <- err
		}()
		require.Equal(t, 300, <-allocating)
		bufs := [][]byte{make([]byte, 300), make([]byte, 300), make([]byte, 300)}
		second := irecv(t, comm, bufs[0], mpicomm.AnySource, mpicomm.AnyTag)
		third := irecv(t, comm, bufs[1], 0, tag)
		close(proceed)
		err := <-first
		require.NoError(t, mpicomm.Waitall(mpitest.Context(t), second, third))
		next := 0
		if refuse {
			require.ErrorContains(t, err, "refused")
		} else {
			require.NoError(t, err)
			require.Equal(t, 0, number(buf))
			next = 1
		}
		require.Equal(t, next, number(bufs[0]))
		require.Equal(t, next+1, number(bufs[1]))
		if refuse {
			recv(t, comm, bufs[2], 0, tag)
			require.Equal(t, 2, number(bufs[2]))
		}
	}
}

// TestOnlyTheLastIsSent posts a thousand receives of which the peer answers one.
func TestOnlyTheLastIsSent(t *testing.T) {
	comm := mpitest.Pair(t)
	const count, ready, answer = 1000, 5000, 5001
	for _, n := range []int{8, 5000} {
		if comm.Rank() == 0 {
			await(t, comm, 1, ready)
			send(t, comm, numbered(n, count-1), 1, count-1)
			await(t, comm, 1, answer)
			for tag := range count - 1 {
				send(t, comm, numbered(n, tag), 1, tag)
			}
			continue
		}
		requests, bufs := make([]*mpicomm.Request, count), make([][]byte, count)
		for tag := range count {
			bufs[tag] = make([]byte, n)
			requests[tag] = irecv(t, comm, bufs[tag], 0, tag)
		}
		signal(t, comm, 0, ready)
		require.Equal(t, count-1, wait(t, requests[count-1]).Tag)
		signal(t, comm, 0, answer)
		require.NoError(t, mpicomm.Waitall(mpitest.Context(t), requests...))
		for tag, buf := range bufs {
			require.Equal(t, tag, number(buf))
		}
	}
}

// TestManySenders receives from all ranks with wildcards: each rank's messages
// keep their order.
func TestManySenders(t *testing.T) {
	mpitest.NeedRanks(t, 2)
	comm := mpitest.Comm(t)
	const count, tag = 300, 1
	if comm.Rank() != 0 {
		for i := range count {
			send(t, comm, numbered(8+i*13%2000, i), 0, tag)
		}
		return
	}
	next := make([]int, comm.Size())
	for range count * (comm.Size() - 1) {
		b, status, err := coro.RecvAlloc[byte](mpitest.Context(t), comm, mpicomm.AnySource, tag)
		require.NoError(t, err)
		require.Equal(t, next[status.Source], number(b))
		requireNumbered(t, b, number(b))
		next[status.Source]++
	}
	for _, n := range next[1:] {
		require.Equal(t, count, n)
	}
}
