package transport_test

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/transport"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/nettest"
)

// TestNetConnToSelf runs the tests of net.Conns on connections to this rank.
func TestNetConnToSelf(t *testing.T) {
	mpitest.Comm(t)
	l := listen(t, "nettest", transport.Config{})
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		ctx := mpitest.Context(t)
		c1, err = transport.DialNet(ctx, l.ContactAddr().String(), transport.Config{})
		if err != nil {
			return nil, nil, nil, err
		}
		accepted, err := l.Accept(ctx)
		if err != nil {
			return nil, nil, nil, err
		}
		c2 = accepted.NetConn()
		return c1, c2, func() { _ = c1.Close(); _ = c2.Close() }, nil
	})
}

// relay connects each two connections that it accepts: what goes into one comes out
// of the other.
func relay(l net.Listener) {
	for {
		a, err := l.Accept()
		if err != nil {
			return
		}
		b, err := l.Accept()
		if err != nil {
			return
		}
		pipe := func(to, from net.Conn) {
			_, _ = io.Copy(to, from)
			_ = to.Close()
			_ = from.Close()
		}
		go pipe(a, b)
		go pipe(b, a)
	}
}

// TestNetConn runs the tests of net.Conns on connections between two ranks. They want
// both ends in one process, so a stream goes to the other rank and comes back.
func TestNetConn(t *testing.T) {
	c := mpitest.Pair(t)
	go relay(listen(t, "relay", transport.Config{}).NetListener())
	addr := transport.Addr{Rank: 1 - c.Rank(), Service: "relay"}.String()
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		ctx := mpitest.Context(t)
		if c1, err = transport.DialNet(ctx, addr, transport.Config{}); err != nil {
			return nil, nil, nil, err
		}
		if c2, err = transport.DialNet(ctx, addr, transport.Config{}); err != nil {
			return nil, nil, nil, err
		}
		return c1, c2, func() { _ = c1.Close(); _ = c2.Close() }, nil
	})
	mpitest.Sync(t)
}

// TestNetConnCloseEndsWrite closes a connection while a long Write waits for a peer that
// does not read.
func TestNetConnCloseEndsWrite(t *testing.T) {
	mpitest.Comm(t)
	here, there := toSelf(t)
	defer there.Close()
	a := here.NetConn()
	wrote := make(chan error, 1)
	go func() {
		_, err := a.Write(make([]byte, 16<<20))
		wrote <- err
	}()
	time.Sleep(50 * time.Millisecond)
	require.NoError(t, a.Close())
	select {
	case err := <-wrote:
		require.ErrorIs(t, err, net.ErrClosed)
	case <-time.After(10 * time.Second):
		t.Fatal("Write still waits")
	}
}

func TestNetConnEnd(t *testing.T) {
	mpitest.Comm(t)
	here, there := toSelf(t)
	a, b := here.NetConn(), there.NetConn()
	n, err := a.Write(make([]byte, 1000))
	require.NoError(t, err)
	require.Equal(t, 1000, n)
	require.NoError(t, a.Close())
	got, err := io.ReadAll(b)
	require.NoError(t, err)
	require.Len(t, got, 1000)
	_, err = b.Write([]byte{1})
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = a.Read(make([]byte, 1))
	require.ErrorIs(t, err, net.ErrClosed)
	require.Equal(t, "mpi", a.LocalAddr().Network())
}
