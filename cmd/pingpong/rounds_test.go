package main

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAlternate(t *testing.T) {
	var order string
	ticks, us := 0, 0.0
	measure := func(name string) pass {
		return func() (float64, error) { order += name; us++; return us, nil }
	}
	barrier := func() error { order += "|"; return nil }
	times, err := alternate(2, barrier, func() { ticks++ }, measure("a"), nil, measure("b"))
	require.NoError(t, err)
	require.Equal(t, "|a|b|a|b", order, "in turn, with a barrier before each")
	require.Equal(t, [][]float64{{1, 3}, nil, {2, 4}}, times)
	require.Equal(t, 4, ticks)

	broken := errors.New("broken")
	_, err = alternate(2, barrier, func() {}, func() (float64, error) { return 0, broken })
	require.ErrorIs(t, err, broken)
}

func TestTiming(t *testing.T) {
	timed := newTiming(10, []float64{2, 4, 9}, []float64{1, 4, 3})
	require.Equal(t, 4.0, timed.Us)
	require.Equal(t, 3.0, timed.CUs)
	require.Equal(t, 2.0, timed.ratio(), "the median of 2, 1, 3 and not the ratio of the medians")
	require.Equal(t, 0.5, timed.speedRatio())
	require.Zero(t, newTiming(10, []float64{2}, nil).ratio())
}

func TestMedian(t *testing.T) {
	require.Zero(t, median(nil))
	require.Equal(t, 3.0, median([]float64{3}))
	require.Equal(t, 2.5, median([]float64{4, 1, 3, 2}))
}
