package device_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/gpu"
	"github.com/mpi4go/mpi4go/internal/cudasim"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/mpi4go/mpi4go/transport"
	"github.com/stretchr/testify/require"
)

// group is the frames of a message.
type group []*memory

func newGroup(t testing.TB, lengths []int, kind func(i int) mem.Kind) group {
	g := make(group, len(lengths))
	for i, n := range lengths {
		g[i] = newMemory(t, kind(i), n)
	}
	t.Cleanup(func() {
		for _, m := range g {
			m.free(t)
		}
	})
	return g
}

func (g group) frames() []mem.Buffer {
	all := make([]mem.Buffer, len(g))
	for i, m := range g {
		all[i] = m.mem()
	}
	return all
}

func (g group) fill(t testing.TB, s *gpu.Stream, seed int) {
	for i, m := range g {
		m.fill(t, s, seed+i)
	}
}

func (g group) requirePattern(t testing.TB, ctx context.Context, s *gpu.Stream, seed int) {
	t.Helper()
	for i, m := range g {
		n := len(m.host)
		if m.device != nil {
			n = m.device.Len()
		}
		m.requirePattern(t, ctx, s, seed+i, n)
	}
}

func only(kind mem.Kind) func(int) mem.Kind { return func(int) mem.Kind { return kind } }
func mixed(i int) mem.Kind                  { return kinds[i%len(kinds)] }
func otherwise(i int) mem.Kind              { return kinds[(i+1)%len(kinds)] }

// TestMessages sends messages of host, managed and device memory into each other.
func TestMessages(t *testing.T) {
	c := mpitest.Pair(t)
	peer := 1 - c.Rank()
	arrangements := map[string]func(int) mem.Kind{
		"host": only(mem.Host), "managed": only(mem.Managed), "device": only(mem.Device), "mixed": mixed, "otherwise": otherwise,
	}
	for _, lengths := range [][]int{
		{0}, {1}, {100, 0, 300}, {600, 4096, 4097, 255, 256, 257}, {1<<20 - 1, 1 << 20, 1<<20 + 1}, {700000, 8, 300000, 600000, 5000}, {64 << 20},
	} {
		for from, a := range arrangements {
			for to, b := range arrangements {
				if lengths[0] == 64<<20 && (from == "mixed" || from == "otherwise" || to == "mixed" || to == "otherwise") {
					continue // there is one frame
				}
				name := fmt.Sprintf("%s to %s, %v", from, to, lengths)
				ctx := mpitest.Context(t)
				out, in := newGroup(t, lengths, a), newGroup(t, lengths, b)
				out.fill(t, stream, len(lengths)+c.Rank())
				send, err := coro.IsendMessage(c, out.frames(), peer, 1)
				require.NoError(t, err, name)
				m, err := coro.RecvMessageInto(ctx, c, in.frames(), peer, 1)
				require.NoError(t, err, name)
				require.Equal(t, peer, m.Source)
				_, err = send.Wait(ctx)
				require.NoError(t, err, name)
				in.requirePattern(t, ctx, stream, len(lengths)+peer)
			}
		}
	}
}

// TestMessageTraffic counts the bytes that a message stages.
func TestMessageTraffic(t *testing.T) {
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	peer := 1 - c.Rank()
	lengths := []int{10, 70000, 3 << 20, 700000}
	out := newGroup(t, lengths, func(i int) mem.Kind { return []mem.Kind{mem.Device, mem.Host, mem.Device, mem.Host}[i] })
	in := newGroup(t, lengths, func(i int) mem.Kind { return []mem.Kind{mem.Host, mem.Device, mem.Device, mem.Device}[i] })
	before, pageable := mpicomm.CountDeviceTraffic(), cudasim.Stats()["pageable"]
	send, err := coro.IsendMessage(c, out.frames(), peer, 1)
	require.NoError(t, err)
	_, err = coro.RecvMessageInto(ctx, c, in.frames(), peer, 1)
	require.NoError(t, err)
	_, err = send.Wait(ctx)
	require.NoError(t, err)
	want := before
	if direct(t) {
		want.Direct += 4
		want.StagedIn += 70000 // it was short, and came with others
	} else {
		want.StagedOut += 10 + 3<<20
		want.StagedIn += 70000 + 3<<20 + 700000
		require.Equal(t, pageable, cudasim.Stats()["pageable"], "no copy of memory that is not page-locked")
	}
	require.Equal(t, want, mpicomm.CountDeviceTraffic())
}

// TestMessageAlloc receives into what a function chooses when it sees the kinds.
func TestMessageAlloc(t *testing.T) {
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	peer := 1 - c.Rank()
	out := newGroup(t, []int{100, 2 << 20, 5000}, mixed)
	out.fill(t, stream, 1)
	send, err := coro.IsendMessage(c, out.frames(), peer, 1)
	require.NoError(t, err)
	refusal := errors.New("not now")
	_, err = coro.RecvMessageAlloc(ctx, c, peer, 1, func(coro.Incoming) ([]mem.Buffer, error) { return nil, refusal })
	require.ErrorIs(t, err, refusal)
	_, err = coro.RecvMessageAlloc(ctx, c, peer, 1, func(in coro.Incoming) ([]mem.Buffer, error) {
		return []mem.Buffer{mem.FromPointer(a0(t), in.Frames[0].Len, mem.Device, nil), {}, {}}, nil
	})
	require.ErrorIs(t, err, coro.ErrFrames)
	var in group
	_, err = coro.RecvMessageAlloc(ctx, c, peer, 1, func(i coro.Incoming) ([]mem.Buffer, error) {
		for _, f := range i.Frames {
			in = append(in, newMemory(t, f.Kind, f.Len))
		}
		return in.frames(), nil
	})
	require.NoError(t, err)
	_, err = send.Wait(ctx)
	require.NoError(t, err)
	for i, m := range in {
		require.Equal(t, mixed(i), m.kind)
	}
	in.requirePattern(t, ctx, stream, 1)
	for _, m := range in {
		m.free(t)
	}
	// A receive that supplies nothing gets host memory.
	send, err = coro.IsendMessage(c, out.frames(), peer, 1)
	require.NoError(t, err)
	m, err := coro.RecvMessage(ctx, c, peer, 1)
	require.NoError(t, err)
	for i, f := range m.Frames {
		(&memory{host: f.Bytes()}).requirePattern(t, ctx, stream, 1+i, f.Len())
	}
	_, err = send.Wait(ctx)
	require.NoError(t, err)
}

// TestMessageOrder has kernels write what is sent, and read and write what is received into,
// with nothing synchronised.
func TestMessageOrder(t *testing.T) {
	cudasim.Needed(t)
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	peer := 1 - c.Rank()
	other, err := dev.NewStream()
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Destroy()) }()
	delay(t, 10000)
	lengths := []int{100, 3 << 20, 70000}
	shortest := time.Hour
	for range 3 {
		out, in := newGroup(t, lengths, only(mem.Device)), newGroup(t, lengths, only(mem.Device))
		var send, recv []mem.Buffer
		for i := range lengths {
			require.NoError(t, other.MemsetD8Async(in[i].device, 1))
			out[i].fill(t, other, 1+i)
			send, recv = append(send, out[i].device.On(other)), append(recv, in[i].device.On(other))
		}
		began := time.Now()
		r, err := coro.IsendMessage(c, send, peer, 1)
		require.NoError(t, err)
		shortest = min(shortest, time.Since(began))
		_, err = coro.RecvMessageInto(ctx, c, recv, peer, 1)
		require.NoError(t, err)
		in.requirePattern(t, ctx, other, 1) // on the stream
		_, err = r.Wait(ctx)
		require.NoError(t, err)
	}
	require.Less(t, shortest, 8*time.Millisecond, "it waits for the device")
}

// TestMessageInFlight ends the context of a message that the device holds up.
func TestMessageInFlight(t *testing.T) {
	cudasim.Needed(t)
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	m := newGroup(t, []int{3 << 20, 1000}, only(mem.Device))
	if c.Rank() == 0 {
		delay(t, 300_000)
		m.fill(t, stream, 1)
		soon, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		err := coro.SendMessage(soon, c, m.frames(), 1, 1)
		var flight *mpicomm.InFlightError
		require.ErrorAs(t, err, &flight)
		wait(t, flight.Request, nil)
		return
	}
	soon, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	got, err := coro.RecvMessageInto(soon, c, m.frames(), 0, 1)
	var flight *mpicomm.InFlightError
	if err != nil {
		require.ErrorAs(t, err, &flight)
		require.NotNil(t, got)
		wait(t, flight.Request, nil)
	}
	m.requirePattern(t, ctx, stream, 1)
}

// TestManyMessages sends many messages at a time, more than there is page-locked memory
// for.
func TestManyMessages(t *testing.T) {
	c := mpitest.Pair(t)
	peer := 1 - c.Rank()
	require.NoError(t, coro.Run(mpitest.Context(t), func(g *coro.Group) error {
		for i := range 20 {
			out, in := newGroup(t, []int{5000, 16 << 20, 100}, mixedFrom(i)), newGroup(t, []int{5000, 16 << 20, 100}, mixedFrom(i+1))
			out.fill(t, stream, i)
			g.Go(func(ctx context.Context) error {
				send, err := coro.IsendMessage(c, out.frames(), peer, i)
				if err != nil {
					return err
				}
				if _, err := coro.RecvMessageInto(ctx, c, in.frames(), peer, i); err != nil {
					return err
				}
				if _, err := send.Wait(ctx); err != nil {
					return err
				}
				in.requirePattern(t, ctx, stream, i)
				return nil
			})
		}
		return nil
	}))
}

func mixedFrom(k int) func(int) mem.Kind {
	return func(i int) mem.Kind { return kinds[(i+k)%len(kinds)] }
}

// TestFailuresOfMessages fails each call of the driver that a message to this rank makes. What
// was announced is received all the same, and the next message is in order.
func TestFailuresOfMessages(t *testing.T) {
	c := mpitest.Pair(t)
	if direct(t) {
		t.Skip("this MPI calls the driver itself, and ends the job when that fails")
	}
	ctx := mpitest.Context(t)
	lengths := []int{100, 600000, 5000}
	out, in := newGroup(t, lengths, mixed), newGroup(t, lengths, otherwise)
	out.fill(t, stream, 1)
	require.NoError(t, stream.Synchronize(ctx))
	failEach(t, func() error {
		send, err := coro.IsendMessage(c, out.frames(), c.Rank(), 1)
		if err != nil {
			return err
		}
		if _, err = coro.RecvMessageInto(ctx, c, in.frames(), c.Rank(), 1); err != nil { // it may have been left
			soon, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
			_, _ = coro.RecvMessage(soon, c, c.Rank(), 1)
			cancel()
		}
		if _, e := send.Wait(ctx); e != nil {
			return e // the receiver has heard of it
		}
		return err
	}, func(string) { in.requirePattern(t, ctx, stream, 1) })
}

// TestConnection sends frames of device memory over a connection, both ways.
func TestConnection(t *testing.T) {
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	var conn *transport.Conn
	var err error
	if c.Rank() == 0 {
		l, e := transport.Listen(ctx, "mpi://*/device", transport.Config{})
		require.NoError(t, e)
		defer func() { require.NoError(t, l.Close()) }()
		conn, err = l.Accept(ctx)
	} else {
		conn, err = transport.Dial(ctx, "mpi://0/device", transport.Config{ConnectTimeout: time.Minute})
	}
	require.NoError(t, err)
	lengths := []int{100, 2 << 20, 0, 70000}
	out, in := newGroup(t, lengths, mixed), newGroup(t, lengths, otherwise)
	for round := range 3 {
		out.fill(t, stream, round+10*c.Rank())
		sent := make(chan error, 1)
		go func() { sent <- conn.SendMessage(ctx, out.frames()) }()
		require.NoError(t, conn.RecvMessageInto(ctx, in.frames()))
		require.NoError(t, <-sent)
		in.requirePattern(t, ctx, stream, round+10*(1-c.Rank()))
	}
	require.Equal(t, uint64(3), conn.Stats().FramesChunks) // the managed one; that of device memory is empty
	mpitest.Sync(t)
	require.NoError(t, conn.Close())
}
