package coro

import (
	"sync"

	"github.com/mpi4go/mpi4go/internal/wire"
	"github.com/mpi4go/mpi4go/mpicomm"
)

// arrival is a message whose header is there.
type arrival struct {
	source int // of the job
	prefix wire.Prefix
	buffer [wire.First]byte
	first  []byte        // the beginning of the header, in the buffer
	whole  []byte        // all of the header, once it was read
	long   *headerBuffer // its memory, if that is not the buffer

	end            *end // of the connection that it belongs to, or nil
	box            *box // in which it is kept; it is in matching's list then
	newer, earlier *arrival
}

var arrivals = sync.Pool{New: func() any { return new(arrival) }}

func (a *arrival) free() {
	if a.long != nil {
		a.long.free()
	}
	a.first, a.whole, a.long = nil, nil, nil
	a.end, a.box, a.newer, a.earlier = nil, nil, nil, nil
	arrivals.Put(a)
}

// receiver waits for a message.
type receiver struct {
	comm   uint32
	source int           // of the job, or AnySource
	tag    int           // or AnyTag
	ready  chan struct{} // receives once
	got    *arrival
	err    error // why it gets none
	call   uint64
	box    *box // in which it waits
}

// boxKey is a source and a tag, or any of them, on a communicator.
type boxKey struct {
	comm        uint32
	source, tag int32
}

// box holds messages of one source and tag in their order, or those who wait for
// them in the order of their calls, but never both. A box for any source or any
// tag holds no messages.
type box struct {
	key     boxKey
	kept    fifo[*arrival]
	waiting fifo[*receiver]
}

// matching finds for each message its receiver: the one of the earliest call that
// it fits; and for each receiver the earliest message. Neither takes longer if
// there are many of the others, but for receivers of any source or tag.
type matching struct {
	boxes       map[boxKey]*box
	recent      *box // one of them, which was looked for last
	calls       uint64
	wild        int      // receivers of any source or tag that wait
	first, last *arrival // of all that are kept
	n           int
}

// spareBoxes is how many empty boxes are kept for their next use.
const spareBoxes = 256

// find is the box of a key, nil if there is none.
func (m *matching) find(key boxKey) *box {
	if m.recent == nil || m.recent.key != key {
		b := m.boxes[key]
		if b == nil {
			return nil
		}
		m.recent = b
	}
	return m.recent
}

func (m *matching) box(key boxKey) *box {
	b := m.find(key)
	if b == nil {
		b = &box{key: key}
		m.boxes[key] = b
	}
	return b
}

// tidy drops a box that is empty, if there are many.
func (m *matching) tidy(b *box) {
	if len(m.boxes) > spareBoxes && b.kept.len() == 0 && b.waiting.len() == 0 {
		delete(m.boxes, b.key)
		if m.recent == b {
			m.recent = nil
		}
	}
}

func (r *receiver) isWild() bool { return r.source == mpicomm.AnySource || r.tag == mpicomm.AnyTag }

func (r *receiver) fits(a *arrival) bool {
	return a.prefix.Comm == r.comm && (r.source == mpicomm.AnySource || r.source == a.source) && (r.tag == mpicomm.AnyTag || uint32(r.tag) == a.prefix.Tag)
}

// receiver takes the receiver of a message, if one waits.
func (m *matching) receiver(a *arrival) *receiver {
	key := boxKey{a.prefix.Comm, int32(a.source), int32(a.prefix.Tag)}
	best := m.find(key)
	if best != nil && best.waiting.len() == 0 {
		best = nil
	}
	if m.wild > 0 {
		for _, key := range [...]boxKey{
			{key.comm, mpicomm.AnySource, key.tag}, {key.comm, key.source, mpicomm.AnyTag}, {key.comm, mpicomm.AnySource, mpicomm.AnyTag},
		} {
			if b := m.boxes[key]; b != nil && b.waiting.len() > 0 && (best == nil || b.waiting.first().call < best.waiting.first().call) {
				best = b
			}
		}
	}
	if best == nil {
		return nil
	}
	r := best.waiting.pop()
	m.waitsNoMore(r)
	return r
}

// waitsNoMore notes that a receiver was taken out of its box.
func (m *matching) waitsNoMore(r *receiver) {
	if r.isWild() {
		m.wild--
	}
	m.tidy(r.box)
	r.box = nil
}

// keep keeps a message, as the first if it was given back.
func (m *matching) keep(a *arrival, back bool) {
	b := m.box(boxKey{a.prefix.Comm, int32(a.source), int32(a.prefix.Tag)})
	a.box = b
	m.n++
	if back {
		b.kept.pushFront(a)
		a.newer = m.first
		m.first = a
		if a.newer != nil {
			a.newer.earlier = a
		} else {
			m.last = a
		}
		return
	}
	b.kept.push(a)
	a.earlier = m.last
	m.last = a
	if a.earlier != nil {
		a.earlier.newer = a
	} else {
		m.first = a
	}
}

// message takes the first message for a receiver; if there is none, and it may wait,
// it waits.
func (m *matching) message(r *receiver, mayWait bool) *arrival {
	var a *arrival
	b := m.box(boxKey{r.comm, int32(r.source), int32(r.tag)})
	if r.isWild() {
		for a = m.first; a != nil && !r.fits(a); a = a.newer {
		}
	} else if b.kept.len() > 0 {
		a = b.kept.first()
	}
	switch {
	case a != nil:
		m.takeOut(a)
	case mayWait:
		m.calls++
		r.call = m.calls
		r.box = b
		b.waiting.push(r)
		if r.isWild() {
			m.wild++
		}
	}
	m.tidy(b)
	return a
}

// takeOut takes out a message that is the first of its source and tag.
func (m *matching) takeOut(a *arrival) {
	a.box.kept.pop()
	m.tidy(a.box)
	if a.earlier != nil {
		a.earlier.newer = a.newer
	} else {
		m.first = a.newer
	}
	if a.newer != nil {
		a.newer.earlier = a.earlier
	} else {
		m.last = a.earlier
	}
	a.box, a.earlier, a.newer = nil, nil, nil
	m.n--
}

// fail ends the wait of all receivers of a source. The caller holds ch.mu.
func (m *matching) fail(ch *channel, source int, err error) {
	for _, b := range m.boxes {
		for int(b.key.source) == source && b.waiting.len() > 0 {
			r := b.waiting.pop()
			m.waitsNoMore(r)
			r.err = err
			ch.signal(r.ready)
		}
	}
}

// arrive gives a message to whom it belongs. The caller holds mu.
func (ch *channel) arrive(p *peer, a *arrival) {
	if a.prefix.Comm != wire.Connections {
		ch.offer(a, false)
		return
	}
	a.end = ch.ends[a.prefix.Tag]
	if a.end == nil || a.end.out.peer != p || a.end.closed {
		ch.discard(p, a)
		return
	}
	ch.offer(a, false)
}

// offer gives a message to the first receiver that matches it, or keeps it: at
// the front if it was given back. The caller holds mu.
func (ch *channel) offer(a *arrival, back bool) {
	var r *receiver
	switch e := a.end; {
	case e == nil:
		if r = ch.matching.receiver(a); r == nil {
			ch.matching.keep(a, back)
		}
	case e.closed:
		ch.discard(e.out.peer, a)
	case e.in.waiting.len() > 0:
		r = e.in.waiting.pop()
		r.box = nil
	case back:
		e.in.kept.pushFront(a)
	default:
		e.in.kept.push(a)
	}
	if r != nil {
		r.got = a
		ch.signal(r.ready)
	}
}

// match takes the first message that has arrived for the receiver, or makes it
// wait, which it returns.
func (ch *channel) match(r *receiver) (waits bool) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	var broken error
	if r.source != mpicomm.AnySource {
		broken = ch.peer(r.source).broken
	}
	r.got = ch.matching.message(r, broken == nil)
	if r.got == nil {
		r.err = broken
	}
	return r.got == nil && r.err == nil
}

// giveUp ends the wait of a receiver; a message that it has got meanwhile goes
// back.
func (ch *channel) giveUp(r *receiver) {
	ch.mu.Lock()
	defer ch.unlock()
	if b := r.box; b != nil {
		b.waiting.remove(r)
		if ch.matching.boxes[b.key] == b {
			ch.matching.waitsNoMore(r)
		}
		r.box = nil
	}
	if r.got != nil {
		ch.offer(r.got, true)
	}
	select {
	case <-r.ready:
	default:
	}
	r.got = nil
}

// giveBack leaves a message to the next receiver that matches it.
func (ch *channel) giveBack(a *arrival) {
	ch.mu.Lock()
	defer ch.unlock()
	ch.offer(a, true)
}
