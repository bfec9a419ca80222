package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// Version is that of the format. A header of another version is refused.
const Version = 1

// Numbers of communicators that are none.
const (
	Connections = 1<<31 | iota // a message of a connection: its tag is the connection's number at the receiver
	Control                    // a control message of connections: it has no slot
)

// Plan says how a frame travels.
type Plan uint8

// The plans.
const (
	Inline   Plan = iota // in the header
	Datatype             // with all others of this plan, as one MPI message
	Request              // as an MPI message of its own
	Chunks               // as several, one after the other, which all but the last have the length Frame.Chunk
)

// NumPlans is the number of plans.
const NumPlans = 4

var planNames = [NumPlans]string{"inline", "datatype", "request", "chunks"}

// String is the name of the plan.
func (p Plan) String() string {
	if int(p) < len(planNames) {
		return planNames[p]
	}
	return fmt.Sprintf("plan %d", uint8(p))
}

// Frame describes a frame.
type Frame struct {
	Len   int
	Kind  uint8 // mem.Kind of the sender's memory
	Plan  Plan
	Chunk int // bytes, with the plan Chunks
}

// Frames of device memory, and others that may end up in some, go in chunks of an
// eighth, within limits: shorter ones cost bandwidth, longer ones page-locked memory.
// A receiver can count on the upper limit.
const (
	MinChunk = 128 << 10
	MaxChunk = 4 << 20

	leastChunk = 4 << 10 // that a decoder accepts of a longer frame
)

// ChunkFor is the length of the chunks of a frame of n bytes.
func ChunkFor(n int) int {
	return min(max(MinChunk, 1<<bits.Len(uint(n/8))/2), MaxChunk)
}

// Header describes a message.
type Header struct {
	Comm   uint32 // the communicator
	Tag    uint32 // the caller's
	Slot   uint16 // the tag of the payload; it comes back as an acknowledgement. 0 for acknowledgements alone
	Acks   []uint16
	Frames []Frame
}

// Limits bound what a decoder makes of a header, whatever it says.
type Limits struct {
	Frames  int // of one message
	Header  int // bytes of a header, with the frames in it
	Message int // bytes of all frames
}

const (
	prefixSize = 24
	maxKind    = 3
)

// ErrHeader is what every error of a decoder wraps.
var ErrHeader = errors.New("corrupt header of a multi-buffer message")

func corrupt(format string, a ...any) error {
	return fmt.Errorf("%w: %s", ErrHeader, fmt.Sprintf(format, a...))
}

// Append appends the encoded header, without the inline frames that follow it,
// to b. The length of all of it, which the prefix carries, includes them.
func (h *Header) Append(b []byte) ([]byte, error) {
	start, inline := len(b), 0
	b = append(b, make([]byte, prefixSize)...)
	for _, ack := range h.Acks {
		b = binary.LittleEndian.AppendUint16(b, ack)
	}
	for i := 0; i < len(h.Frames); {
		f := h.Frames[i]
		run := 1
		for i+run < len(h.Frames) && h.Frames[i+run] == f {
			run++
		}
		b = binary.AppendUvarint(b, uint64(run))
		b = append(b, f.Kind<<2|uint8(f.Plan))
		b = binary.AppendUvarint(b, uint64(f.Len))
		switch f.Plan {
		case Inline:
			inline += run * f.Len
		case Chunks:
			b = binary.AppendUvarint(b, uint64(f.Chunk))
		}
		i += run
	}
	length := len(b) - start + inline
	if length > math.MaxUint32 || len(h.Frames) > math.MaxUint32 || len(h.Acks) > MaxAcks {
		return b[:start], fmt.Errorf("a header of %d bytes, %d frames and %d acknowledgements is too long", length, len(h.Frames), len(h.Acks))
	}
	p := b[start:]
	p[0] = Version
	binary.LittleEndian.PutUint16(p[2:], h.Slot)
	binary.LittleEndian.PutUint32(p[4:], h.Comm)
	binary.LittleEndian.PutUint32(p[8:], h.Tag)
	binary.LittleEndian.PutUint32(p[12:], uint32(len(h.Frames)))
	binary.LittleEndian.PutUint32(p[16:], uint32(length))
	binary.LittleEndian.PutUint16(p[20:], uint16(len(h.Acks)))
	return b, nil
}

// Prefix is what the beginning of a header says, which fits into any slot.
type Prefix struct {
	Comm, Tag uint32
	Slot      uint16
	Length    int // of the whole header: what is beyond its beginning follows as a message of its own
}

// MaxAcks is how many acknowledgements the beginning of a header has room for.
const MaxAcks = 64

// First is how many bytes of a header are sent at once: below what MPIs send without
// asking.
const First = 3840

// FitsFirst tells whether a message of so many frames, of total bytes, travels in the
// first part of its header, whatever its runs and acknowledgements.
func FitsFirst(frames, total int) bool {
	const most = 128 + 2*MaxAcks // of the prefix, and of acknowledgements
	return most+12*frames+total <= First
}

// ReadPrefix reads the beginning of a header, with all of the acknowledgements,
// which it appends to acks.
func ReadPrefix(b []byte, limits Limits, acks []uint16) (Prefix, []uint16, error) {
	if len(b) < prefixSize {
		return Prefix{}, acks, corrupt("%d bytes; it has at least %d", len(b), prefixSize)
	}
	if b[0] != Version {
		return Prefix{}, acks, corrupt("version %d, this is version %d: run the same version of the library on all ranks", b[0], Version)
	}
	if b[1] != 0 || b[22] != 0 || b[23] != 0 {
		return Prefix{}, acks, corrupt("reserved bytes that are not 0")
	}
	length := binary.LittleEndian.Uint32(b[16:])
	switch {
	case uint64(length) > uint64(limits.Header):
		return Prefix{}, acks, corrupt("%d bytes; the limit is %d", length, limits.Header)
	case int(length) < len(b):
		return Prefix{}, acks, corrupt("%d bytes, but says %d", len(b), length)
	}
	n := int(binary.LittleEndian.Uint16(b[20:]))
	if n > MaxAcks || len(b) < prefixSize+2*n {
		return Prefix{}, acks, corrupt("%d acknowledgements in %d bytes", n, len(b))
	}
	for i := range n {
		acks = append(acks, binary.LittleEndian.Uint16(b[prefixSize+2*i:]))
	}
	return Prefix{
		Comm: binary.LittleEndian.Uint32(b[4:]), Tag: binary.LittleEndian.Uint32(b[8:]),
		Slot: binary.LittleEndian.Uint16(b[2:]), Length: int(length),
	}, acks, nil
}

// Decode reads a whole header. The inline frames are what is left of b, end to
// end; they are not copied.
func Decode(b []byte, limits Limits) (h Header, inline []byte, err error) {
	p, acks, err := ReadPrefix(b, limits, nil)
	if err != nil {
		return h, nil, err
	}
	if p.Length != len(b) {
		return h, nil, corrupt("%d bytes of %d", len(b), p.Length)
	}
	h = Header{Comm: p.Comm, Tag: p.Tag, Slot: p.Slot, Acks: acks}
	h.Frames, inline, err = DecodeFrames(b, limits, nil)
	return h, inline, err
}

// DecodeFrames reads the frames of a whole header whose prefix was read, and
// appends them to frames. See Decode for the rest.
func DecodeFrames(b []byte, limits Limits, frames []Frame) (_ []Frame, inline []byte, err error) {
	count, acks := binary.LittleEndian.Uint32(b[12:]), int(binary.LittleEndian.Uint16(b[20:]))
	if uint64(count) > uint64(limits.Frames) {
		return nil, nil, corrupt("%d frames; the limit is %d", count, limits.Frames)
	}
	n := len(frames) + int(count)
	b = b[prefixSize+2*acks:]
	number := func() (uint64, error) {
		value, size := binary.Uvarint(b)
		if size <= 0 {
			return 0, corrupt("a number that does not end")
		}
		b = b[size:]
		return value, nil
	}
	inlined, total := uint64(0), uint64(0)
	for len(frames) < n {
		run, err := number()
		if err != nil {
			return nil, nil, err
		}
		if run == 0 || run > uint64(n-len(frames)) {
			return nil, nil, corrupt("a run of %d frames where %d are left", run, n-len(frames))
		}
		if len(b) == 0 {
			return nil, nil, corrupt("a run without its kind")
		}
		kind, plan := b[0]>>2, Plan(b[0]&3)
		b = b[1:]
		if kind > maxKind {
			return nil, nil, corrupt("memory kind %d", kind)
		}
		length, err := number()
		if err != nil {
			return nil, nil, err
		}
		if most := uint64(limits.Message); length > most/run || length*run > most-total {
			return nil, nil, corrupt("%d frames of %d bytes after %d; the limit is %d", run, length, total, most)
		}
		total += length * run
		if plan == Inline {
			inlined += length * run
		}
		if plan == Datatype && length > math.MaxInt32 {
			return nil, nil, corrupt("a frame of %d bytes in a datatype", length)
		}
		chunk := uint64(0)
		if plan == Chunks {
			if chunk, err = number(); err != nil {
				return nil, nil, err
			}
			if chunk == 0 || chunk > MaxChunk || chunk < min(length, leastChunk) {
				return nil, nil, corrupt("chunks of %d bytes for a frame of %d", chunk, length)
			}
		}
		frames = slices.Grow(frames, n-len(frames))
		for range run {
			frames = append(frames, Frame{int(length), kind, plan, int(chunk)})
		}
	}
	if inlined != uint64(len(b)) {
		return nil, nil, corrupt("%d bytes of inline frames, but says %d", len(b), inlined)
	}
	return frames, b, nil
}
