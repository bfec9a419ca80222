package transport

import "sync/atomic"

// Counts is what all connections of a process have done since mpicomm.Init, those
// that are over included.
type Counts struct {
	Stats // the sums; what it has of the present is of the open connections

	Open      int // connections now: both sides have not ended them yet
	Listeners int // now

	Dialed, Accepted uint64 // connections that were made by Dial, and by a listener
	Refused          uint64 // dials from other ranks, and from this one, that were refused
	Lost             uint64 // connections that failed because nothing comes from the peer any more
	Pings            uint64 // how often a silent peer was asked whether it lives
}

// Count adds up what the connections of this process have done. A call that returns
// after its connection is over may not be counted. The cost grows with the number of
// open connections: it is for a collector of metrics, not for each message.
func Count() Counts {
	n := theNode.Load()
	if n == nil {
		return Counts{}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	total := Counts{
		Stats: n.over, Listeners: len(n.listeners),
		Dialed: n.counts.dialed.Load(), Accepted: n.counts.accepted.Load(), Refused: n.counts.refused.Load(),
		Lost: n.counts.lost.Load(), Pings: n.counts.pings.Load(),
	}
	for _, c := range n.conns {
		if c.joined {
			total.Open++
		}
		s := c.Stats()
		total.add(s)
		total.Unacknowledged += s.Unacknowledged
		total.Waiting += s.Waiting
	}
	return total
}

// counters are those of Counts that no connection has.
type counters struct{ dialed, accepted, refused, lost, pings atomic.Uint64 }

// add adds what only grows.
func (s *Stats) add(t Stats) {
	s.MessagesSent += t.MessagesSent
	s.MessagesReceived += t.MessagesReceived
	s.BytesSent += t.BytesSent
	s.BytesReceived += t.BytesReceived
	s.BytesStaged += t.BytesStaged
	s.FramesInline += t.FramesInline
	s.FramesDatatype += t.FramesDatatype
	s.FramesRequest += t.FramesRequest
	s.FramesChunks += t.FramesChunks
	s.CreditStalls += t.CreditStalls
}
