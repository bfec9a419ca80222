package transport_test

import (
	"context"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/mpi4go/mpi4go/transport"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	mpitest.Main(m, mpitest.Ranks(1, 2, 3),
		mpitest.Program("lost", programLost), mpitest.Program("alone", programAlone), mpitest.Program("left", programLeft))
}

// bytesOf are frames of bytes.
func bytesOf(frames ...string) []mem.Buffer {
	buffers := make([]mem.Buffer, len(frames))
	for i, f := range frames {
		buffers[i] = mem.Of([]byte(f))
	}
	return buffers
}

// textOf is the reverse.
func textOf(frames []mem.Buffer) []string {
	texts := make([]string, len(frames))
	for i, f := range frames {
		texts[i] = string(f.Bytes())
	}
	return texts
}

// listen listens to a service of this rank until the end of the test.
func listen(t testing.TB, service string, config transport.Config) *transport.Listener {
	t.Helper()
	l, err := transport.Listen(mpitest.Context(t), transport.Addr{Rank: transport.ThisRank, Service: service}.String(), config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// dial dials a service of a rank; the connection is closed at the end of the test.
func dial(t testing.TB, rank int, service string) *transport.Conn {
	t.Helper()
	c, err := transport.Dial(mpitest.Context(t), transport.Addr{Rank: rank, Service: service}.String(), transport.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func accept(t testing.TB, l *transport.Listener) *transport.Conn {
	t.Helper()
	c, err := l.Accept(mpitest.Context(t))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// connect is a connection between ranks 0 and 1.
func connect(t testing.TB, c *mpicomm.Comm) *transport.Conn {
	t.Helper()
	if c.Rank() == 0 {
		return accept(t, listen(t, "test", transport.Config{}))
	}
	return dial(t, 0, "test")
}

// toSelf is a connection of this rank to itself.
func toSelf(t testing.TB) (here, there *transport.Conn) {
	t.Helper()
	l := listen(t, "self", transport.Config{})
	here = dial(t, transport.ThisRank, "self")
	return here, accept(t, l)
}

// soon is a context that ends soon.
func soon(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(mpitest.Context(t), d)
	t.Cleanup(cancel)
	return ctx
}
