package device_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/gpu"
	"github.com/mpi4go/mpi4go/internal/cudasim"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/stretchr/testify/require"
)

// Messages of device memory obey the rules of all messages: docs/buffers.md.

const medium = 300000

func deviceMemory(t testing.TB, n int) *memory {
	m := newMemory(t, mem.Device, n)
	t.Cleanup(func() { m.free(t) })
	return m
}

func wait(t testing.TB, r *mpicomm.Request, err error) mpicomm.Status {
	t.Helper()
	require.NoError(t, err)
	status, err := r.Wait(mpitest.Context(t))
	require.NoError(t, err)
	return status
}

func delay(t testing.TB, us int) { cudasim.Configure(t, "CUDASIM_DELAY", fmt.Sprint(us)) }

// TestOrder sends what a kernel that is still running will have written, and receives into
// memory that one still reads; nothing is synchronised.
func TestOrder(t *testing.T) {
	cudasim.Needed(t)
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	peer := 1 - c.Rank()
	other, err := dev.NewStream()
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Destroy()) }()
	legacy, err := dev.StreamFromHandle(0)
	require.NoError(t, err)
	defer func() { require.NoError(t, legacy.Destroy()) }()
	event, err := dev.NewEvent()
	require.NoError(t, err)
	defer func() { require.NoError(t, event.Destroy()) }()
	delay(t, 20000)
	shortest := time.Hour
	for _, n := range []int{100, medium} {
		for _, test := range map[string]struct {
			fills *gpu.Stream
			buf   func(b *gpu.Buffer) mem.Buffer
		}{
			"every stream of ours": {other, (*gpu.Buffer).Mem},
			"the default stream":   {legacy, (*gpu.Buffer).Mem},
			"a stream":             {other, func(b *gpu.Buffer) mem.Buffer { return b.On(other) }},
			"an event":             {other, func(b *gpu.Buffer) mem.Buffer { return b.After(event) }},
		} {
			a, b := deviceMemory(t, n), deviceMemory(t, n)
			require.NoError(t, test.fills.MemsetD8Async(b.device, 1)) // must not overwrite what comes
			a.fill(t, test.fills, n+c.Rank())
			require.NoError(t, event.Record(test.fills))
			began := time.Now()
			send, err := c.Isend(test.buf(a.device), peer, 1)
			require.NoError(t, err)
			shortest = min(shortest, time.Since(began))
			status, err := coro.Recv(ctx, c, test.buf(b.device), peer, 1)
			require.NoError(t, err)
			require.Equal(t, n, status.Count)
			wait(t, send, nil)
			// Whoever used a stream goes on with it; others need nothing more.
			b.requirePattern(t, ctx, test.fills, n+peer, n)
		}
	}
	require.Less(t, shortest, 15*time.Millisecond, "Isend waits for the device")
}

// TestStreamAfterReceive queues work on the stream right after a receive, which may have
// returned before the last copy to the device is done.
func TestStreamAfterReceive(t *testing.T) {
	cudasim.Needed(t)
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	a, b, d := deviceMemory(t, medium), deviceMemory(t, medium), deviceMemory(t, medium)
	a.fill(t, stream, 3)
	require.NoError(t, stream.Synchronize(ctx))
	delay(t, 30000)
	peer := 1 - c.Rank()
	for range 3 {
		_, err := coro.Sendrecv(ctx, c, a.device.On(stream), peer, 1, b.device.On(stream), peer, 1)
		require.NoError(t, err)
		require.NoError(t, stream.MemcpyAsync(d.device, b.device))
		require.NoError(t, stream.MemsetD8Async(b.device, 0))
		d.requirePattern(t, ctx, stream, 3, medium)
	}
}

// TestNoOvertaking shows that nothing overtakes a send that waits for its stream, of
// device or host memory, short or long.
func TestNoOvertaking(t *testing.T) {
	cudasim.Needed(t)
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	const n = 40
	lengths := []int{4096, 10, 70000, 200, 0}
	if c.Rank() == 0 {
		delay(t, 3000)
		shortest := time.Hour
		var sends []*mpicomm.Request
		for i := range n {
			length := lengths[i%len(lengths)]
			if i%3 == 0 {
				m := deviceMemory(t, length)
				m.fill(t, stream, i)
				r, err := c.Isend(m.mem(), 1, i%2)
				require.NoError(t, err)
				sends = append(sends, r)
				continue
			}
			m := newMemory(t, mem.Host, length)
			m.fill(t, nil, i)
			if i%3 == 1 {
				r, err := c.Isend(m.mem(), 1, i%2)
				require.NoError(t, err)
				sends = append(sends, r)
				continue
			}
			if length <= 256 {
				began := time.Now()
				require.NoError(t, coro.Send(ctx, c, m.host, 1, i%2))
				shortest = min(shortest, time.Since(began))
				clear(m.host)
				continue
			}
			require.NoError(t, coro.Send(ctx, c, m.host, 1, i%2))
		}
		require.Less(t, shortest, 2*time.Millisecond, "a short send waits")
		require.NoError(t, mpicomm.Waitall(ctx, sends...))
		return
	}
	for i := range n {
		got, status, err := coro.RecvAlloc[byte](ctx, c, 0, mpicomm.AnyTag)
		require.NoError(t, err)
		require.Equal(t, i%2, status.Tag, "message %d", i)
		require.Len(t, got, lengths[i%len(lengths)], "message %d", i)
		(&memory{host: got}).requirePattern(t, ctx, nil, i, len(got))
	}
}

// TestReceives receives into device memory by every call that does, too short buffers
// and longer ones among them.
func TestReceives(t *testing.T) {
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	peer := 1 - c.Rank()
	for _, n := range []int{1, 256, 4096, medium} {
		a := deviceMemory(t, n)
		a.fill(t, stream, n)
		for name, receive := range map[string]func(b mem.Buffer) (mpicomm.Status, error){
			"Irecv": func(b mem.Buffer) (mpicomm.Status, error) {
				r, err := c.Irecv(b, mpicomm.AnySource, mpicomm.AnyTag)
				require.NoError(t, err)
				<-r.Done()
				status, done, err := r.Test()
				require.True(t, done)
				return status, err
			},
			"Recv": func(b mem.Buffer) (mpicomm.Status, error) { return coro.Recv(ctx, c, b, peer, 1) },
			"Imrecv": func(b mem.Buffer) (mpicomm.Status, error) {
				m, err := c.Mprobe(ctx, peer, 1)
				require.NoError(t, err)
				r, err := m.Imrecv(b)
				require.NoError(t, err)
				_, err = m.Imrecv(b)
				require.ErrorIs(t, err, mpicomm.ErrRequest)
				return r.Wait(ctx)
			},
			"RecvAlloc": func(b mem.Buffer) (mpicomm.Status, error) {
				return mpicomm.RecvAlloc(ctx, c, peer, 1, func(s mpicomm.Status) (mem.Buffer, error) {
					require.Equal(t, n, s.Count)
					return b, nil
				})
			},
			"Post": func(b mem.Buffer) (mpicomm.Status, error) {
				r, err := mpicomm.Post(c.RecvOp(b, peer, 1), c.SendOp(mem.Of([]byte{5}), mpicomm.ProcNull, 0))
				require.NoError(t, err)
				status, err := r.Wait(ctx)
				require.Len(t, r.Statuses(), 2)
				require.Equal(t, status, r.Statuses()[0])
				return status, err
			},
		} {
			for _, space := range []int{0, 100} {
				name := fmt.Sprintf("%s, %d bytes into %d", name, n, n+space)
				b := newMemory(t, mem.Device, n+space)
				require.NoError(t, stream.MemsetD8Async(b.device, 0x5a))
				send, err := c.Isend(a.mem(), peer, 1)
				require.NoError(t, err)
				status, err := receive(b.mem())
				require.NoError(t, err, name)
				require.Equal(t, mpicomm.Status{Source: peer, Tag: 1, Count: n}, status, name)
				wait(t, send, nil)
				b.requirePattern(t, ctx, stream, n, n)
				requireBytes(t, b.device, n, 0x5a)
				b.free(t)
			}
			if name == "RecvAlloc" {
				continue // it does not accept too short a buffer
			}
			whole := newMemory(t, mem.Device, n+4096)
			require.NoError(t, stream.MemsetD8Async(whole.device, 0x5a))
			short, err := whole.device.Slice(0, n-1)
			require.NoError(t, err)
			send, err := c.Isend(a.mem(), peer, 1)
			require.NoError(t, err)
			_, err = receive(short.Mem())
			require.ErrorIs(t, err, mpicomm.ErrTruncate, "%s, %d bytes", name, n)
			require.ErrorContains(t, err, fmt.Sprintf("into a buffer of %d", n-1))
			wait(t, send, nil)
			requireBytes(t, whole.device, n-1, 0x5a)
			whole.free(t)
		}
	}
}

// requireBytes checks that a buffer has one value from an offset on.
func requireBytes(t testing.TB, b *gpu.Buffer, from int, value byte) {
	t.Helper()
	got := make([]byte, b.Len())
	require.NoError(t, gpu.Memcpy(mpitest.Context(t), stream, got, b))
	for i, x := range got[from:] {
		if x != value {
			require.Equal(t, value, x, "byte %d of %d was written", from+i, b.Len())
		}
	}
}

// TestCancelledReceive cancels receives that nothing has matched; the next one gets the
// message.
func TestCancelledReceive(t *testing.T) {
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	a, b := deviceMemory(t, medium), deviceMemory(t, medium)
	if c.Rank() == 0 {
		_, err := coro.Recv(ctx, c, []byte{}, 1, 9)
		require.NoError(t, err)
		a.fill(t, stream, 1)
		require.NoError(t, coro.Send(ctx, c, a.mem(), 1, 1))
		return
	}
	require.NoError(t, stream.MemsetD8Async(b.device, 0x33))
	soon, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	_, err := coro.Recv(soon, c, b.mem(), 0, 1)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	r, err := c.Irecv(b.mem(), 0, 1)
	require.NoError(t, err)
	require.NoError(t, r.Cancel())
	_, err = r.Wait(ctx)
	require.ErrorIs(t, err, context.Canceled)
	set, err := mpicomm.Post(c.RecvOp(b.mem(), 0, 1), c.RecvOp(mem.Of(make([]byte, 5)), 0, 1))
	require.NoError(t, err)
	require.NoError(t, set.Cancel())
	_, err = set.Wait(ctx)
	require.ErrorIs(t, err, context.Canceled)
	requireBytes(t, b.device, 0, 0x33)
	require.NoError(t, coro.Send(ctx, c, []byte{}, 0, 9))
	_, err = coro.Recv(ctx, c, b.mem(), 0, 1)
	require.NoError(t, err)
	b.requirePattern(t, ctx, stream, 1, medium)
}

// TestSendInFlight ends the context of a send whose bytes the device has not written yet.
func TestSendInFlight(t *testing.T) {
	cudasim.Needed(t)
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	a := deviceMemory(t, medium)
	if c.Rank() == 0 {
		delay(t, 300_000)
		a.fill(t, stream, 1)
		soon, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		err := coro.Send(soon, c, a.mem(), 1, 1)
		var flight *mpicomm.InFlightError
		require.ErrorAs(t, err, &flight)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, flight.Request.Cancel(), errors.ErrUnsupported)
		wait(t, flight.Request, nil)
		return
	}
	_, err := coro.Recv(ctx, c, a.mem(), 0, 1)
	require.NoError(t, err)
	a.requirePattern(t, ctx, stream, 1, medium)
}

// TestBcast broadcasts from and to device memory; what is called after it comes after
// it.
func TestBcast(t *testing.T) {
	cudasim.Needed(t)
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	delay(t, 2000)
	for root := range 2 {
		for _, n := range []int{0, 1, 4096, medium} {
			a, b := deviceMemory(t, n), deviceMemory(t, n)
			if c.Rank() == root {
				a.fill(t, stream, n)
				b.fill(t, stream, n+1)
			}
			first, err := mpicomm.Ibcast(c, a.mem(), root)
			require.NoError(t, err)
			second, err := mpicomm.Ibcast(c, b.mem(), root)
			require.NoError(t, err)
			numbers := []int32{int32(c.Rank() + 1)}
			sum, err := mpicomm.Iallreduce(c, numbers, numbers, mpicomm.Sum)
			require.NoError(t, err)
			host := []byte{byte(7 * (1 - min(1, c.Rank()^root)))}
			require.NoError(t, mpicomm.Bcast(ctx, c, host, root))
			require.NoError(t, mpicomm.Waitall(ctx, first, second, sum))
			require.Equal(t, []int32{3}, numbers)
			require.Equal(t, []byte{7}, host)
			a.requirePattern(t, ctx, stream, n, n)
			b.requirePattern(t, ctx, stream, n+1, n)
			first, err = mpicomm.Ibcast(c, a.mem(), root)
			require.NoError(t, err)
			dup, err := c.Dup(ctx)
			require.NoError(t, err)
			wait(t, first, err)
			require.NoError(t, dup.Free(ctx))
		}
	}
}

// TestOtherDevice uses memory that MPI is never given: of a device that was not open at
// Init, and of a stream-ordered allocator.
func TestOtherDevice(t *testing.T) {
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	second, err := gpu.OpenDevice(1)
	require.NoError(t, err)
	a, err := second.Alloc(medium)
	require.NoError(t, err)
	b, err := second.Alloc(medium)
	require.NoError(t, err)
	s, err := second.NewStream()
	require.NoError(t, err)
	require.NoError(t, s.MemsetD8Async(a, byte(c.Rank()+1)))
	before := mpicomm.CountDeviceTraffic()
	peer := 1 - c.Rank()
	_, err = coro.Sendrecv(ctx, c, a.Mem(), peer, 1, b.Mem(), peer, 1)
	require.NoError(t, err)
	before.StagedOut += medium
	before.StagedIn += medium
	require.Equal(t, before, mpicomm.CountDeviceTraffic())
	got := make([]byte, medium)
	require.NoError(t, gpu.Memcpy(ctx, s, got, b))
	for _, x := range got {
		require.Equal(t, byte(peer+1), x)
	}
	require.NoError(t, s.Destroy())
	require.NoError(t, a.Free())
	require.NoError(t, b.Free())
	require.NoError(t, second.Close())
	_, err = c.Isend(mem.FromPointer(a0(t), 10, mem.Device, nil), peer, 1)
	require.ErrorContains(t, err, "does not know address")
	b, err = dev.Alloc(10)
	require.NoError(t, err)
	freed := b.Mem()
	require.NoError(t, b.Free())
	_, err = c.Isend(freed, peer, 1)
	require.ErrorIs(t, err, gpu.ErrFreed)
	require.ErrorIs(t, coro.SendMessage(ctx, c, []mem.Buffer{freed}, peer, 1), gpu.ErrFreed)
}

// a0 is an address that was device memory.
func a0(t testing.TB) uintptr {
	b, err := dev.Alloc(100)
	require.NoError(t, err)
	address := b.Mem().Addr()
	require.NoError(t, b.Free())
	return address
}

// TestLimit stages as much as Config.StagingLimit allows at a time, and no longer message.
func TestLimit(t *testing.T) {
	c := mpitest.Pair(t)
	if direct(t) {
		t.Skip("this MPI takes device memory")
	}
	ctx := mpitest.Context(t)
	const limit = 256 << 20
	large := deviceMemory(t, limit+1)
	_, err := c.Isend(large.mem(), 1-c.Rank(), 1)
	require.ErrorIs(t, err, mpicomm.ErrNoMem)
	require.ErrorContains(t, err, "coro.SendMessage")
	require.ErrorIs(t, mpicomm.Bcast(ctx, c, large.mem(), 0), mpicomm.ErrNoMem)
	if c.Rank() == 0 {
		host := make([]byte, limit+1)
		require.NoError(t, coro.Send(ctx, c, host, 1, 1))
		return
	}
	_, err = coro.Recv(ctx, c, large.mem(), 0, 1)
	require.ErrorIs(t, err, mpicomm.ErrNoMem)
	status, err := coro.Recv(ctx, c, make([]byte, limit+1), 0, 1) // the message was left
	require.NoError(t, err)
	require.Equal(t, limit+1, status.Count)
}

// TestMoreThanThePool has more in flight than the page-locked memory allows.
func TestMoreThanThePool(t *testing.T) {
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	peer := 1 - c.Rank()
	const n, length = 12, 64 << 20
	a, b := deviceMemory(t, length), deviceMemory(t, length)
	a.fill(t, stream, 2)
	var requests []*mpicomm.Request
	for i := range n {
		r, err := c.Irecv(b.mem(), peer, i)
		require.NoError(t, err)
		requests = append(requests, r)
	}
	for i := range n {
		r, err := c.Isend(a.mem(), peer, i)
		require.NoError(t, err)
		requests = append(requests, r)
	}
	require.NoError(t, mpicomm.Waitall(ctx, requests...))
	b.requirePattern(t, ctx, stream, 2, length)
}

// TestManyGoroutines moves device memory from many goroutines, with forced garbage
// collections, so that every thread calls MPI at some time.
func TestManyGoroutines(t *testing.T) {
	c := mpitest.Pair(t)
	peer := 1 - c.Rank()
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				runtime.GC()
			}
		}
	}()
	defer close(stop)
	require.NoError(t, coro.Run(mpitest.Context(t), func(g *coro.Group) error {
		for i := range 64 {
			g.Go(func(ctx context.Context) error {
				n := []int{8, 5000, 70000}[i%3]
				a, err := dev.Alloc(n)
				if err != nil {
					return err
				}
				b, err := dev.Alloc(n)
				if err != nil {
					return err
				}
				for round := range 10 {
					if err := kernels.Fill(stream, a, uint64(i+round)); err != nil {
						return err
					}
					if _, err := coro.Sendrecv(ctx, c, a.Mem(), peer, i, b.Mem(), peer, i); err != nil {
						return err
					}
					if wrong, _, err := kernels.Verify(ctx, stream, b, uint64(i+round)); err != nil || wrong > 0 {
						return fmt.Errorf("goroutine %d, round %d: %d bytes are wrong: %w", i, round, wrong, err)
					}
				}
				return errors.Join(a.Free(), b.Free())
			})
		}
		return nil
	}))
}

// TestWhoCopies shows by the calls of the driver that MPI itself copies device memory
// where it is given it, and nothing of ours does.
func TestWhoCopies(t *testing.T) {
	cudasim.Needed(t)
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	peer := 1 - c.Rank()
	a, b := deviceMemory(t, medium), deviceMemory(t, medium)
	a.fill(t, stream, 1)
	require.NoError(t, stream.Synchronize(ctx))
	before := cudasim.Stats()
	calls := cudasim.Trace(t, func() {
		_, err := coro.Sendrecv(ctx, c, a.mem(), peer, 1, b.mem(), peer, 1)
		require.NoError(t, err)
	})
	if direct(t) {
		require.Positive(t, calls["cuPointerGetAttributes"]+calls["cuPointerGetAttribute"])
		require.Positive(t, calls["cuMemcpyAsync"]+calls["cuMemcpy"]+calls["cuIpcGetMemHandle"]+calls["cuIpcOpenMemHandle_v2"], "%v", calls)
		require.Zero(t, calls["cuMemHostAlloc"], "%v", calls)
	} else {
		require.Equal(t, 2, calls["cuMemcpyAsync"], "%v", calls)
		require.Equal(t, before["blocked"], cudasim.Stats()["blocked"], "no thread waits in the driver")
		require.Zero(t, calls["cuMemcpy"]+calls["cuStreamSynchronize"]+calls["cuEventSynchronize"], "%v", calls)
	}
}

// TestFreshThreads has threads call MPI that have never called the driver, while it
// moves device memory: MPI finds a context on each.
func TestFreshThreads(t *testing.T) {
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	peer := 1 - c.Rank()
	a, b := deviceMemory(t, 4<<20), deviceMemory(t, 4<<20)
	a.fill(t, stream, 1)
	require.NoError(t, stream.Synchronize(ctx))
	for range 20 {
		recv, err := c.Irecv(b.mem(), peer, 1)
		require.NoError(t, err)
		failed := make(chan error, 2)
		for range 2 {
			go func() {
				runtime.LockOSThread() // for good: the thread ends with the goroutine
				_, err := coro.Recv(ctx, c, make([]byte, 1000), peer, 2)
				failed <- err
			}()
		}
		send, err := c.Isend(a.mem(), peer, 1)
		require.NoError(t, err)
		wait(t, send, nil)
		wait(t, recv, nil)
		for range 2 {
			require.NoError(t, coro.Send(ctx, c, make([]byte, 1000), peer, 2))
		}
		require.NoError(t, errors.Join(<-failed, <-failed))
	}
	b.requirePattern(t, ctx, stream, 1, 4<<20)
}

// TestWaitany waits for requests of device and host memory together.
func TestWaitany(t *testing.T) {
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	peer := 1 - c.Rank()
	a, b := deviceMemory(t, medium), deviceMemory(t, medium)
	host := make([]byte, 5000)
	device, err := c.Irecv(b.mem(), peer, 1)
	require.NoError(t, err)
	plain, err := c.Irecv(mem.Of(host), peer, 2)
	require.NoError(t, err)
	mpitest.Sync(t)
	a.fill(t, stream, 1)
	require.NoError(t, coro.Send(ctx, c, a.mem(), peer, 1))
	i, status, err := mpicomm.Waitany(ctx, device, plain)
	require.NoError(t, err)
	require.Equal(t, 0, i)
	require.Equal(t, medium, status.Count)
	mpitest.Sync(t)
	require.NoError(t, coro.Send(ctx, c, make([]byte, 5000), peer, 2))
	done, err := mpicomm.Waitsome(ctx, plain)
	require.NoError(t, err)
	require.Equal(t, []int{0}, done)
	require.NoError(t, mpicomm.Waitall(ctx, device, plain))
	b.requirePattern(t, ctx, stream, 1, medium)
}

// TestExclusive shows that the device's context is current for the program's own calls of
// MPI, where MPI needs it.
func TestExclusive(t *testing.T) {
	cudasim.Needed(t)
	mpitest.Pair(t)
	calls := cudasim.Trace(t, func() {
		done := make(chan error)
		go func() {
			runtime.LockOSThread() // one that has never called the driver
			done <- mpicomm.Exclusive(func() {})
		}()
		require.NoError(t, <-done)
	})
	if direct(t) {
		require.Positive(t, calls["cuCtxGetCurrent"], "%v", calls)
	} else {
		require.Zero(t, calls["cuCtxGetCurrent"], "%v", calls)
	}
}

// TestManyCycles allocates, sends and frees device memory again and again.
func TestManyCycles(t *testing.T) {
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	peer := 1 - c.Rank()
	cycle := func() {
		a, err := dev.Alloc(1000)
		require.NoError(t, err)
		b, err := dev.Alloc(1000)
		require.NoError(t, err)
		_, err = coro.Sendrecv(ctx, c, a.Mem(), peer, 1, b.Mem(), peer, 1)
		require.NoError(t, err)
		require.NoError(t, errors.Join(a.Free(), b.Free()))
	}
	for range 100 {
		cycle()
	}
	before, goroutines := cudasim.Stats(), runtime.NumGoroutine()
	for range 5000 {
		cycle()
	}
	after := cudasim.Stats()
	for _, name := range []string{"device", "pinned", "streams", "events", "imported"} {
		require.LessOrEqual(t, after[name], before[name]+20, name)
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), goroutines+20)
}

// TestSetInFlight ends the context of an exchange that the device holds up. Either its receive
// had matched and is done, or the message is still to come.
func TestSetInFlight(t *testing.T) {
	cudasim.Needed(t)
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	peer := 1 - c.Rank()
	a, b := deviceMemory(t, medium), deviceMemory(t, medium)
	delay(t, 200_000)
	a.fill(t, stream, c.Rank())
	soon, cancel := context.WithTimeout(ctx, 60*time.Millisecond)
	defer cancel()
	_, err := coro.Sendrecv(soon, c, a.mem(), peer, 1, b.mem(), peer, 1)
	if err != nil {
		again, e := c.Irecv(b.mem(), peer, 1)
		require.NoError(t, e)
		var flight *mpicomm.InFlightError
		if errors.As(err, &flight) { // the send cannot be cancelled, and was not done in time
			_, err = flight.Request.Wait(ctx)
		}
		if err == nil {
			require.NoError(t, again.Cancel())
			_, e = again.Wait(ctx)
			require.ErrorIs(t, e, context.Canceled)
		} else {
			require.True(t, errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded), "%v", err)
			wait(t, again, nil)
		}
	}
	b.requirePattern(t, ctx, stream, peer, medium)
}

// TestInfo shows the capabilities and their reasons.
func TestInfo(t *testing.T) {
	mpitest.Pair(t)
	info, err := mpicomm.Info()
	require.NoError(t, err)
	able, device := "staged", ""
	if direct(t) {
		device = "device 0 (Simulated device 0)"
		able = "direct, of " + device
	}
	require.Equal(t, device, info.DeviceMemory.Device)
	for _, c := range []mpicomm.Capability{info.DeviceMemory.PointToPoint, info.DeviceMemory.Datatypes, info.DeviceMemory.Collectives} {
		require.NotEmpty(t, c.Why)
	}
	require.Contains(t, info.String(), "device memory  point-to-point "+able)
}
