package transport_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/mpi4go/mpi4go/transport"
	"github.com/stretchr/testify/require"
)

// soakTime is the variable that says for how long to run TestSoak.
const soakTime = "MPI4GO_TEST_SOAK"

// TestSoak is run by make soak. Every rank dials all ranks, and accepts, all the time;
// both sides of a connection send random messages, with deadlines that end in their
// midst, until one closes or aborts it. All that comes is verified. Nothing may be
// left at the end.
func TestSoak(t *testing.T) {
	long, err := time.ParseDuration(os.Getenv(soakTime))
	if err != nil {
		t.Skip("make soak runs it: " + soakTime + " is not set")
	}
	mpitest.NeedRanks(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), long+2*time.Minute)
	defer cancel()
	s := &soak{ctx: ctx, end: time.Now().Add(long), size: mpicomm.World().Size()}
	goroutines := runtime.NumGoroutine()

	stable := listen(t, "soak", transport.Config{})
	var serving, dialing sync.WaitGroup
	serving.Go(func() { s.serve(stable, &serving) })
	for i := range 8 {
		dialing.Go(func() { s.dialAll(rand.New(rand.NewPCG(uint64(mpicomm.World().Rank()), uint64(i)))) })
	}
	for i := range 2 {
		dialing.Go(func() { s.comeAndGo(i) })
	}
	var early, late uint64 // kilobytes in memory
	dialing.Go(func() {
		time.Sleep(time.Until(s.end) * 3 / 10)
		early = resident(t)
		time.Sleep(time.Until(s.end))
		late = resident(t)
	})
	dialing.Wait()
	mpitest.Sync(t) // nobody dials any more
	require.NoError(t, stable.Close())
	serving.Wait()

	t.Logf("%d connections dialed, %d of them aborted, %d dials failed as they may; %d messages verified, %d calls ended by a deadline, %d of them under way; %d kB resident after 30 %%, %d at the end",
		s.dialed.Load(), s.aborted.Load(), s.refused.Load(), s.verified.Load(), s.late.Load(), s.flights.Load(), early, late)
	for _, err := range s.wrong {
		t.Error(err)
	}
	require.Positive(t, s.verified.Load())
	require.Eventually(t, func() bool { return transport.Open() == 0 }, 20*time.Second, 10*time.Millisecond, "all connections are over")
	const ours = 3 // the keeper, keep-alive, a timer's
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines+ours }, 40*time.Second, 50*time.Millisecond,
		"%d goroutines, %d before", runtime.NumGoroutine(), goroutines)
	require.LessOrEqual(t, late, early+early/4+64<<10, "memory grows: kilobytes at the end, and after 30 %% of the time")
	mpitest.Sync(t)
}

// resident is how many kilobytes the process has in memory.
func resident(t *testing.T) uint64 {
	runtime.GC()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Error(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	fields := strings.Fields(rest)
	kilobytes, err := strconv.ParseUint(fields[0], 10, 64)
	if err != nil {
		t.Error(err)
	}
	return kilobytes
}

// soak is one run.
type soak struct {
	ctx  context.Context
	end  time.Time
	size int

	dialed, aborted, refused, verified, late, flights atomic.Uint64

	mu    sync.Mutex
	wrong []error // at most a few
}

func (s *soak) fail(format string, a ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.wrong) < 10 {
		s.wrong = append(s.wrong, fmt.Errorf(format, a...))
	}
}

// over tells whether no more connections are to be made.
func (s *soak) over() bool { return time.Now().After(s.end) || s.ctx.Err() != nil }

// serve accepts connections until the listener is closed.
func (s *soak) serve(l *transport.Listener, serving *sync.WaitGroup) {
	for {
		c, err := l.Accept(s.ctx)
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				s.fail("%v", err)
			}
			return
		}
		serving.Go(func() { s.accepted(c) })
	}
}

// accepted is the listener's part in a connection: the first message says which side
// ends it.
func (s *soak) accepted(c *transport.Conn) {
	frames, err := c.RecvMessage(s.ctx)
	if err != nil {
		s.ended(c, err) // the peer has aborted it already
		_ = c.Close()
		return
	}
	s.play(c, binary.LittleEndian.Uint64(frames[0].Bytes()), frames[1].Bytes()[0] == 1)
}

// comeAndGo is a listener that is there for short times.
func (s *soak) comeAndGo(i int) {
	r := rand.New(rand.NewPCG(99, uint64(i)))
	var serving sync.WaitGroup
	for !s.over() {
		l, err := transport.Listen(s.ctx, fmt.Sprintf("mpi://*/brief%d", i), transport.Config{Backlog: 1 + r.IntN(4)})
		if err != nil {
			s.fail("%v", err)
			return
		}
		serving.Go(func() { s.serve(l, &serving) })
		time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond)
		if err := l.Close(); err != nil {
			s.fail("%v", err)
		}
		time.Sleep(time.Duration(r.IntN(50)) * time.Millisecond)
	}
	serving.Wait()
}

// dialAll makes one connection after the other.
func (s *soak) dialAll(r *rand.Rand) {
	for !s.over() {
		peer, service, config := r.IntN(s.size), "soak", transport.Config{}
		brief := r.IntN(4) == 0
		if brief {
			service, config.ConnectTimeout = fmt.Sprintf("brief%d", r.IntN(2)), time.Duration(1+r.IntN(100))*time.Millisecond
		}
		c, err := transport.Dial(s.ctx, fmt.Sprintf("mpi://%d/%s", peer, service), config)
		if err != nil {
			s.refused.Add(1)
			if !brief || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, transport.ErrRefused) && !errors.Is(err, transport.ErrUnreachable) {
				s.fail("%v", err)
			}
			continue
		}
		s.dialed.Add(1)
		// A brief listener may drop the connection before anybody reads the first
		// message: then that looks as if it had been ended without its last message.
		iEnd := brief || r.IntN(2) == 0
		seed, theirs := r.Uint64(), byte(1)
		if iEnd {
			theirs = 0
		}
		first := binary.LittleEndian.AppendUint64(nil, seed)
		if err := c.SendMessage(s.ctx, []mem.Buffer{mem.Of(first), mem.Of([]byte{theirs})}); err != nil {
			s.ended(c, err)
			_ = c.Close()
			continue
		}
		s.play(c, ^seed, iEnd)
	}
}

// play sends and receives at the same time, until one side, this one if iEnd, closes
// or aborts the connection.
func (s *soak) play(c *transport.Conn, seed uint64, iEnd bool) {
	r := rand.New(rand.NewPCG(seed, 1))
	abort := iEnd && r.IntN(4) == 0
	received := make(chan struct{})
	go func() {
		defer close(received)
		s.receiveAll(c, rand.New(rand.NewPCG(seed, 2)), iEnd)
	}()
	s.sendAll(c, r, iEnd && !abort)
	switch {
	case abort:
		s.aborted.Add(1)
		c.Abort()
	case iEnd:
		if err := c.Close(); err != nil {
			s.fail("%v", err)
		}
	}
	<-received
	_ = c.Close()
}

// head is the first frame of a message: its number, whether it is the last (1), and a
// seed of its other frames.
type head [3]uint64

func (h head) frame() mem.Buffer { return mem.Of(h[:]) }

func headOf(b mem.Buffer) (h head, err error) {
	_, err = binary.Decode(b.Bytes(), binary.NativeEndian, &h)
	return h, err
}

// sendAll sends a random number of messages, and then, if it is to, a last one.
func (s *soak) sendAll(c *transport.Conn, r *rand.Rand, andLast bool) {
	n := r.IntN(100)
	for i := uint64(0); n >= 0; n-- {
		isLast := n == 0
		if isLast && !andLast {
			return
		}
		h := head{i, 0, r.Uint64()}
		if isLast {
			h[1] = 1
		}
		frames := append([]mem.Buffer{h.frame()}, soakFrames(h[2])...)
		ctx, cancel := s.context(r, c.SetWriteDeadline)
		if isLast {
			cancel()
			ctx, cancel = s.ctx, func() {}
			_ = c.SetWriteDeadline(time.Time{})
		}
		err := c.SendMessage(ctx, frames)
		cancel()
		_ = c.SetWriteDeadline(time.Time{})
		var flight *mpicomm.InFlightError
		switch {
		case err == nil:
			i++
		case s.timedOut(err):
			if errors.As(err, &flight) { // it will arrive
				i++
			}
		default:
			s.ended(c, err)
			return
		}
	}
}

// receiveAll receives until the connection has ended, and verifies all that comes.
func (s *soak) receiveAll(c *transport.Conn, r *rand.Rand, iEnd bool) {
	sawLast := false
	for expected := uint64(0); ; {
		if r.IntN(50) == 0 { // so that the sender has to wait
			time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
		}
		ctx, cancel := s.context(r, c.SetReadDeadline)
		frames, err := c.RecvMessage(ctx)
		cancel()
		_ = c.SetReadDeadline(time.Time{})
		var flight *mpicomm.InFlightError
		switch {
		case err == nil:
		case s.timedOut(err):
			if !errors.As(err, &flight) { // there was none
				continue
			}
			if _, err := flight.Request.Wait(s.ctx); err != nil {
				s.ended(c, err)
				return
			}
		default:
			if errors.Is(err, transport.ErrClosedByPeer) && !sawLast && !iEnd {
				s.fail("%v: the last message did not arrive, after %d", c, expected)
			}
			s.ended(c, err)
			return
		}
		if sawLast {
			s.fail("%v: a message after the last", c)
		}
		h, err := headOf(frames[0])
		if err != nil || h[0] != expected {
			s.fail("%v: message %v, not %d: %v", c, h, expected, err)
			return
		}
		if err := sameFrames(frames[1:], soakFrames(h[2])); err != nil {
			s.fail("%v: message %d: %w", c, expected, err)
			return
		}
		sawLast = h[1] == 1
		expected++
		s.verified.Add(1)
	}
}

// context is that of a call; every now and then it ends soon, or the deadline does.
func (s *soak) context(r *rand.Rand, deadline func(time.Time) error) (context.Context, context.CancelFunc) {
	soon := time.Duration(r.IntN(3000)) * time.Microsecond
	switch r.IntN(20) {
	case 0:
		return context.WithTimeout(s.ctx, soon)
	case 1:
		_ = deadline(time.Now().Add(soon))
	}
	return context.WithCancel(s.ctx)
}

// timedOut tells whether a call was ended by its own deadline.
func (s *soak) timedOut(err error) bool {
	timeout := net.Error(nil)
	if s.ctx.Err() != nil || !errors.As(err, &timeout) || !timeout.Timeout() {
		return false
	}
	s.late.Add(1)
	if flight := (*mpicomm.InFlightError)(nil); errors.As(err, &flight) {
		s.flights.Add(1)
	}
	return true
}

// ended checks that a call has failed because its connection was ended.
func (s *soak) ended(c *transport.Conn, err error) {
	if lost := (*transport.PeerLostError)(nil); !errors.Is(err, net.ErrClosed) || errors.As(err, &lost) {
		s.fail("%v: %w", c, err)
	}
}

// soakFrames makes the frames that belong to a seed.
func soakFrames(seed uint64) []mem.Buffer {
	r := rand.New(rand.NewPCG(seed, 3))
	n, longest := r.IntN(8), 1<<uint(r.IntN(15))
	switch r.IntN(100) {
	case 0:
		n = 200
	case 1:
		n, longest = 1+r.IntN(2), 1<<20
	}
	frames := make([]mem.Buffer, n)
	for i := range frames {
		b := make([]byte, r.IntN(longest))
		x := r.Uint64()
		for j := range b {
			x = x*6364136223846793005 + 1442695040888963407
			b[j] = byte(x >> 56)
		}
		frames[i] = mem.Of(b)
	}
	return frames
}

func sameFrames(got, want []mem.Buffer) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d frames, not %d", len(got), len(want))
	}
	for i := range got {
		if string(got[i].Bytes()) != string(want[i].Bytes()) {
			return fmt.Errorf("frame %d of %d bytes is not what was sent, of %d", i, got[i].Len(), want[i].Len())
		}
	}
	return nil
}
