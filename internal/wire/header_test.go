package wire

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

var limits = Limits{Frames: 1 << 16, Header: 1 << 20, Message: math.MaxInt64 / 2}

// encode is a whole header, with inline frames that count up.
func encode(t testing.TB, h Header) []byte {
	b, err := h.Append(nil)
	require.NoError(t, err)
	n := 0
	for _, f := range h.Frames {
		if f.Plan == Inline {
			n += f.Len
		}
	}
	for i := range n {
		b = append(b, byte(i))
	}
	return b
}

var examples = []Header{
	{Slot: 7},
	{Comm: 1, Tag: 2, Slot: 3, Acks: []uint16{1, 2, 65535}},
	{Comm: math.MaxUint32, Tag: math.MaxUint32, Slot: 65535, Frames: []Frame{{0, 0, Inline, 0}, {0, 0, Inline, 0}, {5, 0, Inline, 0}}},
	{Slot: 9, Frames: []Frame{{100, 1, Request, 0}, {100, 2, Datatype, 0}, {3, 3, Inline, 0}, {math.MaxInt64 / 4, 0, Request, 0}}},
	{Slot: 9, Frames: []Frame{{1, 1, Chunks, 1}, {1, 1, Chunks, 4096}, {10 << 20, 1, Chunks, 1 << 20}, {10 << 20, 1, Chunks, 2 << 20}, {5000, 0, Chunks, 4096}, {5000, 0, Chunks, 4096}}},
}

func TestRoundTrip(t *testing.T) {
	for _, h := range examples {
		b := encode(t, h)
		p, acks, err := ReadPrefix(b[:prefixSize+2*len(h.Acks)], limits, nil)
		require.NoError(t, err)
		require.Equal(t, Prefix{h.Comm, h.Tag, h.Slot, len(b)}, p)
		require.Equal(t, h.Acks, acks)
		got, inline, err := Decode(b, limits)
		require.NoError(t, err)
		require.Equal(t, h, got)
		for i := range inline {
			require.Equal(t, byte(i), inline[i])
		}
	}
}

// TestRuns shows that equal frames cost a few bytes whatever their number.
func TestRuns(t *testing.T) {
	h := Header{Slot: 1, Frames: make([]Frame, 10_000)}
	for i := range h.Frames {
		h.Frames[i] = Frame{1 << 20, 0, Datatype, 0}
	}
	b := encode(t, h)
	require.Less(t, len(b), prefixSize+8)
	got, _, err := Decode(b, limits)
	require.NoError(t, err)
	require.Equal(t, h, got)
}

// TestCorrupt damages good headers in every way that has a name.
func TestCorrupt(t *testing.T) {
	good := encode(t, examples[2])
	change := func(at int, to ...byte) []byte {
		b := bytes.Clone(good)
		copy(b[at:], to)
		return b
	}
	length := func(n int) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(n)) }
	tail := func(bytes ...byte) []byte { // one frame, described by these bytes
		b := append(encode(t, Header{Slot: 1}), bytes...)
		copy(b[12:], []byte{1, 0, 0, 0})
		copy(b[16:], length(len(b)))
		return b
	}
	for _, c := range []struct {
		what string
		b    []byte
		text string
	}{
		{"nothing", nil, "0 bytes"},
		{"less than the prefix", good[:prefixSize-1], "at least"},
		{"another version", change(0, 2), "version 2, this is version 1"},
		{"reserved", change(1, 1), "reserved"},
		{"reserved", change(23, 1), "reserved"},
		{"truncated", good[:len(good)-1], "bytes of"},
		{"longer", append(bytes.Clone(good), 0), "but says"},
		{"too long", change(16, length(1<<21)...), "the limit is"},
		{"too many frames", change(12, length(1<<17)...), "the limit is"},
		{"more frames", change(12, 4), "a run of 0 frames where 1 are left"},
		{"more acknowledgements", change(20, 255), "acknowledgements in"},
		{"a run of nothing", tail(0, 0, 1), "a run of 0 frames"},
		{"a run too long", tail(2, 0, 1), "a run of 2 frames where 1 are left"},
		{"no kind", tail(1), "without its kind"},
		{"chunks without their length", tail(1, 3, 5), "does not end"},
		{"chunks of nothing", tail(1, 3, 5, 0), "chunks of 0 bytes for a frame of 5"},
		{"many chunks", tail(1, 3, 0x80, 0x80, 1, 1), "chunks of 1 bytes for a frame of 16384"},
		{"long chunks", tail(1, 3, 0x80, 0x80, 0x80, 4, 0x80, 0x80, 0x80, 4), "chunks of 8388608 bytes"},
		{"bad kind", tail(1, 0xff&^3, 0), "memory kind 63"},
		{"endless number", tail(1, 0, 0x80, 0x80), "does not end"},
		{"overflow", tail(1, 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1), "frames of 18446744073709551615 bytes after 0; the limit is"},
		{"long frame in a datatype", tail(1, 1, 0x80, 0x80, 0x80, 0x80, 8), "in a datatype"},
		{"inline frame missing", tail(1, 0, 5), "0 bytes of inline frames, but says 5"},
	} {
		_, _, err := Decode(c.b, limits)
		require.ErrorIs(t, err, ErrHeader, c.what)
		require.ErrorContains(t, err, c.text, c.what)
	}
	h := Header{Frames: []Frame{{math.MaxUint32, 0, Inline, 0}}}
	_, err := h.Append(nil)
	require.ErrorContains(t, err, "too long")
}

// FuzzDecode: no input makes Decode crash, allocate more than the limits allow, or
// return what does not encode to the same bytes.
func FuzzDecode(f *testing.F) {
	for _, h := range examples {
		f.Add(encode(f, h))
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		h := Header{Slot: uint16(random.Uint32()), Comm: random.Uint32()}
		for range random.IntN(20) {
			h.Frames = append(h.Frames, Frame{random.IntN(300), uint8(random.IntN(4)), Plan(random.IntN(3)), 0})
		}
		f.Add(encode(f, h))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, inline, err := Decode(b, limits)
		if err != nil {
			require.ErrorIs(t, err, ErrHeader)
			return
		}
		require.LessOrEqual(t, len(h.Frames), limits.Frames)
		again, err := h.Append(nil)
		require.NoError(t, err)
		// A run may be written as several: what they say is the same.
		same, _, err := Decode(append(again, inline...), limits)
		require.NoError(t, err)
		require.Equal(t, h, same)
	})
}

func TestChunkFor(t *testing.T) {
	for n, want := range map[int]int{
		1: MinChunk, MinChunk: MinChunk, 8*MinChunk + 1: MinChunk, 16 * MinChunk: 2 * MinChunk, 1 << 20: 128 << 10, 10 << 20: 1 << 20,
		32 << 20: 4 << 20, 64 << 20: MaxChunk, 1 << 40: MaxChunk,
	} {
		require.Equal(t, want, ChunkFor(n), "%d", n)
	}
}
