package mpicomm_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/stretchr/testify/require"
)

// The collectives are compared with what Go computes from the elements of all
// ranks, which every rank knows: those of a rank are a function of its number.

var errTimeout = context.DeadlineExceeded

// kindOfData is a type, its elements, and the reductions that it has.
type kindOfData[T mpicomm.Reducible] struct {
	comm    *mpicomm.Comm
	element func(rank, i int) T
	ops     map[mpicomm.ReduceOp]func(a, b T) T
}

// of is what a rank sends.
func (k *kindOfData[T]) of(rank, n int) []T {
	s := make([]T, n)
	for i := range s {
		s[i] = k.element(rank, i)
	}
	return s
}

// all is what all ranks send, end to end.
func (k *kindOfData[T]) all(n int) (s []T) {
	for rank := range k.comm.Size() {
		s = append(s, k.of(rank, n)...)
	}
	return s
}

// combined is the reduction of the elements of the ranks from 0 to last.
func (k *kindOfData[T]) combined(op func(a, b T) T, last, n int) []T {
	s := k.of(0, n)
	for rank := 1; rank <= last; rank++ {
		for i := range s {
			s[i] = op(s[i], k.element(rank, i))
		}
	}
	return s
}

func (k *kindOfData[T]) test(t *testing.T) {
	for _, n := range []int{0, 1, 7, 1000, 1_000_000} {
		if n > 1000 && !testsMillions[reflect.TypeFor[T]()] && os.Getenv("MPI4GO_TEST_LARGE") != "1" {
			continue
		}
		k.reductions(t, n)
		k.moves(t, n)
	}
}

// testsMillions has the types that are also tested with a million elements; with
// MPI4GO_TEST_LARGE=1 all are.
var testsMillions = map[reflect.Type]bool{reflect.TypeFor[int8](): true, reflect.TypeFor[float64](): true}

// equal is require.Equal, without its slow search for what differs.
func equal[T mpicomm.Reducible](t *testing.T, want, got []T, what string, n int) {
	t.Helper()
	require.Len(t, got, len(want), what)
	for i := range want {
		if want[i] != got[i] {
			t.Fatalf("%s of %d: element %d is %v, want %v", what, n, i, got[i], want[i])
		}
	}
}

func (k *kindOfData[T]) reductions(t *testing.T, n int) {
	ctx, c, rank, size := mpitest.Context(t), k.comm, k.comm.Rank(), k.comm.Size()
	mine := k.of(rank, n)
	for _, op := range slices.Sorted(maps.Keys(k.ops)) { // in one order on all ranks
		f := k.ops[op]
		if n > 1000 && op != mpicomm.Sum && op != mpicomm.Max {
			continue
		}
		recv := make([]T, n)
		require.NoError(t, mpicomm.Allreduce(ctx, c, mine, recv, op))
		equal(t, k.combined(f, size-1, n), recv, "allreduce "+op.String(), n)

		root := n % size
		clear(recv)
		require.NoError(t, mpicomm.Reduce(ctx, c, mine, recv, op, root))
		if rank == root {
			equal(t, k.combined(f, size-1, n), recv, "reduce "+op.String(), n)
		} else {
			equal(t, make([]T, n), recv, "recv of reduce elsewhere", n)
		}
		require.NoError(t, mpicomm.Scan(ctx, c, mine, recv, op))
		equal(t, k.combined(f, rank, n), recv, "scan "+op.String(), n)
		require.NoError(t, mpicomm.Exscan(ctx, c, mine, recv, op))
		if rank > 0 {
			equal(t, k.combined(f, rank-1, n), recv, "exscan "+op.String(), n)
		}
	}
	equal(t, k.of(rank, n), mine, "what was sent", n)
}

func (k *kindOfData[T]) moves(t *testing.T, n int) {
	ctx, c, rank, size := mpitest.Context(t), k.comm, k.comm.Rank(), k.comm.Size()
	mine, root := k.of(rank, n), (n+1)%size

	recv := make([]T, n*size)
	require.NoError(t, mpicomm.Allgather(ctx, c, mine, recv))
	equal(t, k.all(n), recv, "allgather", n)

	clear(recv)
	require.NoError(t, mpicomm.Gather(ctx, c, mine, recv, root))
	if rank == root {
		equal(t, k.all(n), recv, "gather", n)
	}
	part := make([]T, n)
	require.NoError(t, mpicomm.Scatter(ctx, c, k.all(n), part, root))
	equal(t, mine, part, "scatter", n)

	// What rank i sends to rank j are the elements of rank i+j.
	var send, want []T
	for other := range size {
		send = append(send, k.of(rank+other, n)...)
	}
	clear(recv)
	require.NoError(t, mpicomm.Alltoall(ctx, c, send, recv))
	equal(t, send, recv, "alltoall", n)

	// Rank i has n+i elements for all; gaps of two lie between the blocks.
	counts, displs, whole := make([]int, size), make([]int, size), 0
	for i := range size {
		counts[i], displs[i] = n+i, whole
		want = append(append(want, k.of(i, n+i)...), make([]T, 2)...)
		whole += n + i + 2
	}
	mine = k.of(rank, n+rank)
	recv = make([]T, whole)
	require.NoError(t, mpicomm.Allgatherv(ctx, c, mine, recv, counts, displs))
	equal(t, want, recv, "allgatherv", n)
	clear(recv)
	require.NoError(t, mpicomm.Gatherv(ctx, c, mine, recv, counts, displs, root))
	if rank == root {
		equal(t, want, recv, "gatherv", n)
	}
	part = make([]T, n+rank)
	require.NoError(t, mpicomm.Scatterv(ctx, c, want, counts, displs, part, root))
	equal(t, mine, part, "scatterv", n)

	// Rank i sends n+j elements of rank i+j to rank j, end to end.
	send, want, recv = nil, nil, make([]T, (n+rank)*size)
	got := make([]int, size)
	for other := range size {
		send = append(send, k.of(rank+other, n+other)...)
		want = append(want, k.of(rank+other, n+rank)...)
		got[other] = n + rank
	}
	require.NoError(t, mpicomm.Alltoallv(ctx, c, send, counts, nil, recv, got, nil))
	equal(t, want, recv, "alltoallv", n)
}

// small are numbers whose sums and products every type can hold.
func small(rank, i int) int { return (rank*7+i*3)%3 + 1 }

func numbersOf[T mem.Element](c *mpicomm.Comm) *kindOfData[T] {
	return &kindOfData[T]{c, func(rank, i int) T { return numberFrom[T](small(rank, i)) }, map[mpicomm.ReduceOp]func(a, b T) T{
		mpicomm.Sum:  func(a, b T) T { return a + b },
		mpicomm.Prod: func(a, b T) T { return a * b },
	}}
}

// numberFrom converts a small int to any numeric type, complex ones too.
func numberFrom[T mem.Element](n int) (value T) {
	for range n {
		value++
	}
	return value
}

func orderedOf[T interface {
	mem.Element
	cmp.Ordered
}](c *mpicomm.Comm) *kindOfData[T] {
	k := numbersOf[T](c)
	k.ops[mpicomm.Max] = func(a, b T) T { return max(a, b) }
	k.ops[mpicomm.Min] = func(a, b T) T { return min(a, b) }
	return k
}

func integersOf[T interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~int | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uint
}](c *mpicomm.Comm) *kindOfData[T] {
	k := orderedOf[T](c)
	truth := func(b bool) T {
		if b {
			return 1
		}
		return 0
	}
	// Some are 0, so that the logical operations have something to tell.
	k.element = func(rank, i int) T { return T((rank*7 + i*3) % 4) }
	k.ops[mpicomm.Land] = func(a, b T) T { return truth(a != 0 && b != 0) }
	k.ops[mpicomm.Lor] = func(a, b T) T { return truth(a != 0 || b != 0) }
	k.ops[mpicomm.Lxor] = func(a, b T) T { return truth((a != 0) != (b != 0)) }
	k.ops[mpicomm.Band] = func(a, b T) T { return a & b }
	k.ops[mpicomm.Bor] = func(a, b T) T { return a | b }
	k.ops[mpicomm.Bxor] = func(a, b T) T { return a ^ b }
	if c.Size() == 1 { // nothing is combined then
		delete(k.ops, mpicomm.Land)
		delete(k.ops, mpicomm.Lor)
		delete(k.ops, mpicomm.Lxor)
	}
	return k
}

// locatedOf is for a type of Loc, of which is made of a value and an index.
func locatedOf[L mpicomm.Reducible](c *mpicomm.Comm, of func(value, index int) L, value func(L) (float64, int32)) *kindOfData[L] {
	pick := func(sign float64) func(a, b L) L {
		return func(a, b L) L {
			va, ia := value(a)
			vb, ib := value(b)
			if sign*vb > sign*va || va == vb && ib < ia {
				return b
			}
			return a
		}
	}
	return &kindOfData[L]{c, func(rank, i int) L { return of(small(rank, i), rank) }, map[mpicomm.ReduceOp]func(a, b L) L{
		mpicomm.MaxLoc: pick(1), mpicomm.MinLoc: pick(-1),
	}}
}

type celsius float32 // a type of the user's

// TestCollectives is every collective with every type and several lengths.
func TestCollectives(t *testing.T) {
	c := mpitest.Comm(t)
	for _, k := range []interface{ test(t *testing.T) }{
		integersOf[int8](c), integersOf[int16](c), integersOf[int32](c), integersOf[int64](c), integersOf[int](c),
		integersOf[uint8](c), integersOf[uint16](c), integersOf[uint32](c), integersOf[uint64](c), integersOf[uint](c),
		orderedOf[float32](c), orderedOf[float64](c), numbersOf[complex64](c), numbersOf[complex128](c), orderedOf[celsius](c),
		locatedOf(c, func(v, i int) mpicomm.Loc[int32] { return mpicomm.Loc[int32]{Value: int32(v), Index: int32(i)} },
			func(l mpicomm.Loc[int32]) (float64, int32) { return float64(l.Value), l.Index }),
		locatedOf(c, func(v, i int) mpicomm.Loc[int64] { return mpicomm.Loc[int64]{Value: int64(v), Index: int32(i)} },
			func(l mpicomm.Loc[int64]) (float64, int32) { return float64(l.Value), l.Index }),
		locatedOf(c, func(v, i int) mpicomm.Loc[float32] { return mpicomm.Loc[float32]{Value: float32(v), Index: int32(i)} },
			func(l mpicomm.Loc[float32]) (float64, int32) { return float64(l.Value), l.Index }),
		locatedOf(c, func(v, i int) mpicomm.Loc[float64] { return mpicomm.Loc[float64]{Value: float64(v), Index: int32(i)} },
			func(l mpicomm.Loc[float64]) (float64, int32) { return l.Value, l.Index }),
	} {
		k.test(t)
	}
}

// TestBcast broadcasts every kind of data, with canaries behind the buffers, from
// every root. (A well-known binding moves four times as many bytes.)
func TestBcast(t *testing.T) {
	c := mpitest.Comm(t)
	ctx := mpitest.Context(t)
	for root := range c.Size() {
		for _, n := range []int{0, 1, 3, 255, 4096, 4097, 100_001} {
			g := newGuarded(n)
			if c.Rank() == root {
				copy(g.buf, pattern(n, n+root))
			}
			require.NoError(t, mpicomm.Bcast(ctx, c, g.buf, root))
			requirePattern(t, g.buf, n+root)
			g.requireIntact(t, n)
		}
		floats := make([]float64, 100)
		if c.Rank() == root {
			for i := range floats {
				floats[i] = float64(i) / 3
			}
		}
		require.NoError(t, mpicomm.Bcast(ctx, c, floats[10:90], root))
		require.Equal(t, float64(50)/3, floats[50])
		block, err := mem.Alloc(1000)
		require.NoError(t, err)
		if c.Rank() == root {
			copy(block.Bytes(), pattern(1000, root))
		}
		require.NoError(t, mpicomm.Bcast(ctx, c, block.Buffer(), root))
		requirePattern(t, block.Bytes(), root)
		require.NoError(t, block.Free())
	}
}

// TestBarrier shows that nobody leaves before everybody has come.
func TestBarrier(t *testing.T) {
	c := mpitest.Comm(t)
	ctx := mpitest.Context(t)
	var late time.Time
	times := make([]int64, c.Size())
	for straggler := range c.Size() {
		if c.Rank() == straggler {
			time.Sleep(30 * time.Millisecond)
			late = time.Now()
		}
		require.NoError(t, c.Barrier(ctx))
		left := time.Now()
		times[0] = late.UnixNano()
		require.NoError(t, mpicomm.Bcast(ctx, c, times[:1], straggler))
		require.GreaterOrEqual(t, left.UnixNano(), times[0]-int64(time.Millisecond))
	}
	r, err := c.Ibarrier()
	require.NoError(t, err)
	wait(t, r)
}

// TestInPlace gives each collective one buffer for both.
func TestInPlace(t *testing.T) {
	c := mpitest.Comm(t)
	ctx, rank, size := mpitest.Context(t), c.Rank(), c.Size()
	k := integersOf[int64](c)
	sum := k.ops[mpicomm.Sum]
	for _, n := range []int{0, 1, 1000} {
		s := k.of(rank, n)
		require.NoError(t, mpicomm.Allreduce(ctx, c, s, s, mpicomm.Sum))
		equal(t, k.combined(sum, size-1, n), s, "allreduce in place", n)
		s = k.of(rank, n)
		require.NoError(t, mpicomm.Reduce(ctx, c, s, s, mpicomm.Sum, size-1))
		if rank == size-1 {
			equal(t, k.combined(sum, size-1, n), s, "reduce in place", n)
		}
		s = k.of(rank, n)
		require.NoError(t, mpicomm.Scan(ctx, c, s, s, mpicomm.Sum))
		equal(t, k.combined(sum, rank, n), s, "scan in place", n)
		s = k.of(rank, n)
		require.NoError(t, mpicomm.Exscan(ctx, c, s, s, mpicomm.Sum))
		if rank > 0 {
			equal(t, k.combined(sum, rank-1, n), s, "exscan in place", n)
		}
		whole := make([]int64, n*size)
		part := whole[rank*n : (rank+1)*n]
		copy(part, k.of(rank, n))
		require.NoError(t, mpicomm.Allgather(ctx, c, part, whole))
		equal(t, k.all(n), whole, "allgather in place", n)
		if rank != 0 {
			clear(whole)
			copy(part, k.of(rank, n))
		}
		require.NoError(t, mpicomm.Gather(ctx, c, part, whole, 0))
		if rank == 0 {
			equal(t, k.all(n), whole, "gather in place", n)
		}
		require.NoError(t, mpicomm.Scatter(ctx, c, whole, part, 0))
		equal(t, k.of(rank, n), part, "scatter in place", n)

		for other := range size {
			copy(whole[other*n:], k.of(rank+other, n))
		}
		want := append([]int64(nil), whole...)
		require.NoError(t, mpicomm.Alltoall(ctx, c, whole, whole))
		equal(t, want, whole, "alltoall in place", n)
		counts := make([]int, size)
		for i := range counts {
			counts[i] = n
		}
		require.NoError(t, mpicomm.Alltoallv(ctx, c, whole, counts, nil, whole, counts, nil))
		equal(t, want, whole, "alltoallv in place", n)
		copy(whole, make([]int64, n*size))
		copy(part, k.of(rank, n))
		require.NoError(t, mpicomm.Allgatherv(ctx, c, part, whole, counts, nil))
		equal(t, k.all(n), whole, "allgatherv in place", n)
		require.NoError(t, mpicomm.Gatherv(ctx, c, part, whole, counts, nil, 0))
		require.NoError(t, mpicomm.Scatterv(ctx, c, whole, counts, nil, part, 0))
		equal(t, k.of(rank, n), part, "scatterv in place", n)
	}
}

// TestCollectiveRequests starts all of them before it waits for any.
func TestCollectiveRequests(t *testing.T) {
	c := mpitest.Comm(t)
	rank, size := c.Rank(), c.Size()
	k := integersOf[int32](c)
	const n = 1000
	sum := k.ops[mpicomm.Sum]
	mine, whole, counts := k.of(rank, n), k.all(n), make([]int, size)
	for i := range counts {
		counts[i] = n
	}
	var requests []*mpicomm.Request
	started := func(r *mpicomm.Request, err error) {
		t.Helper()
		require.NoError(t, err)
		requests = append(requests, r)
	}
	recv := make([][]int32, 14)
	for i := range recv {
		recv[i] = make([]int32, n*size)
	}
	copy(recv[0], k.of(0, n))
	started(c.Ibarrier())
	started(mpicomm.Ibcast(c, recv[0], 0))
	started(mpicomm.Ireduce(c, mine, recv[1][:n], mpicomm.Sum, 0))
	started(mpicomm.Iallreduce(c, mine, recv[2][:n], mpicomm.Sum))
	started(mpicomm.Iscan(c, mine, recv[3][:n], mpicomm.Sum))
	started(mpicomm.Iexscan(c, mine, recv[4][:n], mpicomm.Sum))
	started(mpicomm.Igather(c, mine, recv[5], 0))
	started(mpicomm.Igatherv(c, mine, recv[6], counts, nil, 0))
	started(mpicomm.Iallgather(c, mine, recv[7]))
	started(mpicomm.Iallgatherv(c, mine, recv[8], counts, nil))
	started(mpicomm.Iscatter(c, whole, recv[9][:n], 0))
	started(mpicomm.Iscatterv(c, whole, counts, nil, recv[10][:n], 0))
	started(mpicomm.Ialltoall(c, whole, recv[11]))
	started(mpicomm.Ialltoallv(c, whole, counts, nil, recv[12], counts, nil))
	clear(counts) // they were copied
	rand.Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
	require.NoError(t, mpicomm.Waitall(mpitest.Context(t), requests...))
	equal(t, k.of(0, n), recv[0][:n], "ibcast", n)
	equal(t, k.combined(sum, size-1, n), recv[2][:n], "iallreduce", n)
	equal(t, k.combined(sum, rank, n), recv[3][:n], "iscan", n)
	if rank > 0 {
		equal(t, k.combined(sum, rank-1, n), recv[4][:n], "iexscan", n)
	}
	if rank == 0 {
		equal(t, k.combined(sum, size-1, n), recv[1][:n], "ireduce", n)
		equal(t, whole, recv[5], "igather", n)
		equal(t, whole, recv[6], "igatherv", n)
	}
	equal(t, whole, recv[7], "iallgather", n)
	equal(t, whole, recv[8], "iallgatherv", n)
	equal(t, mine, recv[9][:n], "iscatter", n)
	equal(t, mine, recv[10][:n], "iscatterv", n)
	var want []int32
	for range size {
		want = append(want, mine...)
	}
	equal(t, want, recv[11], "ialltoall", n)
	equal(t, want, recv[12], "ialltoallv", n)
}

// TestPieces divides operations as those of more than 2^30 elements are.
func TestPieces(t *testing.T) {
	c := mpitest.Comm(t)
	defer mpicomm.SetPiece(7)()
	k := numbersOf[float64](c)
	const n = 40
	recv := make([]float64, n)
	require.NoError(t, mpicomm.Allreduce(mpitest.Context(t), c, k.of(c.Rank(), n), recv, mpicomm.Sum))
	equal(t, k.combined(k.ops[mpicomm.Sum], c.Size()-1, n), recv, "allreduce", n)
	clear(recv)
	r, err := mpicomm.Ireduce(c, k.of(c.Rank(), n), recv, mpicomm.Prod, 0)
	require.NoError(t, err)
	wait(t, r)
	if c.Rank() == 0 {
		equal(t, k.combined(k.ops[mpicomm.Prod], c.Size()-1, n), recv, "ireduce", n)
	}
	require.NoError(t, mpicomm.Exscan(mpitest.Context(t), c, recv, recv, mpicomm.Sum))
	buf := make([]byte, n)
	if c.Rank() == 0 {
		copy(buf, pattern(n, 5))
	}
	require.NoError(t, mpicomm.Bcast(mpitest.Context(t), c, buf, 0))
	requirePattern(t, buf, 5)
}

// TestTwoCommunicators runs collectives on two communicators from two goroutines,
// in opposite orders on the ranks.
func TestTwoCommunicators(t *testing.T) {
	c := mpitest.Comm(t)
	ctx := mpitest.Context(t)
	other, err := c.Dup(ctx)
	require.NoError(t, err)
	done := make(chan error, 2)
	loop := func(c *mpicomm.Comm, add int64) {
		for i := range int64(200) {
			recv := make([]int64, 3)
			if err := mpicomm.Allreduce(ctx, c, []int64{i, add, 1}, recv, mpicomm.Sum); err != nil {
				done <- err
				return
			}
			if size := int64(c.Size()); recv[0] != i*size || recv[1] != add*size || recv[2] != size {
				done <- fmt.Errorf("round %d: %v", i, recv)
				return
			}
		}
		done <- nil
	}
	if c.Rank()%2 == 0 {
		go loop(c, 10)
		go loop(other, 20)
	} else {
		go loop(other, 20)
		go loop(c, 10)
	}
	require.NoError(t, <-done)
	require.NoError(t, <-done)
}

// TestCollectiveSuspends shows that other goroutines have their messages while
// one waits for a collective that a rank is late for.
func TestCollectiveSuspends(t *testing.T) {
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	peer := 1 - c.Rank()
	sum := make([]int64, 1)
	if c.Rank() == 0 {
		done := make(chan error, 1)
		go func() { done <- mpicomm.Allreduce(ctx, c, []int64{1}, sum, mpicomm.Sum) }()
		for i := range 50 {
			send(t, c, pattern(300, i), peer, 1)
		}
		require.NoError(t, <-done)
	} else {
		for i := range 50 {
			buf := make([]byte, 300)
			require.Equal(t, 300, recv(t, c, buf, peer, 1).Count)
			requirePattern(t, buf, i)
		}
		require.NoError(t, mpicomm.Allreduce(ctx, c, []int64{1}, sum, mpicomm.Sum))
	}
	require.Equal(t, int64(2), sum[0])
}

// TestCancelledCollective shows that a collective whose context ends goes on and
// keeps its buffers until the others have come.
func TestCancelledCollective(t *testing.T) {
	c := mpitest.Pair(t)
	sum := make([]int64, 1000)
	mine := make([]int64, 1000)
	mine[999] = 5
	if c.Rank() == 0 {
		ctx, cancel := context.WithTimeout(mpitest.Context(t), 100*time.Millisecond)
		defer cancel()
		err := mpicomm.Allreduce(ctx, c, mine, sum, mpicomm.Sum)
		var flight *mpicomm.InFlightError
		require.ErrorAs(t, err, &flight)
		require.ErrorIs(t, err, errTimeout)
		require.ErrorContains(t, err, "iallreduce")
		require.ErrorIs(t, flight.Request.Cancel(), errors.ErrUnsupported)
		signal(t, c, 1, 1)
		wait(t, flight.Request)
	} else {
		await(t, c, 0, 1)
		require.NoError(t, mpicomm.Allreduce(mpitest.Context(t), c, mine, sum, mpicomm.Sum))
	}
	require.Equal(t, int64(10), sum[999])
}

// TestWrongCollectives shows that mistakes are found on the rank that makes them,
// before MPI sees them.
func TestWrongCollectives(t *testing.T) {
	c := mpitest.Comm(t)
	ctx, size := mpitest.Context(t), c.Size()
	me := c.Rank()
	ints, floats := make([]int32, 4*size), make([]float64, 4*size)
	counts := make([]int, size)
	tooMany := make([]int, size)
	tooMany[size-1] = 100
	negative := make([]int, size)
	negative[0] = -1
	for _, wrong := range []struct {
		err   error
		class error
		text  string
	}{
		{mpicomm.Bcast(ctx, c, ints, size), mpicomm.ErrRoot, fmt.Sprintf("ranks 0 to %d", size-1)},
		{mpicomm.Bcast(ctx, c, ints, -1), mpicomm.ErrRoot, "root -1"},
		{mpicomm.Reduce(ctx, c, ints, ints, mpicomm.Sum, 100), mpicomm.ErrRoot, "root 100"},
		{mpicomm.Reduce(ctx, c, ints, ints[1:], mpicomm.Sum, me), mpicomm.ErrCount, "recv has"},
		{mpicomm.Allreduce(ctx, c, ints, ints[:3], mpicomm.Sum), mpicomm.ErrCount, "recv has 3 elements"},
		{mpicomm.Allreduce(ctx, c, ints[:2], ints[1:3], mpicomm.Sum), mpicomm.ErrBuffer, "overlap"},
		{mpicomm.Scan(ctx, c, floats, floats, mpicomm.Band), mpicomm.ErrOp, "Band is not defined for float64"},
		{mpicomm.Exscan(ctx, c, floats, floats, mpicomm.Land), mpicomm.ErrOp, "Land"},
		{mpicomm.Allreduce(ctx, c, ints, ints, mpicomm.MaxLoc), mpicomm.ErrOp, "MaxLoc is not defined for int32"},
		{mpicomm.Allreduce(ctx, c, make([]complex64, 1), make([]complex64, 1), mpicomm.Max), mpicomm.ErrOp, "Max is not defined for complex64"},
		{mpicomm.Allreduce(ctx, c, make([]mpicomm.Loc[int32], 1), make([]mpicomm.Loc[int32], 1), mpicomm.Sum), mpicomm.ErrOp, "Sum is not defined"},
		{mpicomm.Allreduce(ctx, c, ints, ints, mpicomm.ReduceOp(77)), mpicomm.ErrOp, "ReduceOp(77)"},
		{mpicomm.Gather(ctx, c, ints, ints[:1], me), mpicomm.ErrCount, "want"},
		{mpicomm.Allgather(ctx, c, ints, ints[:1]), mpicomm.ErrCount, "want"},
		{mpicomm.Scatter(ctx, c, ints[:1], ints, me), mpicomm.ErrCount, "send has 1 elements"},
		{mpicomm.Gatherv(ctx, c, ints[:0], ints, counts[:size-1], nil, me), mpicomm.ErrCount, "want one for each"},
		{mpicomm.Gatherv(ctx, c, ints[:0], ints, tooMany, nil, me), mpicomm.ErrCount, fmt.Sprintf("the block of rank %d is 100 elements", size-1)},
		{mpicomm.Allgatherv(ctx, c, ints[:0], ints, negative, nil), mpicomm.ErrCount, "the block of rank 0 is -1"},
		{mpicomm.Allgatherv(ctx, c, ints[:3], make([]int32, 9), counts, nil), mpicomm.ErrCount, "send has 3 elements; want 0"},
		{mpicomm.Scatterv(ctx, c, ints, counts, make([]int, size+1), nil, me), mpicomm.ErrCount, "displacements"},
		{mpicomm.Alltoallv(ctx, c, ints, counts, nil, ints, tooMany, nil), mpicomm.ErrCount, "block"},
		{c.Free(ctx), nil, ""},
		{c.Barrier(ctx), mpicomm.ErrComm, "freed"},
		{(*mpicomm.Comm)(nil).Barrier(ctx), mpicomm.ErrComm, "nil"},
		{mpicomm.Allgather(ctx, nil, ints, ints), mpicomm.ErrComm, "nil"},
		{mpicomm.Gatherv(ctx, nil, ints, ints, nil, nil, 0), mpicomm.ErrComm, "nil"},
		{mpicomm.Scatterv(ctx, nil, ints, nil, nil, ints, 0), mpicomm.ErrComm, "nil"},
		{mpicomm.Scatter(ctx, nil, ints, ints, 0), mpicomm.ErrComm, "nil"},
		{mpicomm.Alltoall(ctx, nil, ints, ints), mpicomm.ErrComm, "nil"},
		{mpicomm.Alltoallv(ctx, nil, ints, nil, nil, ints, nil, nil), mpicomm.ErrComm, "nil"},
		{mpicomm.Reduce(ctx, nil, ints, ints, mpicomm.Sum, 0), mpicomm.ErrComm, "nil"},
		{mpicomm.Bcast(ctx, nil, ints, 0), mpicomm.ErrComm, "nil"},
	} {
		if wrong.class == nil {
			require.NoError(t, wrong.err)
			continue
		}
		require.ErrorIs(t, wrong.err, wrong.class)
		require.ErrorContains(t, wrong.err, wrong.text)
	}
}

// TestLargeCollectives moves more than 2^31-1 elements.
func TestLargeCollectives(t *testing.T) {
	needLarge(t)
	c := mpitest.Pair(t)
	ctx, rank := context.Background(), c.Rank()
	const n = 1<<31 + 8
	send, recv := make([]byte, n), make([]byte, 2*n)
	mark(send, rank)
	require.NoError(t, mpicomm.Gather(ctx, c, send, recv, 0))
	if rank == 0 {
		requireMarks(t, recv[:n], 0)
		requireMarks(t, recv[n:], 1)
	}
	clear(send)
	require.NoError(t, mpicomm.Scatter(ctx, c, recv, send, 0))
	requireMarks(t, send, rank)
	require.NoError(t, mpicomm.Bcast(ctx, c, recv[:n], 0))
	requireMarks(t, recv[:n], 0)
	require.NoError(t, mpicomm.Allgather(ctx, c, send, recv))
	requireMarks(t, recv[:n], 0)
	requireMarks(t, recv[n:], 1)
	send = make([]byte, 2*n)
	mark(send[:n], 10*rank)
	mark(send[n:], 10*rank+1)
	debug.FreeOSMemory()
	require.NoError(t, mpicomm.Alltoall(ctx, c, send, recv))
	requireMarks(t, recv[:n], rank)
	requireMarks(t, recv[n:], 10+rank)
	send = send[:n]
	clear(send)
	send[n-1] = byte(rank + 1)
	require.NoError(t, mpicomm.Allreduce(ctx, c, send, recv[:n], mpicomm.Sum))
	require.Equal(t, byte(3), recv[n-1])
	mark(send, rank)
	counts := []int{n, 100}
	err := mpicomm.Gatherv(ctx, c, send[:counts[rank]], recv, counts, nil, 0)
	if info, _ := mpicomm.Info(); info.Standard < "4" {
		if rank == 0 {
			require.ErrorIs(t, err, mpicomm.ErrCount)
			require.ErrorContains(t, err, "MPI_Igatherv_c")
		}
		return
	}
	require.NoError(t, err)
	if rank == 0 {
		requireMarks(t, recv[:n], 0)
	}
}
