package transport_test

import (
	"bytes"
	"context"
	"runtime/trace"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/transport"
	"github.com/stretchr/testify/require"
)

// TestTrace takes an execution trace of calls that wait, and finds their regions
// in it: the texts of a trace stand in it as they are.
func TestTrace(t *testing.T) {
	c := mpitest.Pair(t)
	if trace.IsEnabled() {
		t.Skip("go test -trace takes the trace of this process")
	}
	ctx := mpitest.Context(t)
	const long = 300 * time.Millisecond // a waiter polls for a while before it parks
	var taken bytes.Buffer
	require.NoError(t, trace.Start(&taken))
	if c.Rank() == 0 {
		l := listen(t, "traced", transport.Config{})
		conn := accept(t, l)
		_, err := conn.RecvMessage(ctx)
		require.NoError(t, err)
		_, err = coro.Recv(ctx, c, make([]byte, 1), 1, 7)
		require.NoError(t, err)
		time.Sleep(long) // the peer has to wait
		for range 100 {
			_, err = conn.RecvMessage(ctx)
			require.NoError(t, err)
		}
		trace.Stop()
		for _, what := range []string{"mpi accept", "mpi read", "mpi recvmessage", "mpi irecv", "irecv peer 1 tag 7, 1 bytes", "mpi://0/traced-mpi://1"} {
			require.True(t, bytes.Contains(taken.Bytes(), []byte(what)), what)
		}
	} else {
		conn := dial(t, 0, "traced")
		time.Sleep(long)
		require.NoError(t, conn.SendMessage(ctx, bytesOf("a")))
		time.Sleep(long)
		require.NoError(t, coro.Send(ctx, c, []byte{1}, 0, 7))
		for range 100 {
			require.NoError(t, conn.SendMessage(context.Background(), []mem.Buffer{mem.Of(make([]byte, 10))}))
		}
		trace.Stop()
		for _, what := range []string{"mpi dial", "mpi write", "mpi sendmessage", "mpi://1-mpi://0/traced"} {
			require.True(t, bytes.Contains(taken.Bytes(), []byte(what)), what)
		}
	}
}
