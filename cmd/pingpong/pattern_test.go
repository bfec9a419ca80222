package main

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPattern(t *testing.T) {
	p := newPattern(100)
	ctx := context.Background()
	message := bufferOf(make([]byte, 100))
	for seed := range 2 * seeds {
		require.NoError(t, p.fill(ctx, message, seed))
		require.NoError(t, p.verify(ctx, message, seed))
		require.Error(t, p.verify(ctx, message, seed+1))
	}
	require.NoError(t, p.verify(ctx, bufferOf(nil), 5))

	require.NoError(t, p.fill(ctx, message, 7))
	message.bytes[42] ^= 1
	require.ErrorContains(t, p.verify(ctx, message, 7), "byte 42 ")
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
