package mem_test

import (
	"testing"

	"github.com/mpi4go/mpi4go/mem"
	"github.com/stretchr/testify/require"
)

type arrow struct{ data []byte }

func (a arrow) Frame() mem.Buffer { return mem.Of(a.data) }

type point struct {
	X, Y float32
	Tags [2]uint16
}

type label string

func TestFrames(t *testing.T) {
	points := []point{{1, 2, [2]uint16{3, 4}}, {5, 6, [2]uint16{7, 8}}}
	numbers := []float64{1, 2, 3}
	frames, err := mem.Frames([]byte("ab"), numbers[1:], points, "text", label("named"), arrow{[]byte("xyz")}, mem.Of([]int32{1}), []byte{}, []bool{true}, [][2]int8{{1, 2}})
	require.NoError(t, err)
	var lengths []int
	for _, f := range frames {
		lengths = append(lengths, f.Len())
		require.Equal(t, mem.Host, f.Kind())
	}
	require.Equal(t, []int{2, 16, 24, 4, 5, 3, 4, 0, 1, 2}, lengths)
	require.Equal(t, "text", string(frames[3].Bytes()))
	require.Equal(t, "named", string(frames[4].Bytes()))
	require.Equal(t, "xyz", string(frames[5].Bytes()))
	frames[2].Bytes()[3] = 0 // it is the memory itself
	require.NotEqual(t, float32(1), points[0].X)

	for _, wrong := range []struct {
		value any
		text  string
	}{
		{nil, "nil has no memory"},
		{5, "a int is not a slice"},
		{[3]int{}, "such as x[:] of an array"},
		{[][]byte{{1}}, "hold pointers"},
		{[]string{"a"}, "a frame of its own"},
		{[]*int{}, "hold pointers"},
		{[]struct{ A any }{}, "hold pointers"},
		{map[int]int{}, "is not a slice"},
	} {
		_, err := mem.Frames([]byte{}, wrong.value)
		require.ErrorContains(t, err, wrong.text)
		require.ErrorContains(t, err, "value 1")
	}
	frames, err = mem.Frames()
	require.NoError(t, err)
	require.Empty(t, frames)
}
