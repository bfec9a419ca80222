package transport

import (
	"context"
	"fmt"
)

// Listener accepts connections to a service of this rank.
type Listener struct {
	node          *node
	config        Config
	given, actual Addr

	ready   chan struct{} // has one while there may be something for Accept
	closing chan struct{}

	// Under node.mu.
	queue  []*Conn // that wait for Accept
	half   int     // connections whose peers have not seen yet that they were accepted
	closed bool
}

// Listen makes this process answer to dials of an address, which must be of this
// rank: mpi://*/store, or its number or host in the place of *. It is local and does
// not wait. Any number of goroutines may listen to different services.
//
// Errors: [ErrInUse] if somebody listens to the service; what is wrong with the
// address or the Config; mpicomm.ErrNotInitialized.
func Listen(ctx context.Context, addr string, config Config) (*Listener, error) {
	l, err := listen(ctx, addr, config)
	if err != nil {
		return nil, opError("listen", nil, nil, err)
	}
	l.config.Logger.Debug("mpi listener opened", "addr", l.actual)
	return l, nil
}

func listen(ctx context.Context, addr string, config Config) (*Listener, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	config, err := config.resolve()
	if err != nil {
		return nil, err
	}
	n, err := openNode()
	if err != nil {
		return nil, err
	}
	given, actual, err := n.resolveText(addr)
	if err != nil {
		return nil, err
	}
	if actual.Rank != n.link.Rank() {
		return nil, fmt.Errorf("address %v is of rank %d, this is rank %d: listen to %v", given, actual.Rank, n.link.Rank(), Addr{Rank: ThisRank, Service: given.Service})
	}
	l := &Listener{node: n, config: config, given: given, actual: actual, ready: make(chan struct{}, 1), closing: make(chan struct{})}
	n.tellTo(config.Logger)
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.ended:
		return nil, errFinalized
	case n.listeners[actual.Service] != nil:
		return nil, fmt.Errorf("%v: %w", actual, ErrInUse)
	}
	n.listeners[actual.Service] = l
	return l, nil
}

// Addr is the address as it was given to Listen.
func (l *Listener) Addr() Addr { return l.given }

// ContactAddr is the address that other ranks dial.
func (l *Listener) ContactAddr() Addr { return l.actual }

// Accept suspends the goroutine until there is a connection, and returns it. The
// handshake is over by then: a connection that fails in it is never returned.
//
// Errors: the context's; [ErrClosedHere], which wraps net.ErrClosed, after Close.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	defer region(ctx, "mpi accept", l.actual).End()
	for {
		n := l.node
		n.mu.Lock()
		if l.closed {
			n.mu.Unlock()
			return nil, opError("accept", &l.actual, nil, ErrClosedHere)
		}
		var c *Conn
		if len(l.queue) > 0 {
			c, l.queue = l.queue[0], l.queue[1:]
		}
		more := len(l.queue) > 0
		n.mu.Unlock()
		if more {
			l.wake()
		}
		if c != nil {
			c.mu.Lock()
			alive := c.state == connected
			c.listener = nil
			c.mu.Unlock()
			if alive || !c.abandoned() {
				return c, nil
			}
			continue
		}
		n.link.Attend()
		select {
		case <-l.ready:
		case <-l.closing:
		case <-ctx.Done():
			return nil, opError("accept", &l.actual, nil, context.Cause(ctx))
		}
	}
}

// abandoned tells whether the peer has aborted a connection before it was returned.
// One that it has closed may have messages for us.
func (c *Conn) abandoned() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended != nil && c.ended != ErrClosedByPeer
}

func (l *Listener) wake() {
	select {
	case l.ready <- struct{}{}:
	default:
	}
}

// Close ends the listener. Connections that Accept has returned live on; those that
// it has not returned yet are closed, and dials are refused from now on. Accept
// returns [ErrClosedHere]. Close does not wait, and may be called again.
func (l *Listener) Close() error {
	n := l.node
	n.mu.Lock()
	if l.closed {
		n.mu.Unlock()
		return nil
	}
	l.closed = true
	delete(n.listeners, l.actual.Service)
	queue := l.queue
	l.queue = nil
	n.mu.Unlock()
	close(l.closing)
	l.config.Logger.Debug("mpi listener closed", "addr", l.actual, "dropped", len(queue))
	for _, c := range queue {
		_ = c.close(-1)
	}
	return nil
}

// dialed is called with a dial from another rank.
func (n *node) dialed(source int, m control) {
	speaks := n.versions.Load()
	refuse := func(reason uint8) {
		n.counts.refused.Add(1)
		n.send(source, control{kind: msgRefuse, to: m.from, least: speaks.least, most: speaks.most, reason: reason})
	}
	version := min(speaks.most, m.most)
	if version < max(speaks.least, m.least) {
		n.log().Warn("mpi connection refused: no common version", "rank", source, "versions", fmt.Sprintf("%d to %d", m.least, m.most))
		refuse(refusedVersion)
		return
	}
	n.mu.Lock()
	l := n.listeners[m.service]
	switch {
	case l == nil:
		n.mu.Unlock()
		n.log().Debug("mpi connection refused: nobody listens", "rank", source, "service", m.service)
		refuse(refusedNobody)
		return
	case len(l.queue)+l.half >= l.config.Backlog:
		n.mu.Unlock()
		l.config.Logger.Warn("mpi connection refused: too many wait for Accept", "rank", source, "addr", l.actual)
		refuse(refusedBacklog)
		return
	}
	c := &Conn{
		node: n, config: l.config, local: l.actual, peer: Addr{Rank: source}, state: accepted, listener: l,
		remote: m.from, version: version, features: m.features & features,
	}
	if !n.add(c) {
		n.mu.Unlock()
		refuse(refusedNobody)
		return
	}
	l.half++
	c.half = true
	n.join(c)
	n.mu.Unlock()
	c.end.Connect(m.from, m.limits)
	n.send(source, control{
		kind: msgAccept, to: m.from, from: c.id, least: version, most: version, features: c.features, limits: n.link.Limits(),
	})
}

// confirmed is called when the peer has seen that its connection was accepted.
func (c *Conn) confirmed() {
	c.mu.Lock()
	if c.state != accepted {
		c.mu.Unlock()
		return
	}
	c.state = connected
	l := c.listener
	c.mu.Unlock()
	n := c.node
	n.mu.Lock()
	if c.half {
		c.half = false
		l.half--
	}
	late := l.closed
	if !late {
		l.queue = append(l.queue, c)
	}
	n.mu.Unlock()
	n.counts.accepted.Add(1)
	c.config.Logger.Debug("mpi connection accepted", "conn", c)
	if late {
		c.mu.Lock()
		c.listener = nil
		c.mu.Unlock()
		_ = c.close(-1)
		return
	}
	l.wake()
}

// lost is called with a connection that has ended before Accept has returned it.
func (l *Listener) lost(c *Conn) {
	n := l.node
	n.mu.Lock()
	defer n.mu.Unlock()
	if c.half { // otherwise Accept will see
		c.half = false
		l.half--
	}
}
