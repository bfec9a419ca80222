package transport_test

import (
	"bytes"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/transport"
	"github.com/stretchr/testify/require"
)

// TestCount counts connections that are open and that are over.
func TestCount(t *testing.T) {
	mpitest.Comm(t) // no rank goes on to a test that dials this one
	ctx := mpitest.Context(t)
	require.Eventually(t, func() bool { return transport.Open() == 0 }, 10*time.Second, time.Millisecond, "those of earlier tests are over")
	before := transport.Count()
	here, there := toSelf(t)
	now := transport.Count()
	require.Equal(t, before.Listeners+1, now.Listeners)
	require.Equal(t, before.Open+2, now.Open)
	require.Equal(t, before.Dialed+1, now.Dialed)
	require.Equal(t, before.Accepted+1, now.Accepted)

	for range 3 {
		require.NoError(t, here.SendMessage(ctx, bytesOf("one", "three")))
	}
	_, err := there.RecvMessage(ctx)
	require.NoError(t, err)
	check := func(waiting int) {
		t.Helper()
		now := transport.Count()
		require.Equal(t, before.MessagesSent+3, now.MessagesSent)
		require.Equal(t, before.BytesSent+24, now.BytesSent)
		require.Equal(t, before.MessagesReceived+1, now.MessagesReceived)
		require.Equal(t, before.BytesReceived+8, now.BytesReceived)
		require.Equal(t, before.FramesInline+6, now.FramesInline)
		require.LessOrEqual(t, now.Waiting, before.Waiting+waiting)
	}
	check(2)
	require.NoError(t, here.Close())
	require.NoError(t, there.Close())
	require.Eventually(t, func() bool { return transport.Count().Open == before.Open }, 10*time.Second, time.Millisecond)
	check(0)
}

// TestLog looks at what is logged in the life of a connection.
func TestLog(t *testing.T) {
	mpitest.NeedRanks(t, 1)
	ctx := mpitest.Context(t)
	var log lockedBuffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	l := listen(t, "logged", transport.Config{Logger: logger})
	here := dial(t, transport.ThisRank, "logged")
	there := accept(t, l)
	require.NoError(t, here.Close())
	_, err := there.RecvMessage(ctx)
	require.ErrorIs(t, err, transport.ErrClosedByPeer)
	_, err = transport.Dial(soon(t, 0), "mpi://*/logged", transport.Config{})
	require.Error(t, err)
	require.NoError(t, l.Close())
	for _, what := range []string{"mpi listener opened", "mpi connection accepted", "mpi connection ended by its peer", "mpi listener closed"} {
		require.Contains(t, log.String(), what)
	}
	require.NotContains(t, log.String(), "level=WARN")
}

// lockedBuffer is a buffer for several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
