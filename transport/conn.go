package transport

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/internal/inner"
	"github.com/mpi4go/mpi4go/internal/wire"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
)

// Conn is a connection: two streams of messages of many buffers, one in each
// direction, each in order. Its methods may be called from any goroutine. Any
// number of them may send and receive at a time: a message is sent and received as
// a whole, those of one goroutine in its order, and receivers are served in the
// order of their calls.
//
// A sender may be 64 messages ahead of the receiver; then SendMessage waits. So a
// peer that does not receive holds up this connection and no other, and the memory
// of both sides is bounded.
type Conn struct {
	node        *node
	config      Config
	id, remote  uint32
	local, peer Addr
	end         inner.End
	version     uint8
	features    uint16
	read, write side

	joined, half bool // it counts for keep-alive, and among those that Listener.half counts; under node.mu

	mu       sync.Mutex
	state    connState
	answer   chan struct{} // of Dial: it is ready when there is an answer
	refusal  error         // of Dial: what the answer was
	listener *Listener     // of a connection that Accept has not returned yet
	ended    error         // why it is no longer open
	told     bool          // the peer knows that it has ended here
	heard    bool          // and we that it has ended there
}

type connState uint8

const (
	dialing  connState = iota // until the peer accepts
	accepted                  // until the peer has seen that
	connected
	closed
)

// LocalAddr is the address of this side: of an accepted connection that of its
// listener, of a dialed one this rank's.
func (c *Conn) LocalAddr() Addr { return c.local }

// PeerAddr is the address of the other side, with its rank in the job.
func (c *Conn) PeerAddr() Addr { return c.peer }

// String names both sides.
func (c *Conn) String() string { return fmt.Sprintf("%v-%v", c.local, c.peer) }

// SendMessage sends a message of many buffers, its frames, and suspends the
// goroutine until all of them are free again. They travel as those of
// [coro.SendMessage] do. The frames are borrowed until it returns. That does not mean
// that the message was received.
//
// When the context or the write deadline ends before the message had its turn, the
// error is that, nothing was sent, and the connection is as before. When it ends
// after that, the error is also an [*mpicomm.InFlightError]: the message will
// arrive, in its place, but its frames belong to the library until the request of the
// error is done. The connection can be used further in both cases.
//
// Errors: [ErrClosedHere], [ErrClosedByPeer], [ErrAbortedByPeer] or a
// [*PeerLostError], which all wrap net.ErrClosed; os.ErrDeadlineExceeded; the
// context's; mpicomm.ErrCount for a message beyond the limits of either side.
func (c *Conn) SendMessage(ctx context.Context, frames []mem.Buffer) error {
	defer region(ctx, "mpi write", c).End()
	ctx, side, merged := c.write.with(ctx)
	err := c.end.Send(ctx, frames)
	merged.release()
	if err != nil {
		return c.failure("write", side, err)
	}
	return nil
}

// RecvMessage receives a message into memory made for it, and suspends the
// goroutine until it is there. No two frames share memory, nor do those of two
// messages.
//
// When the context or the read deadline ends before a message is there, the error is
// that, and nothing was received. When it ends while the frames of one are under
// way, the error is also an [*mpicomm.InFlightError]: the message was taken, and its
// frames, which are returned too, are complete when the request of the error is
// done; until then they belong to the library. The connection can be used further in
// both cases.
//
// Errors: see [Conn.SendMessage].
func (c *Conn) RecvMessage(ctx context.Context) ([]mem.Buffer, error) {
	return c.receive(ctx, c.end.Recv)
}

// RecvMessageInto is [Conn.RecvMessage] into buffers that are there. They are
// borrowed from the moment that a message is there until it returns.
//
// Errors: [coro.ErrFrames] if their number or a length is not the message's, which is
// then left to the next receive; those of RecvMessage.
func (c *Conn) RecvMessageInto(ctx context.Context, frames []mem.Buffer) error {
	_, err := c.receive(ctx, func(ctx context.Context) ([]mem.Buffer, error) { return c.end.RecvInto(ctx, frames) })
	return err
}

// RecvMessageAlloc is [Conn.RecvMessage] into buffers that a function supplies when it
// knows what comes. Each must have the length of its frame. The function is called on
// the caller's goroutine, and may block; if it fails, its error is wrapped, and the
// message is left to the next receive.
func (c *Conn) RecvMessageAlloc(ctx context.Context, alloc func([]coro.FrameInfo) ([]mem.Buffer, error)) ([]mem.Buffer, error) {
	return c.receive(ctx, func(ctx context.Context) ([]mem.Buffer, error) {
		return c.end.RecvAlloc(ctx, func(frames []wire.Frame) ([]mem.Buffer, error) {
			infos := make([]coro.FrameInfo, len(frames))
			for i, f := range frames {
				infos[i] = coro.FrameInfo{Len: f.Len, Kind: mem.Kind(f.Kind)}
			}
			return alloc(infos)
		})
	})
}

func (c *Conn) receive(ctx context.Context, from func(context.Context) ([]mem.Buffer, error)) ([]mem.Buffer, error) {
	defer region(ctx, "mpi read", c).End()
	ctx, side, merged := c.read.with(ctx)
	frames, err := from(ctx)
	merged.release()
	if err != nil {
		return frames, c.failure("read", side, err)
	}
	return frames, nil
}

// failure says why a call has failed: its own context may have ended because the
// side's has.
func (c *Conn) failure(op string, side *sideContext, err error) error {
	if errors.Is(err, context.Canceled) && side.ctx.Err() != nil {
		cause := context.Cause(side.ctx)
		var flight *mpicomm.InFlightError
		if errors.As(err, &flight) {
			err = &mpicomm.InFlightError{Request: flight.Request, Err: cause}
		} else {
			err = cause
		}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		err = timeoutError{err}
	}
	return opError(op, &c.local, &c.peer, err)
}

// SetDeadline sets the deadline of both directions.
func (c *Conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetReadDeadline sets when receives fail with os.ErrDeadlineExceeded, those that
// wait and later ones. The zero Time is never. After Close it returns the error of a
// closed connection.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadline(&c.read, t) }

// SetWriteDeadline is [Conn.SetReadDeadline] for sends.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(&c.write, t) }

func (c *Conn) setDeadline(s *side, t time.Time) error {
	c.mu.Lock()
	ended := c.ended
	c.mu.Unlock()
	if errors.Is(ended, ErrClosedHere) {
		return opError("set", &c.local, &c.peer, ended)
	}
	s.set(t)
	return nil
}

// Stats counts what a connection has done so far.
type Stats struct {
	MessagesSent, MessagesReceived uint64
	BytesSent, BytesReceived       uint64 // of frames
	BytesStaged                    uint64 // of those sent that were copied into headers
	FramesInline                   uint64 // sent by each plan of Config.Plans
	FramesDatatype, FramesRequest  uint64
	FramesChunks                   uint64 // sent in chunks: those of device memory, and long ones to a peer that may have some
	CreditStalls                   uint64 // messages that had to wait because the peer was too far behind
	Unacknowledged                 int    // messages sent that the peer has not begun to receive, as far as is known
	Waiting                        int    // messages that have come and wait for a receive
}

// Stats returns what the connection has done so far, also after its end.
func (c *Conn) Stats() Stats {
	s := c.end.Stats()
	return Stats{
		MessagesSent: s.Sent, MessagesReceived: s.Received, BytesSent: s.SentBytes, BytesReceived: s.ReceivedBytes, BytesStaged: s.Staged,
		FramesInline: s.Plans[wire.Inline], FramesDatatype: s.Plans[wire.Datatype], FramesRequest: s.Plans[wire.Request], FramesChunks: s.Plans[wire.Chunks],
		CreditStalls: s.Stalls, Unacknowledged: s.Unacknowledged, Waiting: s.Kept,
	}
}

// Close ends the connection. Messages that other goroutines are sending get through
// before, if the peer makes room for them within Config.FlushTimeout; the peer
// receives all of them, and then learns of the end. Receives on this side fail at once
// with [ErrClosedHere], and so do all later calls. Messages that have arrived and were
// not received are dropped. The calls of the peer fail with [ErrClosedByPeer], its
// receives after the last message.
//
// Close may be called again, and after Abort: then it does nothing. The error says
// that messages were dropped after FlushTimeout.
func (c *Conn) Close() error {
	return c.close(c.config.FlushTimeout)
}

func (c *Conn) close(flush time.Duration) error {
	if !c.finish(ErrClosedHere) {
		return nil
	}
	c.read.fail(ErrClosedHere)
	c.end.EndRecv(ErrClosedHere, true)
	quiet := make(chan struct{})
	c.end.EndSend(ErrClosedHere, flush > 0, func() { close(quiet) })
	var late error
	select {
	case <-quiet:
	default:
		timer := time.NewTimer(max(flush, 0))
		select {
		case <-quiet:
		case <-timer.C:
			late = opError("close", &c.local, &c.peer, fmt.Errorf("messages were dropped, because the peer made no room for them in %v", flush))
			c.config.Logger.Warn("mpi connection closed with messages that were not sent", "conn", c, "waited", flush)
			c.end.EndSend(ErrClosedHere, false, nil)
			<-quiet // what has its turn is posted without delay
		}
		timer.Stop()
	}
	c.tell(msgClose)
	return late
}

// Abort ends the connection at once: messages that wait for their turn are not sent,
// those under way become [*mpicomm.InFlightError]s. The calls of this side fail with
// [ErrClosedHere], those of the peer with [ErrAbortedByPeer]. Abort does not wait, and
// may be called again, and after Close.
func (c *Conn) Abort() {
	c.abort(ErrClosedHere)
}

func (c *Conn) abort(why error) {
	c.mu.Lock()
	if c.state == dialing { // there is nobody to tell
		c.refusal = why
		c.mu.Unlock()
		c.node.link.Signal(c.answer)
		return
	}
	c.mu.Unlock()
	if c.finish(why) {
		c.drop(why, func() { c.tell(msgAbort) })
	}
}

// drop fails all calls.
func (c *Conn) drop(why error, quiet func()) {
	c.read.fail(why)
	c.write.fail(why)
	c.end.EndRecv(why, true)
	c.end.EndSend(why, false, quiet)
}

// finish makes the connection one that has ended on this side; it returns false if it
// was so before.
func (c *Conn) finish(why error) bool {
	c.mu.Lock()
	if errors.Is(c.ended, ErrClosedHere) {
		c.mu.Unlock()
		return false
	}
	first := c.ended == nil
	c.ended, c.state = why, closed
	c.mu.Unlock()
	if first {
		c.config.Logger.Debug("mpi connection ended", "conn", c, "why", why)
	}
	return first || errors.Is(why, ErrClosedHere)
}

// tell tells the peer that the connection has ended here, once. When it has ended
// there, too, nothing is left of it.
func (c *Conn) tell(kind uint32) {
	c.mu.Lock()
	first, over := !c.told, c.heard
	c.told = true
	c.mu.Unlock()
	if first {
		c.node.send(c.peer.Rank, control{kind: kind, to: c.remote})
	}
	if over {
		c.node.remove(c)
	}
}

// handle is called with a control message for this connection, and must not wait.
func (c *Conn) handle(m control) {
	switch m.kind {
	case msgAccept, msgRefuse:
		c.answered(m)
	case msgConfirm:
		c.confirmed()
	case msgClose, msgAbort:
		c.hungUp(m.kind)
	}
}

// hungUp is called when the peer has ended the connection.
func (c *Conn) hungUp(kind uint32) {
	why := ErrClosedByPeer
	if kind == msgAbort {
		why = ErrAbortedByPeer
	}
	c.mu.Lock()
	c.heard = true
	here, told, l := c.ended != nil, c.told, c.listener
	if !here {
		c.ended, c.state = why, closed
	}
	c.listener = nil
	c.mu.Unlock()
	if !here {
		c.config.Logger.Debug("mpi connection ended by its peer", "conn", c, "why", why)
	}
	if l != nil {
		l.lost(c)
	}
	switch {
	case told:
		c.node.remove(c)
	case here: // Close is flushing: nobody receives that any more
		c.end.EndSend(why, false, nil)
	case kind == msgClose:
		c.end.EndSend(why, false, func() { c.tell(msgClose) }) // before a receiver can learn of it
		c.end.EndRecv(why, false)
	default:
		c.drop(why, func() { c.tell(msgClose) })
	}
}
