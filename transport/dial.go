package transport

import (
	"context"
	"errors"
	"fmt"
	"time"
)

var errFinalized = errors.New("mpicomm.Finalize was called")

// Dial connects to an address, as [ParseAddr] reads it, of any rank of the job, also
// of this one. It suspends the goroutine until the listener has accepted the
// connection. While nobody listens there, or the rank does not answer, it tries for
// Config.ConnectTimeout: listeners and dialers may start in any order.
//
// Errors, in a *net.OpError: [ErrUnreachable] if the rank has not answered in time,
// [ErrRefused] if it has, but nobody listened to the service in all that time (both
// are timeouts, and wrap context.DeadlineExceeded or the error of the context); a
// [*VersionError]; what is wrong with the address or the Config.
func Dial(ctx context.Context, addr string, config Config) (*Conn, error) {
	c, peer, err := dial(ctx, addr, config)
	if err != nil {
		var to *Addr
		if peer != (Addr{}) {
			to = &peer
		}
		return nil, opError("dial", nil, to, err)
	}
	return c, nil
}

func dial(ctx context.Context, addr string, config Config) (*Conn, Addr, error) {
	config, err := config.resolve()
	if err != nil {
		return nil, Addr{}, err
	}
	n, err := openNode()
	if err != nil {
		return nil, Addr{}, err
	}
	_, peer, err := n.resolveText(addr)
	if err != nil {
		return nil, Addr{}, err
	}
	if err := ctx.Err(); err != nil {
		return nil, peer, err
	}
	n.tellTo(config.Logger)
	if config.ConnectTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, config.ConnectTimeout)
		defer cancel()
	}
	defer region(ctx, "mpi dial", peer).End()
	began, last := time.Now(), ErrUnreachable
	const longest = 50 * time.Millisecond
	for pause := time.Millisecond; ; pause = min(2*pause, longest) {
		c, err := n.try(ctx, peer, config)
		if err == nil {
			config.Logger.Debug("mpi connection dialed", "conn", c, "took", time.Since(began))
			return c, peer, nil
		}
		if errors.Is(err, ErrRefused) {
			if !errors.Is(last, ErrRefused) {
				config.Logger.Debug("mpi connection refused, trying again", "addr", peer, "err", err)
			}
			last = err
		} else if ctx.Err() == nil {
			return nil, peer, err // no use to try again
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, peer, timeoutError{fmt.Errorf("%w (tried for %v: %w)", last, time.Since(began).Round(time.Millisecond), ctx.Err())}
		}
	}
}

// try dials once. The error is ErrRefused, or final, or the context's.
func (n *node) try(ctx context.Context, peer Addr, config Config) (*Conn, error) {
	c := &Conn{node: n, config: config, local: Addr{Rank: n.link.Rank()}, peer: peer, answer: make(chan struct{}, 1)}
	n.mu.Lock()
	if !n.add(c) {
		n.mu.Unlock()
		return nil, errFinalized
	}
	n.mu.Unlock()
	speaks := n.versions.Load()
	n.send(peer.Rank, control{
		kind: msgDial, from: c.id, least: speaks.least, most: speaks.most, features: features, limits: n.link.Limits(), service: peer.Service,
	})
	err := n.link.Await(ctx, c.answer)
	c.mu.Lock()
	state := c.state
	if err == nil {
		err = c.refusal
	}
	if state == dialing && err == nil { // an answer that makes no sense, or Finalize
		err = errFinalized
	}
	if state == dialing {
		c.state = closed // an answer that comes now finds nobody
	}
	c.mu.Unlock()
	switch {
	case err == nil:
		return c, nil
	case state == dialing:
		n.remove(c)
	default:
		c.Abort()
	}
	return nil, err
}

// answered is called with the answer to a dial.
func (c *Conn) answered(m control) {
	n := c.node
	speaks := n.versions.Load()
	c.mu.Lock()
	if c.state != dialing || c.refusal != nil {
		c.mu.Unlock()
		if m.kind == msgAccept {
			n.send(c.peer.Rank, control{kind: msgAbort, to: m.from})
		}
		return
	}
	switch {
	case m.kind == msgAccept && (m.most > speaks.most || m.most < speaks.least) || m.kind == msgRefuse && m.reason == refusedVersion:
		c.refusal = &VersionError{Least: int(speaks.least), Most: int(speaks.most), PeerLeast: int(m.least), PeerMost: int(m.most)}
	case m.kind == msgAccept:
		c.state, c.remote, c.version, c.features = connected, m.from, m.most, m.features&features
	case m.reason == refusedBacklog:
		c.refusal = fmt.Errorf("%w: too many connections wait there to be accepted", ErrRefused)
	default:
		c.refusal = fmt.Errorf("%w: nobody listens there", ErrRefused)
	}
	open := c.state == connected
	c.mu.Unlock()
	if open {
		n.mu.Lock()
		n.join(c)
		n.mu.Unlock()
		n.counts.dialed.Add(1)
		c.end.Connect(m.from, m.limits)
		n.send(c.peer.Rank, control{kind: msgConfirm, to: m.from})
	}
	n.link.Signal(c.answer)
}
