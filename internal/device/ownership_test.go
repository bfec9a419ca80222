package device_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/gpu"
	"github.com/mpi4go/mpi4go/internal/cudasim"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/stretchr/testify/require"
)

// ownership is a row of the table of device memory in docs/buffers.md: send sends a, recv
// receives b. As soon as the row says that a buffer is the caller's, the next work on a
// stream of its own overwrites it, or looks at it.
type ownership struct {
	row  string
	send func(t *testing.T, c *mpicomm.Comm, a *gpu.Buffer)
	recv func(t *testing.T, c *mpicomm.Comm, b *gpu.Buffer)
	on   bool // what looks at it is queued on stream
}

func plainSend(t *testing.T, c *mpicomm.Comm, a *gpu.Buffer) {
	require.NoError(t, coro.Send(mpitest.Context(t), c, a.Mem(), 1-c.Rank(), 1))
}

func plainRecv(t *testing.T, c *mpicomm.Comm, b *gpu.Buffer) {
	_, err := coro.Recv(mpitest.Context(t), c, b.Mem(), 1-c.Rank(), 1)
	require.NoError(t, err)
}

func messageSend(t *testing.T, c *mpicomm.Comm, a *gpu.Buffer) {
	r, err := coro.IsendMessage(c, []mem.Buffer{a.Mem()}, 1-c.Rank(), 1)
	require.NoError(t, err)
	_, err = r.Wait(mpitest.Context(t))
	require.NoError(t, err)
}

func messageRecv(t *testing.T, c *mpicomm.Comm, b *gpu.Buffer) {
	_, err := coro.RecvMessageInto(mpitest.Context(t), c, []mem.Buffer{b.Mem()}, 1-c.Rank(), 1)
	require.NoError(t, err)
}

var ownerships = []ownership{
	{row: "`Isend`, `Issend`, `Post` of device memory, of any length", recv: plainRecv, send: func(t *testing.T, c *mpicomm.Comm, a *gpu.Buffer) {
		r, err := c.Isend(a.Mem(), 1-c.Rank(), 1)
		wait(t, r, err)
	}},
	{row: "`coro.Send`, `Ssend`, `Do` of device memory, of any length", send: plainSend, recv: plainRecv},
	{row: "`Irecv`, `Imrecv`, `Post` into `Buffer.Mem` or `After`", send: plainSend, recv: func(t *testing.T, c *mpicomm.Comm, b *gpu.Buffer) {
		r, err := c.Irecv(b.Mem(), 1-c.Rank(), 1)
		wait(t, r, err)
	}},
	{row: "`coro.Recv`, `RecvAlloc` into `Buffer.Mem` or `After`", send: plainSend, recv: func(t *testing.T, c *mpicomm.Comm, b *gpu.Buffer) {
		e, err := dev.NewEvent()
		require.NoError(t, err)
		_, err = coro.Recv(mpitest.Context(t), c, b.After(e), 1-c.Rank(), 1)
		require.NoError(t, err)
		require.NoError(t, e.Destroy())
	}},
	{row: "the same two into `Buffer.On`", on: true, send: plainSend, recv: func(t *testing.T, c *mpicomm.Comm, b *gpu.Buffer) {
		_, err := coro.Recv(mpitest.Context(t), c, b.On(stream), 1-c.Rank(), 1)
		require.NoError(t, err)
	}},
	{row: "`SendMessage`, `IsendMessage` with frames of device memory", send: messageSend, recv: messageRecv},
	{row: "`RecvMessageInto`, `RecvMessageAlloc` and their I-forms", on: true, send: messageSend, recv: func(t *testing.T, c *mpicomm.Comm, b *gpu.Buffer) {
		r, err := coro.IrecvMessageInto(c, []mem.Buffer{b.On(stream)}, 1-c.Rank(), 1)
		require.NoError(t, err)
		_, err = r.Wait(mpitest.Context(t))
		require.NoError(t, err)
	}},
	{row: "`gpu.Buffer.Free`", send: plainSend, recv: plainRecv},
}

// TestDeviceOwnership shows that each row of the table of device memory in docs/buffers.md
// holds.
func TestDeviceOwnership(t *testing.T) {
	cudasim.Needed(t)
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	own, err := dev.NewStream()
	require.NoError(t, err)
	defer func() { require.NoError(t, own.Destroy()) }()
	delay(t, 5000)
	for _, o := range ownerships {
		t.Run(o.row, func(t *testing.T) {
			for _, n := range []int{100, medium} {
				m := newMemory(t, mem.Device, n)
				if c.Rank() == 0 {
					m.fill(t, stream, n)
					o.send(t, c, m.device)
					require.NoError(t, own.MemsetD8Async(m.device, 0))
					_, err := coro.Recv(ctx, c, []byte{}, 1, 2)
					require.NoError(t, err)
				} else {
					o.recv(t, c, m.device)
					s := own
					if o.on {
						s = stream
					}
					m.requirePattern(t, ctx, s, n, n)
					require.NoError(t, coro.Send(ctx, c, []byte{}, 0, 2))
				}
				m.free(t)
			}
		})
	}
}

// TestDeviceOwnershipTable compares the rows with those of docs/buffers.md.
func TestDeviceOwnershipTable(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(mpitest.Root(t), "docs", "buffers.md"))
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(text), "\n## Device memory\n")
	_, table, found := strings.Cut(section, "|---|---|---|---|\n")
	require.True(t, found)
	var rows []string
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "| ") {
			break
		}
		row, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		rows = append(rows, row)
	}
	for i, o := range ownerships {
		require.Equal(t, rows[i], o.row)
	}
	require.Len(t, rows, len(ownerships))
}
