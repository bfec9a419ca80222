package mpicomm_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/stretchr/testify/require"
)

// ownership is a row of the table in docs/buffers.md: what each of two ranks
// does to show that it holds. The tag is the test's own.
type ownership struct {
	row            string
	sender, reader func(t *testing.T, c *mpicomm.Comm, tag int)
}

const long, short = 1 << 20, 200

// sends is a sender of one message of n bytes.
func sends(n int) func(*testing.T, *mpicomm.Comm, int) {
	return func(t *testing.T, c *mpicomm.Comm, tag int) { send(t, c, pattern(n, tag), 1, tag) }
}

// reads receives one message of n bytes and looks at it.
func reads(n int) func(*testing.T, *mpicomm.Comm, int) {
	return func(t *testing.T, c *mpicomm.Comm, tag int) {
		buf := make([]byte, n)
		require.Equal(t, n, recv(t, c, buf, 0, tag).Count)
		requirePattern(t, buf, tag)
	}
}

// sendsWhenAsked sends one message of n bytes after the reader's signal.
func sendsWhenAsked(n int) func(*testing.T, *mpicomm.Comm, int) {
	return func(t *testing.T, c *mpicomm.Comm, tag int) {
		await(t, c, 1, tag)
		send(t, c, pattern(n, tag), 1, tag)
	}
}

// untouched is a receive that ends without a message: its buffer is as it was,
// and the next receive gets the message.
func untouched(receive func(t *testing.T, ctx context.Context, c *mpicomm.Comm, buf []byte, tag int) error) func(*testing.T, *mpicomm.Comm, int) {
	return func(t *testing.T, c *mpicomm.Comm, tag int) {
		g := newGuarded(short)
		require.ErrorIs(t, receive(t, onceStarted(t, 1), c, g.buf, tag), errCanceled)
		g.requireIntact(t, 0)
		signal(t, c, 0, tag)
		reads(short)(t, c, tag)
	}
}

// inFlight asks for an InFlightError and returns its request.
func inFlight(t *testing.T, err error) *mpicomm.Request {
	var flight *mpicomm.InFlightError
	require.ErrorAs(t, err, &flight)
	require.ErrorIs(t, err, errCanceled)
	return flight.Request
}

func doSend(ctx context.Context, c *mpicomm.Comm, data []byte, tag int) error {
	_, err := mpicomm.Do(ctx, c.SendOp(mem.Of(data), 1, tag))
	return err
}

func doSsend(ctx context.Context, c *mpicomm.Comm, data []byte, tag int) error {
	_, err := mpicomm.Do(ctx, c.SsendOp(mem.Of(data), 1, tag))
	return err
}

// stuckSend starts a long send whose context ends, and waits for its request
// once the reader has been told to receive. It has to be a synchronous one: Intel
// MPI buffers others of any length.
func stuckSend(start func(ctx context.Context, c *mpicomm.Comm, data []byte, tag int) error) func(*testing.T, *mpicomm.Comm, int) {
	return func(t *testing.T, c *mpicomm.Comm, tag int) {
		data := pattern(long, tag)
		r := inFlight(t, start(onceStarted(t, 1), c, data, tag))
		_, done, err := r.Test()
		require.NoError(t, err)
		require.False(t, done)
		signal(t, c, 1, tag+1000)
		wait(t, r)
		clear(data) // ours again
	}
}

func readsWhenTold(t *testing.T, c *mpicomm.Comm, tag int) {
	await(t, c, 0, tag+1000)
	reads(long)(t, c, tag)
}

// collects gathers a long message from each rank.
func collects(t *testing.T, c *mpicomm.Comm, _ int) {
	mine, all := pattern(long, c.Rank()), make([]byte, 2*long)
	require.NoError(t, mpicomm.Allgather(mpitest.Context(t), c, mine, all))
	clear(mine)
	requirePattern(t, all[:long], 0)
	requirePattern(t, all[long:], 1)
}

// startsCollective does so without waiting.
func startsCollective(t *testing.T, c *mpicomm.Comm, _ int) {
	mine, all, counts := pattern(long, c.Rank()), make([]byte, 2*long), []int{long, long}
	r, err := mpicomm.Iallgatherv(c, mine, all, counts, nil)
	require.NoError(t, err)
	clear(counts)
	wait(t, r)
	clear(mine)
	requirePattern(t, all[:long], 0)
	requirePattern(t, all[long:], 1)
}

// sendsMessage sends a message of two frames.
func sendsMessage(t *testing.T, c *mpicomm.Comm, tag int) {
	data := pattern(long, tag)
	require.NoError(t, coro.SendMessage(mpitest.Context(t), c, []mem.Buffer{mem.Of(data), mem.Of(data[:3])}, 1, tag))
	clear(data)
}

func readsMessage(t *testing.T, c *mpicomm.Comm, tag int) {
	m, err := coro.RecvMessage(mpitest.Context(t), c, 0, tag)
	require.NoError(t, err)
	require.Len(t, m.Frames, 2)
	require.Equal(t, long, m.Frames[0].Len())
	requirePattern(t, m.Frames[0].Bytes(), tag)
}

var ownerships = []ownership{
	{
		"`Isend`, `Issend`, `Post`, over 256 B",
		func(t *testing.T, c *mpicomm.Comm, tag int) {
			data := pattern(long, tag)
			r := isend(t, c, data, 1, tag)
			signal(t, c, 1, tag+1000)
			wait(t, r)
			clear(data)
		},
		readsWhenTold,
	},
	{
		"`Isend`, `Issend`, `Post`, up to 256 B",
		func(t *testing.T, c *mpicomm.Comm, tag int) {
			data := pattern(short, tag)
			first := isend(t, c, data, 1, tag)
			second, err := c.Issend(mem.Of(data), 1, tag)
			require.NoError(t, err)
			third, err := mpicomm.Post(c.SendOp(mem.Of(data), 1, tag), c.SendOp(mem.Of(data), 1, tag))
			require.NoError(t, err)
			clear(data)
			signal(t, c, 1, tag+1000)
			for _, r := range []*mpicomm.Request{first, second, third} {
				wait(t, r)
			}
		},
		func(t *testing.T, c *mpicomm.Comm, tag int) {
			await(t, c, 0, tag+1000)
			for range 4 {
				reads(short)(t, c, tag)
			}
		},
	},
	{
		"`Irecv`, `Imrecv`, `Post`",
		sends(short),
		func(t *testing.T, c *mpicomm.Comm, tag int) {
			g := newGuarded(long)
			status := wait(t, irecv(t, c, g.buf, 0, tag))
			require.Equal(t, short, status.Count)
			requirePattern(t, g.buf[:short], tag)
			g.requireIntact(t, short)
		},
	},
	{
		"`Request.Wait` whose context ends",
		sendsWhenAsked(long),
		func(t *testing.T, c *mpicomm.Comm, tag int) {
			g := newGuarded(long)
			r := irecv(t, c, g.buf, 0, tag)
			ctx, cancel := context.WithCancel(mpitest.Context(t))
			cancel()
			_, err := r.Wait(ctx)
			require.ErrorIs(t, err, errCanceled)
			signal(t, c, 0, tag)
			require.Equal(t, long, wait(t, r).Count)
			requirePattern(t, g.buf, tag)
		},
	},
	{
		"`Request.Cancel` of a receive",
		sendsWhenAsked(short),
		untouched(func(t *testing.T, _ context.Context, c *mpicomm.Comm, buf []byte, tag int) error {
			r := irecv(t, c, buf, 0, tag)
			require.NoError(t, r.Cancel())
			_, err := r.Wait(mpitest.Context(t))
			return err
		}),
	},
	{
		"`coro.Send`, `Ssend`, `Do` of a send",
		func(t *testing.T, c *mpicomm.Comm, tag int) {
			data := pattern(long, tag)
			send(t, c, data, 1, tag)
			clear(data)
		},
		reads(long),
	},
	{
		"the same, up to 256 B, not `Ssend`",
		func(t *testing.T, c *mpicomm.Comm, tag int) {
			data := pattern(short, tag)
			send(t, c, data, 1, tag)
			clear(data)
			signal(t, c, 1, tag+1000)
		},
		func(t *testing.T, c *mpicomm.Comm, tag int) {
			await(t, c, 0, tag+1000)
			reads(short)(t, c, tag)
		},
	},
	{"the same, over 256 B, context ends", stuckSend(doSsend), readsWhenTold},
	{"`coro.Recv`, `Do` of a receive", sends(long), reads(long)},
	{
		"the same, context ends, no message matched",
		sendsWhenAsked(short),
		untouched(func(t *testing.T, ctx context.Context, c *mpicomm.Comm, buf []byte, tag int) error {
			_, err := mpicomm.Do(ctx, c.RecvOp(mem.Of(buf), 0, tag))
			return err
		}),
	},
	{
		"the same, context ends, a message had matched",
		sends(short),
		func(t *testing.T, c *mpicomm.Comm, tag int) {
			// The message is there or on its way when the context ends: either
			// this receive has it, or the next one.
			ctx, cancel := context.WithCancel(mpitest.Context(t))
			go cancel()
			buf := make([]byte, short)
			if _, err := mpicomm.Do(ctx, c.RecvOp(mem.Of(buf), 0, tag)); err != nil {
				require.ErrorIs(t, err, errCanceled)
				recv(t, c, buf, 0, tag)
			}
			requirePattern(t, buf, tag)
		},
	},
	{
		"`coro.Sendrecv`, `DoAll`",
		stuckSend(func(ctx context.Context, c *mpicomm.Comm, data []byte, tag int) error {
			_, err := mpicomm.DoAll(ctx, nil, c.SsendOp(mem.Of(data), 1, tag), c.RecvOp(mem.Buffer{}, mpicomm.ProcNull, tag))
			return err
		}),
		readsWhenTold,
	},
	{
		"`coro.RecvAlloc`",
		sends(long),
		func(t *testing.T, c *mpicomm.Comm, tag int) {
			var buf []byte
			status, err := mpicomm.RecvAlloc(mpitest.Context(t), c, 0, tag, func(s mpicomm.Status) (mem.Buffer, error) {
				buf = make([]byte, s.Count)
				return mem.Of(buf), nil
			})
			require.NoError(t, err)
			require.Equal(t, long, status.Count)
			requirePattern(t, buf, tag)
		},
	},
	{
		"the same, context ends before a match",
		sendsWhenAsked(short),
		untouched(func(t *testing.T, ctx context.Context, c *mpicomm.Comm, buf []byte, tag int) error {
			_, err := mpicomm.RecvAlloc(ctx, c, 0, tag, func(mpicomm.Status) (mem.Buffer, error) { return mem.Of(buf), nil })
			return err
		}),
	},
	{
		"the same, context ends after the match, before the transfer",
		sends(short),
		func(t *testing.T, c *mpicomm.Comm, tag int) {
			g := newGuarded(short)
			ctx, cancel := context.WithCancel(mpitest.Context(t))
			_, err := mpicomm.RecvAlloc(ctx, c, 0, tag, func(mpicomm.Status) (mem.Buffer, error) {
				cancel()
				return mem.Of(g.buf), nil
			})
			require.ErrorIs(t, err, errCanceled)
			g.requireIntact(t, 0)
			reads(short)(t, c, tag)
		},
	},
	{
		"`Bcast`, `Allreduce` and the other collectives",
		collects, collects,
	},
	{
		"`Ibcast`, `Iallreduce` and the like",
		startsCollective, startsCollective,
	},
	{
		"a collective whose context ends",
		func(t *testing.T, c *mpicomm.Comm, tag int) {
			mine, all := pattern(long, 0), make([]byte, 2*long)
			r := inFlight(t, mpicomm.Allgather(onceStarted(t, 1), c, mine, all))
			signal(t, c, 1, tag)
			wait(t, r)
			requirePattern(t, all[long:], 1)
			clear(mine)
		},
		func(t *testing.T, c *mpicomm.Comm, tag int) {
			await(t, c, 0, tag)
			collects(t, c, tag)
		},
	},
	{
		"`SendPartsOp`, `RecvPartsOp`",
		func(t *testing.T, c *mpicomm.Comm, tag int) {
			data := pattern(long, tag)
			parts := []mem.Buffer{mem.Of(data[:7]), mem.Of(data[7:5000]), mem.Of(data[5000:])}
			_, err := mpicomm.Do(mpitest.Context(t), c.SendPartsOp(parts, 1, tag))
			require.NoError(t, err)
			clear(data)
			sends(long)(t, c, tag)
		},
		func(t *testing.T, c *mpicomm.Comm, tag int) {
			reads(long)(t, c, tag) // as one buffer, and the other way round
			buf := make([]byte, long)
			parts := []mem.Buffer{mem.Of(buf[:100_000]), mem.Of(buf[100_000:100_001]), {}, mem.Of(buf[100_001:])}
			_, err := mpicomm.Do(mpitest.Context(t), c.RecvPartsOp(parts, 0, tag))
			require.NoError(t, err)
			requirePattern(t, buf, tag)
		},
	},
	{
		"`coro.SendMessage`",
		sendsMessage, readsMessage,
	},
	{
		"the same, context ends",
		func(t *testing.T, c *mpicomm.Comm, tag int) {
			data := pattern(long, tag)
			ctx, cancel := context.WithTimeout(mpitest.Context(t), 100*time.Millisecond)
			defer cancel()
			var flight *mpicomm.InFlightError
			require.ErrorAs(t, coro.SendMessage(ctx, c, []mem.Buffer{mem.Of(data), mem.Of(data[:3])}, 1, tag), &flight)
			signal(t, c, 1, tag+1000)
			wait(t, flight.Request)
			clear(data)
		},
		func(t *testing.T, c *mpicomm.Comm, tag int) {
			await(t, c, 0, tag+1000)
			readsMessage(t, c, tag)
		},
	},
	{
		"`coro.RecvMessage`",
		sendsMessage, readsMessage,
	},
	{
		"`coro.RecvMessageInto`, `RecvMessageAlloc`",
		sendsMessage,
		func(t *testing.T, c *mpicomm.Comm, tag int) {
			g := newGuarded(long)
			_, err := coro.RecvMessageInto(mpitest.Context(t), c, []mem.Buffer{mem.Of(g.buf)}, 0, tag)
			require.ErrorIs(t, err, coro.ErrFrames)
			g.requireIntact(t, 0)
			_, err = coro.RecvMessageInto(mpitest.Context(t), c, []mem.Buffer{mem.Of(g.buf), mem.Of(make([]byte, 3))}, 0, tag)
			require.NoError(t, err)
			requirePattern(t, g.buf, tag)
			g.requireIntact(t, long)
		},
	},
	{
		"`coro.IsendMessage`",
		func(t *testing.T, c *mpicomm.Comm, tag int) {
			data := pattern(long, tag)
			r, err := coro.IsendMessage(c, []mem.Buffer{mem.Of(data), mem.Of(data[:3])}, 1, tag)
			require.NoError(t, err)
			_, err = r.Wait(mpitest.Context(t))
			require.NoError(t, err)
			clear(data)
		},
		readsMessage,
	},
	{
		"`coro.IrecvMessageInto`, `IrecvMessageAlloc`",
		sendsMessage,
		func(t *testing.T, c *mpicomm.Comm, tag int) {
			g := newGuarded(long)
			wrong, err := coro.IrecvMessageInto(c, []mem.Buffer{mem.Of(g.buf)}, 0, tag)
			require.NoError(t, err)
			_, err = wrong.Wait(mpitest.Context(t))
			require.ErrorIs(t, err, coro.ErrFrames)
			g.requireIntact(t, 0)
			r, err := coro.IrecvMessageInto(c, []mem.Buffer{mem.Of(g.buf), mem.Of(make([]byte, 3))}, 0, tag)
			require.NoError(t, err)
			_, err = r.Wait(mpitest.Context(t))
			require.NoError(t, err)
			requirePattern(t, g.buf, tag)
			g.requireIntact(t, long)
		},
	},
	{
		"any receive that is too short (`ErrTruncate`)",
		func(t *testing.T, c *mpicomm.Comm, tag int) {
			send(t, c, pattern(long, tag), 1, tag)
			sends(short)(t, c, tag)
		},
		func(t *testing.T, c *mpicomm.Comm, tag int) {
			g := newGuarded(short)
			_, err := mpicomm.Do(mpitest.Context(t), c.RecvOp(mem.Of(g.buf), 0, tag))
			require.ErrorIs(t, err, mpicomm.ErrTruncate)
			g.requireIntact(t, short)
			reads(short)(t, c, tag)
		},
	},
	{
		"any call that fails before it starts (`ErrRank`, `ErrTag`, ...)",
		func(t *testing.T, c *mpicomm.Comm, _ int) {
			before := started()
			require.ErrorIs(t, doSend(mpitest.Context(t), c, pattern(long, 0), -7), mpicomm.ErrTag)
			require.Equal(t, before, started())
		},
		func(*testing.T, *mpicomm.Comm, int) {},
	},
}

// untestedOwnerships are the rows that no test here can bring about.
var untestedOwnerships = []string{
	// Over shared memory the receiver fetches a long message by itself.
	"the same, and MPI does not say within `Config.CancelTimeout`",
	"the same, context ends during the transfer",
	"the same, context ends during the transfer of a message",
	"anything in flight at `Finalize`", // TestStuckSend, in a job of its own
}

// TestOwnership shows that each row of the table in docs/buffers.md holds.
func TestOwnership(t *testing.T) {
	comm := mpitest.Pair(t)
	for tag, o := range ownerships {
		t.Run(o.row, func(t *testing.T) {
			if comm.Rank() == 0 {
				o.sender(t, comm, tag)
			} else {
				o.reader(t, comm, tag)
			}
		})
	}
}

// TestOwnershipTable compares the rows with those of docs/buffers.md.
func TestOwnershipTable(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(mpitest.Root(t), "docs", "buffers.md"))
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "|---|---|---|---|\n")
	require.True(t, found)
	var documented, tested []string
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, " | "); strings.HasPrefix(line, "| ") {
			documented = append(documented, strings.TrimPrefix(cells[0], "| "))
		} else {
			break
		}
	}
	for _, o := range ownerships {
		tested = append(tested, o.row)
	}
	tested = append(tested, untestedOwnerships...)
	slices.Sort(documented)
	slices.Sort(tested)
	require.Equal(t, documented, tested)
	require.Equal(t, len(documented), len(slices.Compact(documented)), "two rows have one name")
}
