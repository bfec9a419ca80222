package transport

import (
	"strings"
	"testing"

	"github.com/mpi4go/mpi4go/internal/wire"
	"github.com/stretchr/testify/require"
)

var examples = []control{
	{kind: msgDial, from: 7, least: 1, most: 2, features: 3, limits: wire.Limits{Frames: 1 << 20, Header: 1 << 26, Message: 1 << 40}, service: "store"},
	{kind: msgDial, from: 1<<32 - 1, least: 1, most: 1, limits: wire.Limits{Frames: 1, Header: 1, Message: 1}, service: strings.Repeat("s", maxService)},
	{kind: msgAccept, to: 5, from: 6, least: 1, most: 1, features: 1, limits: wire.Limits{Frames: 1, Header: 2, Message: 1<<63 - 1}},
	{kind: msgConfirm, to: 9},
	{kind: msgRefuse, to: 9, least: 1, most: 3, reason: refusedVersion},
	{kind: msgClose, to: 1},
	{kind: msgAbort, to: 2},
	{kind: msgPing},
	{kind: msgPong},
}

func TestControl(t *testing.T) {
	for _, m := range examples {
		b := m.encode()
		require.LessOrEqual(t, len(b), 200, "it is copied by MPI's short sends")
		got, err := decode(m.kind, b)
		require.NoError(t, err)
		require.Equal(t, m, got)
		for n := range b {
			_, err := decode(m.kind, b[:n])
			require.ErrorIs(t, err, errControl, "%d of %d bytes", n, len(b))
		}
		_, err = decode(m.kind, append(b, 0))
		require.ErrorIs(t, err, errControl)
	}
	_, err := decode(99, nil)
	require.ErrorIs(t, err, errControl)
	for _, bad := range []control{
		{kind: msgDial, from: 7, least: 1, most: 2, limits: wire.Limits{Frames: 1, Header: 1, Message: 1}, service: "a/b"},
		{kind: msgDial, from: 7, least: 2, most: 1, limits: wire.Limits{Frames: 1, Header: 1, Message: 1}},
		{kind: msgDial, from: 7, least: 1, most: 1},
		{kind: msgRefuse, least: 1, most: 1, reason: 77},
	} {
		_, err := decode(bad.kind, bad.encode())
		require.ErrorIs(t, err, errControl)
	}
}

// FuzzDecode: no input makes decode crash, or return what does not encode to the
// same bytes.
func FuzzDecode(f *testing.F) {
	for _, m := range examples {
		f.Add(m.kind, m.encode())
	}
	f.Fuzz(func(t *testing.T, kind uint32, b []byte) {
		m, err := decode(kind, b)
		if err != nil {
			require.ErrorIs(t, err, errControl)
			return
		}
		again, err := decode(kind, m.encode())
		require.NoError(t, err)
		require.Equal(t, m, again)
	})
}
