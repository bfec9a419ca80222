package main

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSizes(t *testing.T) {
	for text, want := range map[string]sizes{
		"0":                       {0},
		"1,8,64K":                 {1, 8, 65536},
		"1:8":                     {1, 2, 4, 8},
		"0:4":                     {0, 1, 2, 4},
		"1:7":                     {1, 2, 4},
		"3:20":                    {3, 6, 12},
		"1k:4k,1M":                {1024, 2048, 4096, 1 << 20},
		"2G":                      {2 << 30},
		"4611686018G:4611686018G": {4611686018 << 30},
	} {
		var s sizes
		require.NoError(t, s.UnmarshalText([]byte(text)), text)
		require.Equal(t, want, s, text)
	}
	for _, text := range []string{"", ",", "1,", "-1", "8:1", "1:", ":4", "x", "4T", "K", "1.5K", "99999999999G", "1:2:3", "+"} {
		var s sizes
		require.Error(t, s.UnmarshalText([]byte(text)), text)
	}
}

func FuzzSizes(f *testing.F) {
	f.Add("0:4M,7")
	f.Add("1:9223372036854775807")
	f.Fuzz(func(t *testing.T, text string) {
		var s sizes
		if s.UnmarshalText([]byte(text)) != nil {
			return
		}
		require.NotEmpty(t, s)
		for _, n := range s {
			require.GreaterOrEqual(t, n, 0)
		}
	})
}

func TestFormatSize(t *testing.T) {
	for _, n := range []int{0, 1, 1000, 1023, 1024, 1025, 64 << 10, 4 << 20, 3 << 30, math.MaxInt32} {
		back, err := parseSize(formatSize(n))
		require.NoError(t, err)
		require.Equal(t, n, back)
	}
	require.Equal(t, "4M", formatSize(4<<20))
}
