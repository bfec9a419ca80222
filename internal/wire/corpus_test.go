package wire

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the files of testdata/fuzz/FuzzDecode that TestCorpus compares")

const corpusFolder = "testdata/fuzz/FuzzDecode"

// corpus is what FuzzDecode starts from, besides what it has found itself: each
// plan in good order, and good headers that were damaged.
func corpus(t *testing.T) map[string][]byte {
	inputs := map[string][]byte{}
	good := map[string]Header{
		"acknowledgements": {Acks: []uint16{1, 2, 3, 32767}},
		"no-frames":        {Comm: 1, Tag: 2, Slot: 3},
		"empty-frames":     {Tag: 2, Slot: 3, Frames: make([]Frame, 300)},
		"inline":           {Slot: 1, Frames: []Frame{{Len: 8, Plan: Inline}, {Len: 8, Plan: Inline}, {Len: 100, Plan: Inline}}},
		"datatype":         {Slot: 1, Frames: []Frame{{Len: 64 << 10, Plan: Datatype}, {Len: 64 << 10, Plan: Datatype}, {Len: 4096, Plan: Datatype}, {Len: math.MaxInt32, Plan: Datatype}}},
		"request":          {Slot: 1, Frames: []Frame{{Len: 1 << 20, Plan: Request}, {Len: 5 << 30, Plan: Request}, {Len: 1 << 20, Plan: Request}}},
		"chunks":           {Slot: 1, Frames: []Frame{{Len: 64 << 20, Kind: 1, Plan: Chunks, Chunk: MaxChunk}, {Len: 1 << 20, Kind: 1, Plan: Chunks, Chunk: MinChunk}}},
		"mixed": {Comm: 7, Tag: 9, Slot: 11, Acks: []uint16{5}, Frames: []Frame{
			{Len: 16, Plan: Inline}, {Len: 0, Plan: Inline}, {Len: 1 << 20, Kind: 1, Plan: Request}, {Len: 32 << 10, Plan: Datatype}, {Len: 16, Kind: 3, Plan: Inline}, {Len: 2 << 20, Kind: 2, Plan: Request}, {Len: 32 << 10, Plan: Datatype},
		}},
		"run-of-10000": {Slot: 1, Frames: slices.Repeat([]Frame{{Len: 1 << 20, Plan: Request}}, 10_000)},
		"no-run":       {Slot: 1},
	}
	for i := range 300 { // the runs alone fill the header
		good["no-run"] = Header{Slot: 1, Frames: append(good["no-run"].Frames, Frame{Len: 1000 + i, Plan: Request})}
	}
	for name, h := range good {
		inputs[name] = encode(t, h)
	}

	mixed := inputs["mixed"]
	runs := prefixSize + 2*len(good["mixed"].Acks)
	change := func(at int, to ...byte) []byte {
		b := bytes.Clone(mixed)
		copy(b[at:], to)
		return b
	}
	// long is a header that is whole by its own account: what comes after its
	// acknowledgements is replaced.
	long := func(frames uint32, rest ...byte) []byte {
		b := append(bytes.Clone(mixed[:runs]), rest...)
		binary.LittleEndian.PutUint32(b[12:], frames)
		binary.LittleEndian.PutUint32(b[16:], uint32(len(b)))
		return b
	}
	for _, n := range []int{0, 1, prefixSize - 1, prefixSize, prefixSize + 1, runs, runs + 1, runs + 2, len(mixed) - 1} {
		inputs[fmt.Sprintf("truncated-at-%d", n)] = mixed[:n]
		if n >= prefixSize+2 { // and says so
			inputs[fmt.Sprintf("short-%d", n)] = long(7, mixed[runs:n]...)
		}
	}
	// Its first two runs are of three bytes each, its inline frames 32 bytes.
	inputs["reordered-runs"] = long(7, slices.Concat(mixed[runs+3:runs+6], mixed[runs:runs+3], mixed[runs+6:])...)
	reversed := bytes.Clone(mixed[runs:])
	slices.Reverse(reversed)
	inputs["reordered-backwards"] = long(7, reversed...)
	inputs["reordered-inline-first"] = long(7, slices.Concat(mixed[len(mixed)-32:], mixed[runs:len(mixed)-32])...)
	inputs["duplicated-whole"] = slices.Concat(mixed, mixed)
	inputs["duplicated-runs"] = long(14, slices.Concat(mixed[runs:], mixed[runs:])...)
	inputs["duplicated-run"] = long(8, slices.Concat(mixed[runs:runs+3], mixed[runs:])...)
	inputs["duplicated-acknowledgement"] = encode(t, Header{Slot: 1, Acks: []uint16{5, 5}})
	inputs["hostile-version"] = change(0, 2)
	inputs["hostile-reserved"] = change(22, 1)
	inputs["hostile-frames"] = change(12, 0xff, 0xff, 0xff, 0xff)
	inputs["hostile-length"] = change(16, 0xff, 0xff, 0xff, 0xff)
	inputs["hostile-length-0"] = change(16, 0, 0, 0, 0)
	inputs["hostile-acknowledgements"] = change(20, 0xff, 0xff)
	most := binary.AppendUvarint(nil, math.MaxUint64)
	inputs["hostile-run"] = long(7, slices.Concat(most, []byte{0, 1})...)
	inputs["hostile-run-0"] = long(7, 0, 0, 1)
	inputs["hostile-frame"] = long(1, slices.Concat([]byte{1, byte(Request)}, most)...)
	inputs["hostile-inline"] = long(1, slices.Concat([]byte{1, byte(Inline)}, most)...)
	inputs["hostile-datatype"] = long(1, slices.Concat([]byte{1, byte(Datatype)}, binary.AppendUvarint(nil, math.MaxInt32+1))...)
	inputs["hostile-sum"] = long(3, slices.Concat([]byte{3, byte(Request)}, binary.AppendUvarint(nil, math.MaxUint64/3+1))...)
	inputs["hostile-number"] = long(1, bytes.Repeat([]byte{0x80}, 20)...)
	inputs["hostile-kind"] = long(1, 1, 0xff, 1)
	return inputs
}

// TestCorpus compares the checked-in inputs with those that are made here. Files
// with other names are what the fuzzer has found.
func TestCorpus(t *testing.T) {
	for name, b := range corpus(t) {
		text := fmt.Sprintf("go test fuzz v1\n[]byte(%q)\n", b)
		file := filepath.Join(corpusFolder, name)
		if *update {
			require.NoError(t, os.MkdirAll(corpusFolder, 0o755))
			require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		}
		have, err := os.ReadFile(file)
		require.NoError(t, err, "go test ./internal/wire -run TestCorpus -update writes it")
		require.Equal(t, text, string(have), "%s: go test ./internal/wire -run TestCorpus -update writes it", name)
	}
}
