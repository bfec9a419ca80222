package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseItem(t *testing.T) {
	i, err := parseItem("latency")
	require.NoError(t, err)
	require.Equal(t, item{"latency", 1, 1, 1}, i)
	i, err = parseItem("multi:4096:16:1")
	require.NoError(t, err)
	require.Equal(t, item{"multi", 4096, 16, 1}, i)
	require.Equal(t, "multi:4096:16:1", i.String())
	for _, bad := range []string{"multi:x", "multi:0", "multi:1:1:1:1", "multi:-1"} {
		_, err := parseItem(bad)
		require.ErrorContains(t, err, "is not KIND:SIZE:FRAMES:N", bad)
	}
}

func TestContents(t *testing.T) {
	d := &driver{}
	a := d.contents(1000, 3)
	require.NoError(t, d.checkContents(append([]byte{}, a...), 3+seeds), "seeds repeat")
	changed := append([]byte{}, a...)
	changed[999]++
	require.ErrorContains(t, d.checkContents(changed, 3), "a message of 1000 bytes is not what was sent")
	require.Error(t, d.checkContents(append([]byte{}, a...), 4))
}
