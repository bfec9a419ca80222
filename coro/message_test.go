package coro_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/stretchr/testify/require"
)

var plans = []string{"inline", "datatype", "request", "inline:512,datatype:64K,request", "inline:100,request:8K,datatype:32K,request"}

// content fills a frame in a way that depends on its place.
func content(n, seed int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8 + seed*31)
	}
	return b
}

func framesOf(lengths []int, seed int) []mem.Buffer {
	frames := make([]mem.Buffer, len(lengths))
	for i, n := range lengths {
		frames[i] = mem.Of(content(n, seed+i))
	}
	return frames
}

func requireFrames(t *testing.T, m *coro.Message, lengths []int, seed int) {
	t.Helper()
	require.Len(t, m.Frames, len(lengths))
	for i, n := range lengths {
		if !bytes.Equal(content(n, seed+i), m.Frames[i].Bytes()) {
			t.Fatalf("frame %d of %d bytes is not what was sent", i, n)
		}
	}
}

func repeat(n, length int) []int {
	lengths := make([]int, n)
	for i := range lengths {
		lengths[i] = length
	}
	return lengths
}

// TestMessagePlans sends messages of every shape by every plan.
func TestMessagePlans(t *testing.T) {
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	shapes := [][]int{
		{},
		{0},
		{0, 0, 0},
		{1},
		{255, 256, 257},
		{3000, 0, 3000},
		{4096, 1, 100_000, 0, 7},
		repeat(16, 64), repeat(1000, 64),
		repeat(10_000, 3), repeat(64, 5000),
		{1 << 20, 10, 1 << 20, 600, 40_000},
		{5, 1 << 22},
	}
	for _, plan := range plans {
		restore := coro.SetPlans(plan)
		for seed, lengths := range shapes {
			if c.Rank() == 0 {
				require.NoError(t, coro.SendMessage(ctx, c, framesOf(lengths, seed), 1, 7))
				continue
			}
			m, err := coro.RecvMessage(ctx, c, 0, 7)
			require.NoError(t, err)
			require.Equal(t, 0, m.Source)
			require.Equal(t, 7, m.Tag)
			requireFrames(t, m, lengths, seed)
		}
		restore()
	}
}

// TestMessageProperty sends random messages in both directions at once.
func TestMessageProperty(t *testing.T) {
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	peer := 1 - c.Rank()
	random := rand.New(rand.NewPCG(3, 4)) // the same on both ranks
	for round := range 40 {
		lengths := make([]int, random.IntN(300))
		for i := range lengths {
			lengths[i] = random.IntN(1 << random.IntN(14))
		}
		if round%8 == 0 {
			lengths = append(lengths, random.IntN(8<<20))
		}
		restore := coro.SetPlans(plans[random.IntN(len(plans))])
		sent := make(chan error, 1)
		go func() { sent <- coro.SendMessage(ctx, c, framesOf(lengths, round), peer, round) }()
		m, err := coro.RecvMessage(ctx, c, peer, round)
		require.NoError(t, err)
		requireFrames(t, m, lengths, round)
		require.NoError(t, <-sent)
		restore()
	}
}

// TestMessageDestinations receives into buffers that are there, or are supplied.
func TestMessageDestinations(t *testing.T) {
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	lengths := []int{10, 5000, 0, 100_000}
	if c.Rank() == 0 {
		require.NoError(t, coro.SendMessage(ctx, c, framesOf(lengths, 1), 1, 1))
		require.NoError(t, coro.SendMessage(ctx, c, framesOf(lengths, 2), 1, 1))
		require.NoError(t, coro.SendMessage(ctx, c, framesOf(repeat(1000, 64), 3), 1, 1)) // a long header
		return
	}
	var made []mem.Buffer
	for _, n := range lengths {
		made = append(made, mem.Of(make([]byte, n)))
	}
	for _, wrong := range [][]mem.Buffer{nil, made[:3], {made[0], made[1], made[2], made[1]}} {
		_, err := coro.RecvMessageInto(ctx, c, wrong, 0, 1)
		require.ErrorIs(t, err, coro.ErrFrames)
	}
	m, err := coro.RecvMessageInto(ctx, c, made, mpicomm.AnySource, mpicomm.AnyTag)
	require.NoError(t, err, "the message was left to the next receive")
	requireFrames(t, m, lengths, 1)
	require.Equal(t, made[3], m.Frames[3])

	refused := errors.New("no memory left")
	_, err = coro.RecvMessageAlloc(ctx, c, 0, 1, func(in coro.Incoming) ([]mem.Buffer, error) {
		require.Equal(t, coro.Incoming{Source: 0, Tag: 1, Frames: []coro.FrameInfo{{Len: 10}, {Len: 5000}, {}, {Len: 100_000}}}, in)
		return nil, refused
	})
	require.ErrorIs(t, err, refused)
	m, err = coro.RecvMessageAlloc(ctx, c, 0, 1, func(in coro.Incoming) ([]mem.Buffer, error) { return made, nil })
	require.NoError(t, err)
	requireFrames(t, m, lengths, 2)

	_, err = coro.RecvMessageInto(ctx, c, nil, 0, 1)
	require.ErrorIs(t, err, coro.ErrFrames)
	m, err = coro.RecvMessage(ctx, c, 0, 1)
	require.NoError(t, err)
	requireFrames(t, m, repeat(1000, 64), 3)
}

// TestMessageOrder sends more messages than a rank may be ahead, with several
// tags, and receives them in another order.
func TestMessageOrder(t *testing.T) {
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	const n, tags = 300, 3
	if c.Rank() == 0 {
		require.NoError(t, coro.Run(ctx, func(g *coro.Group) error {
			for tag := range tags {
				g.Go(func(ctx context.Context) error {
					for i := range n {
						if err := coro.SendMessage(ctx, c, framesOf([]int{i, 600, 3}, tag*n+i), 1, tag); err != nil {
							return err
						}
					}
					return nil
				})
			}
			return nil
		}))
		return
	}
	for tag := tags - 1; tag >= 0; tag-- {
		for i := range n {
			m, err := coro.RecvMessage(ctx, c, 0, tag)
			require.NoError(t, err)
			requireFrames(t, m, []int{i, 600, 3}, tag*n+i)
		}
	}
}

// TestMessageEndedContextKeepsAcknowledgements shows that a message that is not sent
// leaves the acknowledgements that it would have carried to the next.
func TestMessageEndedContextKeepsAcknowledgements(t *testing.T) {
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	frames := []mem.Buffer{mem.Of(make([]byte, 100))}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for range 300 { // a stream of which only 64 may be without
		if c.Rank() == 1 {
			require.NoError(t, coro.SendMessage(ctx, c, frames, 0, 1))
			continue
		}
		_, err := coro.RecvMessage(ctx, c, 1, 1)
		require.NoError(t, err)
		require.ErrorIs(t, coro.SendMessage(ended, c, frames, 1, 2), context.Canceled)
	}
}

// TestMessageBackpressure shows that a sender waits for a receiver that does not
// receive, and that neither side keeps more than a window of messages.
func TestMessageBackpressure(t *testing.T) {
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	const n = 1000
	if c.Rank() == 0 {
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		sent, err := 0, error(nil)
		for ; err == nil; sent++ {
			err = coro.SendMessage(short, c, framesOf([]int{100}, sent), 1, 1)
		}
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 64, sent-1)
		require.NoError(t, coro.SendMessage(ctx, c, framesOf([]int{1}, 0), 1, 2), "another tag is not held up")
		for i := sent - 1; i < n; i++ {
			require.NoError(t, coro.SendMessage(ctx, c, framesOf([]int{100}, i), 1, 1))
		}
		return
	}
	_, err := coro.RecvMessage(ctx, c, 0, 2)
	require.NoError(t, err)
	require.Equal(t, 64, coro.Kept())
	for i := range n {
		m, err := coro.RecvMessage(ctx, c, 0, 1)
		require.NoError(t, err)
		requireFrames(t, m, []int{100}, i)
	}
	require.Equal(t, 0, coro.Kept())
}

// TestMessageManyGoroutines has many receivers and senders on the same ranks.
func TestMessageManyGoroutines(t *testing.T) {
	c := mpitest.Comm(t)
	ctx := mpitest.Context(t)
	const pairs, rounds = 50, 20
	next, previous := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
	require.NoError(t, coro.Run(ctx, func(g *coro.Group) error {
		for tag := range pairs {
			g.Go(func(ctx context.Context) error {
				for i := range rounds {
					if err := coro.SendMessage(ctx, c, framesOf([]int{tag, 2000, 20}, i), next, tag); err != nil {
						return err
					}
				}
				return nil
			})
			g.Go(func(ctx context.Context) error {
				for i := range rounds {
					m, err := coro.RecvMessage(ctx, c, previous, tag)
					if err != nil {
						return err
					}
					for j, n := range []int{tag, 2000, 20} {
						if !bytes.Equal(content(n, i+j), m.Frames[j].Bytes()) {
							return fmt.Errorf("tag %d, round %d, frame %d is wrong", tag, i, j)
						}
					}
				}
				return nil
			})
		}
		return nil
	}))
}

// TestMessageOneTag has many senders and receivers with one tag: every message
// comes once, and those of one sender in their order.
func TestMessageOneTag(t *testing.T) {
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	const goroutines, rounds = 20, 40
	if c.Rank() == 0 {
		require.NoError(t, coro.Run(ctx, func(g *coro.Group) error {
			for sender := range goroutines {
				g.Go(func(ctx context.Context) error {
					for i := range rounds {
						frames := []mem.Buffer{mem.Of([]byte{byte(sender), byte(i)}), mem.Of(content(1000*(i%3), sender))}
						if err := coro.SendMessage(ctx, c, frames, 1, 6); err != nil {
							return err
						}
					}
					return nil
				})
			}
			return nil
		}))
		return
	}
	got := make(chan [2]byte, goroutines*rounds)
	require.NoError(t, coro.Run(ctx, func(g *coro.Group) error {
		for receiver := range goroutines {
			g.Go(func(ctx context.Context) error {
				for i := range rounds {
					if receiver%2 == 0 && i%5 == 0 { // refused: it is for another
						_, err := coro.RecvMessageInto(ctx, c, nil, 0, 6)
						if !errors.Is(err, coro.ErrFrames) {
							return fmt.Errorf("want ErrFrames, got %v", err)
						}
					}
					m, err := coro.RecvMessage(ctx, c, 0, 6)
					if err != nil {
						return err
					}
					got <- [2]byte(m.Frames[0].Bytes())
				}
				return nil
			})
		}
		return nil
	}))
	seen := map[[2]byte]bool{}
	for range goroutines * rounds {
		seen[<-got] = true
	}
	require.Len(t, seen, goroutines*rounds)
}

// TestMessageComms sends on several communicators, in which the ranks have other
// numbers: messages are never mixed up.
func TestMessageComms(t *testing.T) {
	c := mpitest.Comm(t)
	ctx := mpitest.Context(t)
	backwards, err := c.Split(ctx, 0, -c.Rank())
	require.NoError(t, err)
	half, err := c.Split(ctx, c.Rank()%2, 0)
	require.NoError(t, err)
	comms := []*mpicomm.Comm{mpicomm.World(), backwards, half, c}
	sent := make(chan error, len(comms))
	for i, comm := range comms {
		go func() { // to itself, on one rank, it is not buffered by every MPI
			sent <- coro.SendMessage(ctx, comm, framesOf([]int{10, 700}, 10*i+comm.Rank()), (comm.Rank()+1)%comm.Size(), 3)
		}()
	}
	for i := len(comms) - 1; i >= 0; i-- {
		comm := comms[i]
		previous := (comm.Rank() + comm.Size() - 1) % comm.Size()
		m, err := coro.RecvMessage(ctx, comm, mpicomm.AnySource, mpicomm.AnyTag)
		require.NoError(t, err)
		require.Equal(t, previous, m.Source)
		require.Equal(t, 3, m.Tag)
		requireFrames(t, m, []int{10, 700}, 10*i+previous)
	}
	for range comms {
		require.NoError(t, <-sent)
	}
	handle, err := c.Fortran()
	require.NoError(t, err)
	foreign, err := mpicomm.FromFortran(handle)
	require.NoError(t, err)
	require.ErrorContains(t, coro.SendMessage(ctx, foreign, nil, 0, 0), "send messages on a Dup")
}

// TestMessageCancel ends contexts at every stage.
func TestMessageCancel(t *testing.T) {
	c := mpitest.Pair(t)
	ctx := mpitest.Context(t)
	if c.Rank() == 0 {
		frames := framesOf([]int{10, 8 << 20}, 1)
		short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		// The receiver is not there, so a long message cannot get through.
		err := coro.SendMessage(short, c, frames, 1, 1)
		var flight *mpicomm.InFlightError
		require.ErrorAs(t, err, &flight)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, coro.Send(ctx, c, []byte{1}, 1, 99))
		_, err = flight.Request.Wait(ctx)
		require.NoError(t, err)
		require.NoError(t, coro.SendMessage(ctx, c, framesOf([]int{5}, 2), 1, 2))
		return
	}
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	_, err := coro.RecvMessage(short, c, 0, 2)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = coro.Recv(ctx, c, make([]byte, 1), 0, 99)
	require.NoError(t, err)
	// Two wait; the one that is not served takes no message along.
	other, giveUp := context.WithCancel(ctx)
	gone := make(chan error, 1)
	go func() {
		_, err := coro.RecvMessage(other, c, 0, 5)
		gone <- err
	}()
	m, err := coro.RecvMessage(ctx, c, 0, 1)
	require.NoError(t, err)
	requireFrames(t, m, []int{10, 8 << 20}, 1)
	giveUp()
	require.ErrorIs(t, <-gone, context.Canceled)
	m, err = coro.RecvMessage(ctx, c, 0, 2)
	require.NoError(t, err)
	requireFrames(t, m, []int{5}, 2)
}

// TestMessageToSelf sends to the own rank.
func TestMessageToSelf(t *testing.T) {
	c := mpitest.Comm(t)
	ctx := mpitest.Context(t)
	for i := range 100 {
		sent := make(chan error, 1)
		lengths := []int{5, 100_000 * (i % 3)}
		go func() { sent <- coro.SendMessage(ctx, c, framesOf(lengths, i), c.Rank(), 4) }()
		m, err := coro.RecvMessage(ctx, c, c.Rank(), 4)
		require.NoError(t, err)
		requireFrames(t, m, lengths, i)
		require.NoError(t, <-sent)
	}
}

func TestWrongMessages(t *testing.T) {
	c := mpitest.Comm(t)
	ctx := mpitest.Context(t)
	before := coro.Unacknowledged(0)
	require.ErrorIs(t, coro.SendMessage(ctx, c, nil, c.Size(), 0), mpicomm.ErrRank)
	require.ErrorIs(t, coro.SendMessage(ctx, c, nil, mpicomm.AnySource, 0), mpicomm.ErrRank)
	require.ErrorIs(t, coro.SendMessage(ctx, c, nil, 0, -5), mpicomm.ErrTag)
	require.ErrorIs(t, coro.SendMessage(ctx, nil, nil, 0, 0), mpicomm.ErrComm)
	require.ErrorContains(t, coro.SendMessage(ctx, c, nil, c.Size(), 0), "sendmessage")
	require.ErrorIs(t, coro.SendMessage(ctx, c, make([]mem.Buffer, 1<<20+1), 0, 0), mpicomm.ErrCount)
	require.ErrorIs(t, coro.SendMessage(ctx, c, []mem.Buffer{mem.FromPointer(4096, 10, mem.Device, nil)}, 0, 0), errors.ErrUnsupported)
	defer coro.SetPlans("inline")()
	require.ErrorIs(t, coro.SendMessage(ctx, c, []mem.Buffer{mem.Of(make([]byte, 65<<20))}, 0, 0), mpicomm.ErrCount)
	require.NoError(t, coro.SendMessage(ctx, c, nil, mpicomm.ProcNull, 0))
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for range 100 {
		require.ErrorIs(t, coro.SendMessage(ended, c, framesOf([]int{3}, 0), 0, 0), context.Canceled)
	}
	_, err := coro.RecvMessage(ctx, c, c.Size(), 0)
	require.ErrorIs(t, err, mpicomm.ErrRank)
	m, err := coro.RecvMessage(ctx, c, mpicomm.ProcNull, 0)
	require.NoError(t, err)
	require.Equal(t, mpicomm.ProcNull, m.Source)
	require.Equal(t, before, coro.Unacknowledged(0), "nothing took a slot")
}

// TestLargeMessage has frames above 2 GiB.
func TestLargeMessage(t *testing.T) {
	if os.Getenv("MPI4GO_TEST_LARGE") != "1" {
		t.Skip("moves more than 2 GiB: set MPI4GO_TEST_LARGE=1")
	}
	c := mpitest.Pair(t)
	ctx := context.Background()
	const n = 1<<31 + 11
	for _, plan := range []string{"datatype", "request"} {
		restore := coro.SetPlans(plan)
		if c.Rank() == 0 {
			big := make([]byte, n)
			big[0], big[n-1] = 3, 4
			require.NoError(t, coro.SendMessage(ctx, c, []mem.Buffer{mem.Of([]byte{1}), mem.Of(big), mem.Of([]byte{2, 2})}, 1, 1))
		} else {
			m, err := coro.RecvMessage(ctx, c, 0, 1)
			require.NoError(t, err)
			big := m.Frames[1].Bytes()
			require.Equal(t, []byte{1, 3, 4, 2}, []byte{m.Frames[0].Bytes()[0], big[0], big[n-1], m.Frames[2].Bytes()[1]})
			require.Len(t, big, n)
		}
		restore()
	}
}
