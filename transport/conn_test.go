package transport_test

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/mpi4go/mpi4go/transport"
	"github.com/stretchr/testify/require"
)

func TestConn(t *testing.T) {
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	conn := connect(t, c)
	long := mem.Of(make([]byte, 3<<20))
	for i := range 200 {
		frames := bytesOf("hello", "", string(rune('a'+i%20)))
		if i%50 == 0 {
			frames = append(frames, long)
		}
		if c.Rank() == 0 {
			require.NoError(t, conn.SendMessage(ctx, frames))
		}
		got, err := conn.RecvMessage(ctx)
		require.NoError(t, err)
		require.Equal(t, textOf(frames), textOf(got))
		if c.Rank() == 1 {
			require.NoError(t, conn.SendMessage(ctx, got))
		}
	}
	if c.Rank() == 0 {
		require.Equal(t, "mpi://0/test", conn.LocalAddr().String())
		require.Equal(t, "mpi://1", conn.PeerAddr().String())
		require.NoError(t, conn.SendMessage(ctx, bytesOf("last")))
		require.NoError(t, conn.Close())
		require.NoError(t, conn.Close())
		_, err := conn.RecvMessage(ctx)
		require.ErrorIs(t, err, net.ErrClosed)
		require.ErrorIs(t, err, transport.ErrClosedHere)
		require.ErrorIs(t, conn.SendMessage(ctx, nil), transport.ErrClosedHere)
		return
	}
	require.Equal(t, "mpi://1", conn.LocalAddr().String())
	require.Equal(t, "mpi://0/test", conn.PeerAddr().String())
	got, err := conn.RecvMessage(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"last"}, textOf(got))
	_, err = conn.RecvMessage(ctx)
	require.ErrorIs(t, err, transport.ErrClosedByPeer)
	require.ErrorIs(t, err, net.ErrClosed)
	require.ErrorIs(t, conn.SendMessage(ctx, nil), transport.ErrClosedByPeer)
	s := conn.Stats()
	require.Equal(t, uint64(200), s.MessagesSent)
	require.Equal(t, uint64(201), s.MessagesReceived)
	require.Equal(t, uint64(4*3<<20+200*6), s.BytesSent)
	require.Equal(t, uint64(200*6), s.BytesStaged)
	require.Equal(t, uint64(600), s.FramesInline)
	require.Equal(t, uint64(4), s.FramesRequest)
	require.NoError(t, conn.Close())
	require.NoError(t, conn.Close())
}

func TestToSelf(t *testing.T) {
	mpitest.Comm(t)
	ctx := mpitest.Context(t)
	here, there := toSelf(t)
	for i := range 100 {
		frames := append(bytesOf("x", "yy"), mem.Of(make([]byte, 300_000*(i%2))))
		sent := make(chan error, 1)
		go func() { sent <- here.SendMessage(ctx, frames) }()
		got, err := there.RecvMessage(ctx)
		require.NoError(t, err)
		require.Equal(t, textOf(frames), textOf(got))
		require.NoError(t, <-sent)
	}
	there.Abort()
	there.Abort()
	_, err := here.RecvMessage(ctx)
	require.ErrorIs(t, err, transport.ErrAbortedByPeer)
	require.ErrorIs(t, err, net.ErrClosed)
}

func TestDialErrors(t *testing.T) {
	c := mpitest.Comm(t)
	ctx := mpitest.Context(t)
	self := transport.Addr{Rank: c.Rank(), Service: "nobody"}.String()
	_, err := transport.Dial(ctx, self, transport.Config{ConnectTimeout: 50 * time.Millisecond})
	require.ErrorIs(t, err, transport.ErrRefused)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout())
	_, err = transport.Dial(soon(t, 20*time.Millisecond), self, transport.Config{})
	require.ErrorIs(t, err, transport.ErrRefused)
	_, err = transport.Dial(ctx, "mpi://99", transport.Config{})
	require.ErrorContains(t, err, "the job has the ranks 0 to")
	_, err = transport.Dial(ctx, "tcp://1", transport.Config{})
	require.ErrorContains(t, err, "does not begin with mpi://")
	l := listen(t, "busy", transport.Config{})
	_, err = transport.Listen(ctx, "mpi://*/busy", transport.Config{})
	require.ErrorIs(t, err, transport.ErrInUse)
	require.NoError(t, l.Close())
	l = listen(t, "busy", transport.Config{})
	require.NoError(t, l.Close())
	_, err = l.Accept(ctx)
	require.ErrorIs(t, err, net.ErrClosed)
}

func TestDeadlines(t *testing.T) {
	mpitest.Comm(t)
	ctx := mpitest.Context(t)
	here, there := toSelf(t)
	require.NoError(t, here.SetReadDeadline(time.Now().Add(10*time.Millisecond)))
	_, err := here.RecvMessage(ctx)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	_, err = here.RecvMessage(context.Background())
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, here.SetReadDeadline(time.Time{}))
	_, err = here.RecvMessage(soon(t, 10*time.Millisecond))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, there.SendMessage(ctx, bytesOf("a")))
	got, err := here.RecvMessage(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, textOf(got))

	require.NoError(t, here.SetWriteDeadline(time.Now().Add(20*time.Millisecond)))
	sent := 0
	for ; err == nil; sent++ {
		err = here.SendMessage(ctx, bytesOf("b"))
	}
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.Equal(t, 64, sent-1)
	require.NoError(t, here.SetWriteDeadline(time.Time{}))
	// A long message without a receiver becomes one in flight.
	for range 64 {
		_, err = there.RecvMessage(ctx)
		require.NoError(t, err)
	}
	require.NoError(t, here.SetWriteDeadline(time.Now().Add(300*time.Millisecond)))
	err = here.SendMessage(ctx, []mem.Buffer{mem.Of(make([]byte, 20<<20))})
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	var flight *mpicomm.InFlightError
	require.ErrorAs(t, err, &flight)
	got, err = there.RecvMessage(ctx)
	require.NoError(t, err)
	require.Equal(t, 20<<20, got[0].Len())
	_, err = flight.Request.Wait(ctx)
	require.NoError(t, err)
}
