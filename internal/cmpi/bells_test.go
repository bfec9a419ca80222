package cmpi

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// newBells makes the bells of a rank, and its introduction.
func newBells(t *testing.T, rank, size int) (*Bells, []byte) {
	b, err := NewBells(rank, size)
	require.NoError(t, err)
	t.Cleanup(b.Close)
	text, err := b.Introduce()
	require.NoError(t, err)
	return b, text
}

func TestBellsMeet(t *testing.T) {
	first, one := newBells(t, 1, 4)
	second, two := newBells(t, 2, 4)
	nobody, far := make([]byte, IntroductionSize), append([]byte(nil), two...)
	far[0]++
	all := [][]byte{nobody, one, two, far}
	require.NoError(t, first.Meet(all))
	require.NoError(t, second.Meet(all))
	require.Equal(t, 2, first.Count())
	require.Equal(t, 2, second.Count())
	require.NotEqual(t, Peers(0), second.Every())
	second.Free(second.Peers([]int32{3, 2, 1}))
	second.Free(second.Peers(nil))
	first.Ring()
}

func TestBellsWithoutOthers(t *testing.T) {
	b, mine := newBells(t, 1, 2)
	require.ErrorContains(t, b.Meet([][]byte{make([]byte, IntroductionSize), mine}), "no other rank on this host")
	var none *Bells
	require.Zero(t, none.Every())
	require.Zero(t, none.Peers(nil))
	none.Free(0)
}

// TestBellsNotFound has the first rank of the host be another than it says.
func TestBellsNotFound(t *testing.T) {
	for _, change := range []func(text []byte){
		func(text []byte) { binary.LittleEndian.PutUint32(text[8:], 0) },     // no such process
		func(text []byte) { binary.LittleEndian.PutUint16(text[12:], 9999) }, // no such file
		func(text []byte) { copy(text[12:], []byte{0, 0}) },                  // another file
	} {
		b, mine := newBells(t, 1, 2)
		theirs := append([]byte(nil), mine...)
		change(theirs)
		require.Error(t, b.Meet([][]byte{theirs, mine}))
	}
}
