package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
)

// netConn is a connection as a stream of bytes.
type netConn struct {
	*Conn

	writing sync.Mutex
	flying  []flight      // pieces that are on their way, oldest first; under writing
	reading chan struct{} // held by the one reader
	rest    []byte        // of a message that was read in part; under reading
	block   *[]byte       // its memory, if that is of the pool
	landing *landing      // a message whose Read ended while it was under way; under reading
}

const (
	pieceSize = 256 << 10 // how much of a long Write travels as one message
	aloft     = 4         // how many long messages may be on their way
	short     = 3 << 10   // messages that go out in the header: they do not wait for the reader
)

// flight is a piece on its way.
type flight struct {
	request *mpicomm.Request
	block   *[]byte
}

// landing is a message that is being received into its frames.
type landing struct {
	flight
	frames []mem.Buffer
}

var pieces = sync.Pool{New: func() any { b := make([]byte, pieceSize); return &b }}

// NetConn returns the connection as a net.Conn, for programs that know those: a
// stream of bytes in each direction. Both sides have to use it so. It must not be
// mixed with SendMessage and RecvMessage, but closing, deadlines and Stats are shared.
//
// Write copies what it is given, and returns when that is on its way; it waits while
// the peer does not read: a MiB may be under way, and 64 messages. Read returns io.EOF after the peer has closed the
// connection. Close does not wait for a Write of another goroutine, which then fails
// with an error that wraps net.ErrClosed.
func (c *Conn) NetConn() net.Conn {
	return &netConn{Conn: c, reading: make(chan struct{}, 1)}
}

// LocalAddr is that of the connection.
func (c *netConn) LocalAddr() net.Addr { return c.local }

// RemoteAddr is the peer's address.
func (c *netConn) RemoteAddr() net.Addr { return c.peer }

// Close closes the connection. A Write that waits for the peer ends.
func (c *netConn) Close() error {
	c.write.fail(ErrClosedHere)
	return c.close(-1)
}

// Write sends a copy of p, in pieces of at most 256 KiB.
func (c *netConn) Write(p []byte) (n int, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	for n < len(p) {
		piece := p[n:min(len(p), n+pieceSize)]
		if err := c.writePiece(piece); err != nil {
			return n, err
		}
		n += len(piece)
	}
	return n, nil
}

// writePiece sends a copy of p as a message of one frame. While that is under way the
// copy belongs to the library.
func (c *netConn) writePiece(p []byte) error {
	ctx, side, _ := c.write.with(context.Background())
	if err := c.land(ctx); err != nil {
		return c.failure("write", side, err)
	}
	b := pieces.Get().(*[]byte)
	frames := []mem.Buffer{mem.Of((*b)[:copy(*b, p)])}
	if len(p) <= short {
		err := c.end.Send(ctx, frames)
		var flight *mpicomm.InFlightError
		switch {
		case err == nil:
		case errors.As(err, &flight):
			return nil // the next piece will find what has ended
		default:
			err = c.failure("write", side, err)
		}
		pieces.Put(b)
		return err
	}
	request, err := c.end.Post(ctx, frames)
	if err != nil {
		pieces.Put(b)
		return c.failure("write", side, err)
	}
	c.flying = append(c.flying, flight{request.(*mpicomm.Request), b})
	return nil
}

// land takes back the memory of pieces that have arrived, and waits until few enough
// are on their way.
func (c *netConn) land(ctx context.Context) error {
	for len(c.flying) > 0 {
		first := c.flying[0]
		_, done, err := first.request.Test()
		if !done {
			if len(c.flying) < aloft {
				break
			}
			if _, err = first.request.Wait(ctx); ctx.Err() != nil {
				break
			}
		}
		c.flying = slices.Delete(c.flying, 0, 1)
		pieces.Put(first.block)
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Read reads what there is, at least a byte.
func (c *netConn) Read(p []byte) (int, error) {
	ctx, side, _ := c.read.with(context.Background())
	select {
	case c.reading <- struct{}{}:
	case <-ctx.Done():
		return 0, c.eof(c.failure("read", side, ctx.Err()))
	}
	defer func() { <-c.reading }()
	if err := ctx.Err(); err != nil {
		return 0, c.eof(c.failure("read", side, err))
	}
	for len(c.rest) == 0 && len(p) > 0 {
		c.recycle()
		if err := c.readMessage(); err != nil {
			return 0, c.eof(err)
		}
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// readMessage receives the next message. If the deadline comes while it is under way,
// that one is still the next.
func (c *netConn) readMessage() error {
	if c.landing != nil {
		return c.readLanding()
	}
	frames, err := c.RecvMessageAlloc(context.Background(), func(in []coro.FrameInfo) ([]mem.Buffer, error) {
		frames := make([]mem.Buffer, len(in))
		for i, f := range in {
			if i == 0 && f.Len <= pieceSize {
				c.block = pieces.Get().(*[]byte)
				frames[i] = mem.Of((*c.block)[:f.Len])
				continue
			}
			frames[i] = mem.Of(make([]byte, f.Len))
		}
		return frames, nil
	})
	if err != nil {
		var under *mpicomm.InFlightError
		if errors.As(err, &under) {
			c.landing = &landing{flight{under.Request, c.block}, frames}
		}
		c.block = nil // if it was taken, the library may keep it
		return err
	}
	c.take(frames)
	return nil
}

// readLanding waits for the message that is under way.
func (c *netConn) readLanding() error {
	ctx, side, _ := c.read.with(context.Background())
	l := c.landing
	if _, err := l.request.Wait(ctx); err != nil {
		_, done, own := l.request.Test()
		if !done {
			return c.failure("read", side, err)
		}
		if own != nil {
			c.landing = nil
			return c.failure("read", side, own)
		}
	}
	c.landing, c.block = nil, l.block
	c.take(l.frames)
	return nil
}

// take makes the frames of a message what is read next.
func (c *netConn) take(frames []mem.Buffer) {
	for i, f := range frames {
		if i == 0 {
			c.rest = f.Bytes()
		} else {
			c.rest = append(c.rest[:len(c.rest):len(c.rest)], f.Bytes()...)
		}
	}
}

// recycle gives the memory of what was read back.
func (c *netConn) recycle() {
	if c.block != nil {
		pieces.Put(c.block)
		c.block = nil
	}
}

// eof is what Read returns at the end of the stream.
func (c *netConn) eof(err error) error {
	if errors.Is(err, ErrClosedByPeer) {
		return io.EOF
	}
	return err
}

// netListener is a listener of net.Conns.
type netListener struct{ *Listener }

// NetListener returns the listener as a net.Listener, whose Accept returns what
// [Conn.NetConn] does.
func (l *Listener) NetListener() net.Listener { return netListener{l} }

// Accept returns the next connection.
func (l netListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept(context.Background())
	if err != nil {
		return nil, err
	}
	return c.NetConn(), nil
}

// Addr is the address that others dial.
func (l netListener) Addr() net.Addr { return l.ContactAddr() }

// DialNet is [Dial] for who wants a net.Conn, such as the dialers of net/http and
// gRPC.
func DialNet(ctx context.Context, addr string, config Config) (net.Conn, error) {
	c, err := Dial(ctx, addr, config)
	if err != nil {
		return nil, err
	}
	return c.NetConn(), nil
}
