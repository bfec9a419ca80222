package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestItems(t *testing.T) {
	all, err := wantedItems(nil, false)
	require.NoError(t, err)
	require.Equal(t, "memory", all[0].Kind, "it wants a process that has sent nothing large")
	seen := map[Item]bool{}
	for _, i := range all {
		require.False(t, seen[i], "%s is there twice", i)
		seen[i] = true
	}
	for _, i := range []Item{
		{"latency", 1, 1, 1}, {"latency", 4 * mib, 1, 1}, {"throughput", 1, 1, 64}, {"throughput", 2 * mib, 1, 8}, {"throughput", 16 * mib, 1, 4}, {"rate", 1, 1, 1000},
	} {
		require.True(t, seen[i], "%s is missing", i)
	}
	some, err := wantedItems([]string{"latency", "wait"}, true)
	require.NoError(t, err)
	require.Equal(t, "wait", some[0].Kind)
	require.Less(t, len(some), 6)
	_, err = wantedItems([]string{"latencies"}, false)
	require.ErrorContains(t, err, "latencies: want memory, wait")
}

func TestTitles(t *testing.T) {
	require.Equal(t, "latency, 4 KiB", Item{"latency", 4096, 1, 1}.title())
	require.Equal(t, "message of 16 x 100 B", Item{"multi", 100, 16, 1}.title())
	require.Equal(t, "message rate, 1 conversation", Item{"rate", 1, 1, 1}.title())
	require.Equal(t, "message rate, 64 conversations", Item{"rate", 1, 1, 64}.title())
	require.Equal(t, "throughput:2097152:1:8", Item{"throughput", 2 * mib, 1, 8}.String())
}

func TestTimeForEach(t *testing.T) {
	items, err := wantedItems(nil, false)
	require.NoError(t, err)
	ten := timeForEach(10, 5, 30, items, 400)
	require.Greater(t, ten, 10)
	require.Greater(t, timeForEach(20, 5, 30, items, 400), ten)
	require.Equal(t, 2, timeForEach(1, 5, 30, items, 400), "there is a least, even if it takes longer then")
	require.Equal(t, 1, timeForEach(10, 5, 30, []Item{{"wait", 1, 1, 1}}, 400))
}
