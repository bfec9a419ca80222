package transport

import (
	"time"
)

// peer is a rank with which there are connections.
type peer struct {
	rank    int
	conns   int
	headers uint64    // that had come from it when it was looked at last
	heard   time.Time // when it was last found to have sent something
	asked   time.Time // when it was last asked whether it lives
	every   time.Duration
}

// join notes a connection for keep-alive. The caller holds mu.
func (n *node) join(c *Conn) {
	p := n.peers[c.peer.Rank]
	if p == nil {
		p = &peer{rank: c.peer.Rank, heard: time.Now()}
		n.peers[c.peer.Rank] = p
	}
	if p.conns == 0 || c.config.KeepAlive < p.every {
		p.every = c.config.KeepAlive
	}
	p.conns++
	c.joined = true
	if !n.ticking {
		n.ticking = true
		go n.watch()
	}
}

// leave notes the end of a connection that has joined. The caller holds mu.
func (n *node) leave(c *Conn) {
	if !c.joined {
		return
	}
	c.joined = false
	p := n.peers[c.peer.Rank]
	if p.conns--; p.conns == 0 {
		delete(n.peers, p.rank)
	}
}

// watch looks after the peers as long as there are any. It counts what has come from
// each, so that a message costs nothing for it.
func (n *node) watch() {
	last := time.Now()
	for {
		n.mu.Lock()
		pause := time.Duration(0)
		for _, p := range n.peers {
			if pause == 0 || p.every < pause {
				pause = p.every
			}
		}
		if pause == 0 {
			n.ticking = false
			n.mu.Unlock()
			return
		}
		n.mu.Unlock()
		pause = max(pause/4, time.Millisecond)
		time.Sleep(pause)
		now := time.Now()
		n.look(now, now.Sub(last)-pause)
		last = now
	}
}

// look looks at all peers once. Late is for how much longer than meant this process
// has slept: it may have been stopped itself, which is no fault of the peers.
func (n *node) look(now time.Time, late time.Duration) {
	var ask []int
	type loss struct {
		conn *Conn
		err  error
	}
	var lost []loss
	n.mu.Lock()
	for _, p := range n.peers {
		headers, broken := n.link.Heard(p.rank)
		if headers != p.headers {
			p.headers, p.heard = headers, now
		} else if late > p.every {
			p.heard = p.heard.Add(late)
		}
		silent := now.Sub(p.heard)
		if silent >= p.every*3/4 && now.Sub(p.asked) >= p.every*3/4 {
			p.asked = now
			ask = append(ask, p.rank)
		}
		if silent < p.every && broken == nil {
			continue
		}
		for _, c := range n.all(p) {
			switch {
			case broken != nil:
				lost = append(lost, loss{c, broken})
			case c.config.PeerTimeout > 0 && silent >= c.config.PeerTimeout && c.features&featureKeepAlive != 0:
				lost = append(lost, loss{c, &PeerLostError{Rank: p.rank, Heard: p.heard}})
			}
		}
	}
	n.mu.Unlock()
	for _, rank := range ask {
		n.counts.pings.Add(1)
		n.send(rank, control{kind: msgPing})
	}
	for _, l := range lost {
		n.counts.lost.Add(1)
		l.conn.config.Logger.Warn("mpi connection lost", "conn", l.conn, "err", l.err)
		l.conn.lose(l.err)
	}
}

// lose ends a connection whose peer is lost. If that should wake up it is told.
func (c *Conn) lose(why error) {
	c.finish(why)
	c.mu.Lock()
	l := c.listener
	c.listener = nil
	c.mu.Unlock()
	if l != nil {
		l.lost(c)
	}
	c.drop(why, func() { c.tell(msgAbort) })
	c.node.remove(c)
}
