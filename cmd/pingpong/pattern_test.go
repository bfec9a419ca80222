package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPattern(t *testing.T) {
	p := newPattern(100)
	message := make([]byte, 100)
	for seed := range 2 * seeds {
		p.fill(message, seed)
		require.NoError(t, p.verify(message, seed))
		require.Error(t, p.verify(message, seed+1))
	}
	require.NoError(t, p.verify(nil, 5))

	p.fill(message, 7)
	message[42] ^= 1
	require.ErrorContains(t, p.verify(message, 7), "byte 42 ")
}

func TestSeedsDiffer(t *testing.T) {
	seen := map[int]bool{}
	for turn := range 10 {
		for _, starter := range []bool{true, false} {
			require.False(t, seen[seed(turn, starter)])
			seen[seed(turn, starter)] = true
		}
	}
}
