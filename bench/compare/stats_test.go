package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMedian(t *testing.T) {
	require.Zero(t, median(nil))
	require.Equal(t, 2.0, median([]float64{3, 1, 2}))
	require.Equal(t, 2.5, median([]float64{4, 1, 2, 3}))
	values := []float64{3, 1, 2}
	median(values)
	require.Equal(t, []float64{3, 1, 2}, values, "the repetitions keep their order")
}

func TestRatios(t *testing.T) {
	require.Equal(t, []float64{2, 3}, ratios([]float64{4, 9, 5}, []float64{2, 3}), "a peer that failed has fewer repetitions")
	require.Equal(t, spread{2, 3}, spreadOf([]float64{3, 2}))
	require.Equal(t, []float64{2, 4}, inverted([]float64{4, 2}, 8))
}

func TestThree(t *testing.T) {
	for value, want := range map[float64]string{0: "0", 0.27912: "0.279", 0.0002: "0.000", 1.234: "1.23", 56.78: "56.8", 1234.5: "1234"} {
		require.Equal(t, want, three(value))
	}
	require.Equal(t, "-", withSpread(nil))
	require.Equal(t, "2.00", withSpread([]float64{2}))
	require.Equal(t, "2.00 (1.00 to 3.00)", withSpread([]float64{3, 1, 2}))
}
