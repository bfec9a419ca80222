package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/mpi4go/mpi4go/internal/wire"
)

// The versions of the protocol that this package speaks.
const (
	leastVersion = 1
	mostVersion  = 1
)

// Features that a side has. Both use those that both have.
const (
	featureKeepAlive = 1 << iota // it answers pings
	features         = featureKeepAlive
)

// Kinds of control messages: docs/wire.md.
const (
	msgDial uint32 = iota
	msgAccept
	msgConfirm
	msgRefuse
	msgClose
	msgAbort
	msgPing
	msgPong
)

// Reasons of msgRefuse.
const (
	refusedNobody uint8 = iota
	refusedBacklog
	refusedVersion
)

// control is a control message of any kind; each has some of the fields.
type control struct {
	kind        uint32
	to          uint32 // the number of the connection at the receiver
	from        uint32 // and at the sender
	least, most uint8  // versions; of msgAccept the one that was chosen
	features    uint16
	limits      wire.Limits
	reason      uint8
	service     string
}

// fields says in which order a kind has them.
type fields struct{ to, from, versions, features, limits, reason, service bool }

var fieldsOf = map[uint32]fields{
	msgDial:    {from: true, versions: true, features: true, limits: true, service: true},
	msgAccept:  {to: true, from: true, versions: true, features: true, limits: true},
	msgConfirm: {to: true},
	msgRefuse:  {to: true, versions: true, reason: true},
	msgClose:   {to: true},
	msgAbort:   {to: true},
	msgPing:    {},
	msgPong:    {},
}

// encode is the body of the message, of at most 200 bytes.
func (m *control) encode() []byte {
	b, f := make([]byte, 0, 64+len(m.service)), fieldsOf[m.kind]
	if f.to {
		b = binary.LittleEndian.AppendUint32(b, m.to)
	}
	if f.from {
		b = binary.LittleEndian.AppendUint32(b, m.from)
	}
	if f.versions {
		b = append(b, m.least, m.most)
	}
	if f.features {
		b = binary.LittleEndian.AppendUint16(b, m.features)
	}
	if f.limits {
		for _, n := range []int{m.limits.Frames, m.limits.Header, m.limits.Message} {
			b = binary.AppendUvarint(b, uint64(n))
		}
	}
	if f.reason {
		b = append(b, m.reason)
	}
	if f.service {
		b = append(b, uint8(len(m.service)))
		b = append(b, m.service...)
	}
	return b
}

var errControl = errors.New("corrupt control message")

// decode reads a body.
func decode(kind uint32, b []byte) (m control, err error) {
	f, known := fieldsOf[kind]
	if !known {
		return m, fmt.Errorf("%w: kind %d", errControl, kind)
	}
	m.kind = kind
	take := func(n int) []byte {
		if len(b) < n {
			err = fmt.Errorf("%w: %d bytes are missing", errControl, n-len(b))
			b = nil
			return make([]byte, n)
		}
		taken := b[:n]
		b = b[n:]
		return taken
	}
	if f.to {
		m.to = binary.LittleEndian.Uint32(take(4))
	}
	if f.from {
		m.from = binary.LittleEndian.Uint32(take(4))
	}
	if f.versions {
		v := take(2)
		m.least, m.most = v[0], v[1]
		if m.least > m.most {
			return m, fmt.Errorf("%w: versions %d to %d", errControl, m.least, m.most)
		}
	}
	if f.features {
		m.features = binary.LittleEndian.Uint16(take(2))
	}
	if f.limits {
		for _, to := range []*int{&m.limits.Frames, &m.limits.Header, &m.limits.Message} {
			n, size := binary.Uvarint(b)
			if size <= 0 || n == 0 || n > math.MaxInt64 {
				return m, fmt.Errorf("%w: a limit", errControl)
			}
			*to, b = int(n), b[size:]
		}
	}
	if f.reason {
		if m.reason = take(1)[0]; m.reason > refusedVersion {
			return m, fmt.Errorf("%w: reason %d", errControl, m.reason)
		}
	}
	if f.service {
		n := int(take(1)[0])
		m.service = string(take(n))
		if _, bad := ParseAddr(Addr{Service: m.service}.String()); err == nil && bad != nil {
			return m, fmt.Errorf("%w: %w", errControl, bad)
		}
	}
	if err == nil && len(b) > 0 {
		err = fmt.Errorf("%w: %d bytes too many", errControl, len(b))
	}
	return m, err
}
