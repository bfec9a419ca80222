package transport

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mpi4go/mpi4go/internal/inner"
	"github.com/mpi4go/mpi4go/mpicomm"
)

// node is what a process has for its connections.
type node struct {
	link     inner.Connections
	versions atomic.Pointer[versions]
	logger   atomic.Value // *slog.Logger, of the last Config that had one

	mu        sync.Mutex
	ended     bool // Finalize was called
	listeners map[string]*Listener
	conns     map[uint32]*Conn // by their number here, until both sides have ended them
	last      uint32           // the number of the last connection
	peers     map[int]*peer
	ticking   bool  // the goroutine of keepalive.go runs
	over      Stats // of the connections that were removed

	counts counters
}

// versions of the protocol that a process speaks.
type versions struct{ least, most uint8 }

var (
	theNode  atomic.Pointer[node]
	openLock sync.Mutex
)

// openNode returns the node of this process. From now on it answers the others.
func openNode() (*node, error) {
	if n := theNode.Load(); n != nil && mpicomm.Initialized() {
		return n, nil
	}
	link, err := inner.OpenConnections()
	if err != nil {
		return nil, err
	}
	openLock.Lock()
	defer openLock.Unlock()
	if n := theNode.Load(); n != nil {
		return n, nil
	}
	n := &node{link: link, listeners: map[string]*Listener{}, conns: map[uint32]*Conn{}, peers: map[int]*peer{}}
	n.versions.Store(&versions{leastVersion, mostVersion})
	n.logger.Store(slog.New(slog.DiscardHandler))
	inner.BeforeFinalize(n.finalize)
	theNode.Store(n)
	link.Serve(n.handle)
	return n, nil
}

func (n *node) log() *slog.Logger { return n.logger.Load().(*slog.Logger) }

// tellTo makes the logger of a Config the one that is told of what belongs to no
// connection.
func (n *node) tellTo(l *slog.Logger) {
	if l.Handler() != slog.DiscardHandler {
		n.logger.Store(l)
	}
}

// send sends a control message. It does not wait. An error of MPI here would be met
// by the messages of the connection, too.
func (n *node) send(dest int, m control) {
	if err := n.link.Control(dest, m.kind, m.encode()); err != nil {
		n.log().Error("mpi connection: control message not sent", "rank", dest, "err", err)
	}
}

// handle is called with every control message, in the order in which they come from
// a rank, and must not wait.
func (n *node) handle(source int, kind uint32, body []byte) {
	m, err := decode(kind, body)
	if err != nil {
		n.log().Error("mpi connection: control message refused", "rank", source, "err", err)
		return
	}
	switch m.kind {
	case msgDial:
		n.dialed(source, m)
		return
	case msgPing:
		n.send(source, control{kind: msgPong})
		return
	case msgPong:
		return // it was heard
	}
	n.mu.Lock()
	c := n.conns[m.to]
	if c != nil && c.peer.Rank != source {
		c = nil
	}
	n.mu.Unlock()
	switch {
	case c != nil:
		c.handle(m)
	case m.kind == msgAccept: // Dial has given up
		n.send(source, control{kind: msgAbort, to: m.from})
	}
}

// add gives a connection a number that no other has. It returns false after
// Finalize. The caller holds mu.
func (n *node) add(c *Conn) bool {
	if n.ended {
		return false
	}
	for n.last++; n.conns[n.last] != nil; n.last++ {
	}
	c.id = n.last
	c.end = n.link.Open(c.peer.Rank, c.id)
	n.conns[c.id] = c
	return true
}

// remove forgets a connection that both sides have ended.
func (n *node) remove(c *Conn) {
	n.mu.Lock()
	_, there := n.conns[c.id]
	delete(n.conns, c.id)
	if there {
		n.leave(c)
		n.over.add(c.Stats())
	}
	n.mu.Unlock()
	if there {
		c.end.Forget()
	}
}

// finalize ends all that is open, and waits a while until the peers know.
func (n *node) finalize() {
	n.mu.Lock()
	n.ended = true
	var listeners []*Listener
	for _, l := range n.listeners {
		listeners = append(listeners, l)
	}
	conns := n.all(nil)
	n.mu.Unlock()
	for _, l := range listeners {
		_ = l.Close()
	}
	for _, c := range conns {
		c.abort(ErrClosedHere)
	}
	const patience = 5 * time.Second
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(200 * time.Microsecond) {
		n.mu.Lock()
		left := len(n.conns)
		n.mu.Unlock()
		if left == 0 && !n.link.Discarding() {
			return
		}
		n.link.Attend()
	}
}

// all lists the connections, or those with a peer. The caller holds mu.
func (n *node) all(p *peer) (conns []*Conn) {
	for _, c := range n.conns {
		if p == nil || c.peer.Rank == p.rank {
			conns = append(conns, c)
		}
	}
	return conns
}
