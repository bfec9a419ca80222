package coro

// slots are the tags of the payloads of messages to one rank. The first manySlots
// are for anybody. When they are in use, because many streams have receivers that
// do not receive, a stream gets one of the others, and no second until that is
// acknowledged, which the receiver does at once: so the streams whose receivers do
// receive go on.
type slots struct {
	free    [2][]uint16 // acknowledged: of the first, of the others
	next    [2]uint16   // the first that was never used
	users   []*stream   // by slot
	wanting [2]fifo[*stream]
}

const (
	manySlots = 16384
	lastSlot  = 32767 // the largest tag that every MPI has
)

// take takes a slot, or returns 0.
func (t *slots) take(s *stream) uint16 {
	for i, last := range [2]uint16{manySlots, lastSlot} {
		if i == 1 && s.scarce {
			break
		}
		slot := t.next[i]
		if n := len(t.free[i]); n > 0 {
			slot = t.free[i][n-1]
			t.free[i] = t.free[i][:n-1]
		} else {
			if slot == 0 { // nothing was used yet
				slot = uint16(1 + i*manySlots)
			}
			if slot > last {
				continue
			}
			t.next[i] = slot + 1
		}
		for len(t.users) <= int(slot) {
			t.users = append(t.users, nil)
		}
		t.users[slot] = s
		s.scarce = s.scarce || i == 1
		return slot
	}
	return 0
}

// give gives a slot back and returns whose it was.
func (t *slots) give(slot uint16) *stream {
	if int(slot) >= len(t.users) || t.users[slot] == nil {
		return nil
	}
	s := t.users[slot]
	t.users[slot] = nil
	i := 0
	if slot > manySlots {
		i = 1
		s.scarce = false
	}
	t.free[i] = append(t.free[i], slot)
	return s
}

// inUse counts the slots in use.
func (t *slots) inUse() (n int) {
	for _, s := range t.users {
		if s != nil {
			n++
		}
	}
	return n
}

// streamKey names the messages that a receiver gets in their order.
type streamKey struct{ comm, tag uint32 }

// stream bounds what a sender is ahead of the receiver.
type stream struct {
	key     streamKey
	peer    *peer
	kept    bool // by a connection; others are made and forgotten as need be
	unacked int
	scarce  bool          // it has one of the slots that are for one message of a stream
	wants   bool          // it is among those that want a slot
	posting bool          // somebody has a slot and is about to send: the next waits
	queue   fifo[*sender] // that wait for a slot, in call order
	failed  error         // of senders from now on
	quiet   []func()      // to be called once nobody is about to send
	stalls  uint64        // senders that had to wait for acknowledgements
}

// sender waits for a slot.
type sender struct {
	ready  chan struct{} // receives once
	stream *stream
	slot   uint16
	err    error // why it gets none
	waited bool  // for an acknowledgement
}

// spareStreams is how many streams of a peer are kept for their next use.
const spareStreams = 256

// stream is the one of a name. The caller holds mu.
func (p *peer) stream(key streamKey) *stream {
	if s := p.recent; s != nil && s.key == key {
		return s
	}
	s := p.streams[key]
	if s == nil {
		s = &stream{key: key, peer: p, failed: p.broken}
		p.streams[key] = s
	}
	p.recent = s
	return s
}

// ask asks for a slot for a message of a stream, in call order. The sender has one,
// or has been refused, or waits for one, which it returns. The caller holds mu.
func (ch *channel) ask(s *stream, w *sender) (waits bool) {
	w.slot, w.err, w.stream, w.waited = 0, s.failed, s, false
	if w.err != nil {
		return false
	}
	s.queue.push(w)
	return ch.take(s) != w
}

// grant gives the first sender of a stream a slot, if it may have one, and returns
// whether it did.
func (ch *channel) grant(s *stream) bool {
	w := ch.take(s)
	if w != nil {
		ch.signal(w.ready)
	}
	return w != nil
}

// take is grant without a signal; it returns who has got a slot.
func (ch *channel) take(s *stream) *sender {
	if s.queue.len() == 0 || s.posting {
		return nil
	}
	if s.unacked >= window {
		s.stalled()
		return nil
	}
	t := &s.peer.slots
	slot := t.take(s)
	if slot == 0 {
		s.stalled()
		if !s.wants {
			s.wants = true
			i := 1
			if s.scarce {
				i = 0
			}
			t.wanting[i].push(s)
		}
		return nil
	}
	w := s.queue.pop()
	w.slot = slot
	s.posting = true
	s.unacked++
	return w
}

// stalled counts that the first sender has to wait for an acknowledgement.
func (s *stream) stalled() {
	if w := s.queue.first(); !w.waited {
		w.waited = true
		s.stalls++
	}
}

// posted tells that the message of a sender is on its way, or with sent false
// that it will never be.
func (ch *channel) posted(w *sender, sent bool) {
	ch.mu.Lock()
	s := w.stream
	if w.slot == 0 { // it never had one
		s.queue.remove(w)
	} else {
		s.posting = false
		if !sent {
			ch.acknowledged(s.peer, w.slot)
		}
	}
	ch.grant(s)
	s.forget()
	select {
	case <-w.ready: // it had a slot, and its context ended
	default:
	}
	w.stream, w.err = nil, nil
	calls := s.isQuiet()
	ch.unlock()
	for _, f := range calls {
		f()
	}
}

// isQuiet takes the functions that are to be called if nobody is about to send.
func (s *stream) isQuiet() (calls []func()) {
	if !s.posting && s.queue.len() == 0 {
		calls, s.quiet = s.quiet, nil
	}
	return calls
}

// acknowledged frees a slot, and returns whether it was in use. The caller holds
// mu.
func (ch *channel) acknowledged(p *peer, slot uint16) bool {
	s := p.slots.give(slot)
	if s == nil {
		return false
	}
	s.unacked--
	ch.grant(s)
	s.forget()
	// Other streams may have waited for any slot at all: those that may have only
	// one of the first do not keep the rest from the others.
	for i := 1; i >= 0 && (i == 1 || slot <= manySlots); i-- {
		for q := &p.slots.wanting[i]; q.len() > 0; {
			other := q.pop()
			other.wants = false
			if ch.grant(other) || other.wants {
				return true
			}
			other.forget()
		}
	}
	return true
}

// failSenders fails those who wait for a slot, and later ones. The caller holds mu.
func (ch *channel) failSenders(s *stream, err error) {
	if s.failed == nil {
		s.failed = err
	}
	for s.queue.len() > 0 {
		w := s.queue.pop()
		w.err = err
		ch.signal(w.ready)
	}
}

// forget drops a stream that is not in use, if there are many.
func (s *stream) forget() {
	if len(s.peer.streams) > spareStreams && s.unacked == 0 && s.queue.len() == 0 && !s.posting && !s.kept && !s.wants {
		delete(s.peer.streams, s.key)
		if s.peer.recent == s {
			s.peer.recent = nil
		}
	}
}
