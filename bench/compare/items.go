package main

import (
	"fmt"
	"slices"
	"strings"
)

// Item is one thing that is measured: bytes of a frame, frames of a message, and
// messages of a window or conversations.
type Item struct {
	Kind   string `json:"kind"`
	Size   int    `json:"size"`
	Frames int    `json:"frames"`
	N      int    `json:"n"`
}

func (i Item) String() string { return fmt.Sprintf("%s:%d:%d:%d", i.Kind, i.Size, i.Frames, i.N) }

// kinds are the measurements, in the order in which a peer makes them: memory first,
// in a process that has not yet sent anything large.
var kinds = []string{"memory", "wait", "idle", "latency", "multi", "rate", "throughput"}

const kib, mib = 1 << 10, 1 << 20

// allItems are the measurements of a kind; quick ones are a few of them.
func allItems(kind string, quick bool) (items []Item) {
	switch kind {
	case "memory":
		return []Item{{kind, mib, 64, 1}}
	case "wait", "idle":
		return []Item{{kind, 1, 1, 1}}
	case "latency":
		sizes := []int{1, 8, 64, 256, kib, 4 * kib, 16 * kib, 64 * kib, 256 * kib, mib, 4 * mib}
		if quick {
			sizes = []int{1, 4 * kib, mib}
		}
		for _, size := range sizes {
			items = append(items, Item{kind, size, 1, 1})
		}
	case "multi":
		shapes := [][2]int{{2, kib}, {16, 64}, {16, 4 * kib}, {16, 64 * kib}, {64, kib}, {4, mib}}
		if quick {
			shapes = [][2]int{{16, 4 * kib}}
		}
		for _, s := range shapes {
			items = append(items, Item{kind, s[1], s[0], 1})
		}
	case "rate":
		numbers := []int{1, 8, 64, 1000}
		if quick {
			numbers = []int{1, 8}
		}
		for _, n := range numbers {
			items = append(items, Item{kind, 1, 1, n})
		}
	case "throughput":
		sizes := []int{1, 64, kib, 8 * kib, 64 * kib, 256 * kib, mib, 2 * mib, 4 * mib, 16 * mib}
		if quick {
			sizes = []int{1, 64 * kib, 2 * mib}
		}
		for _, size := range sizes {
			items = append(items, Item{kind, size, 1, window(size)})
		}
	}
	return items
}

// window is how many messages are in flight: 64, fewer of the largest, so that no
// window has more than 16 MiB but for those of 4 messages.
func window(size int) int { return min(64, max(4, 16*mib/size)) }

func wantedItems(only []string, quick bool) (items []Item, err error) {
	for _, o := range only {
		if !slices.Contains(kinds, o) {
			return nil, fmt.Errorf("--only %s: want %s", o, strings.Join(kinds, ", "))
		}
	}
	for _, kind := range kinds {
		if len(only) == 0 || slices.Contains(only, kind) {
			items = append(items, allItems(kind, quick)...)
		}
	}
	return items, nil
}

// formatSize writes 4096 as 4 KiB.
func formatSize(n int) string {
	for _, unit := range []struct {
		size int
		name string
	}{{mib, "MiB"}, {kib, "KiB"}} {
		if n >= unit.size && n%unit.size == 0 {
			return fmt.Sprintf("%d %s", n/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

// title names an item in the report.
func (i Item) title() string {
	switch i.Kind {
	case "latency", "throughput":
		return fmt.Sprintf("%s, %s", i.Kind, formatSize(i.Size))
	case "multi":
		return fmt.Sprintf("message of %d x %s", i.Frames, formatSize(i.Size))
	case "rate":
		return fmt.Sprintf("message rate, %s", counted(i.N, "conversation"))
	case "memory":
		return fmt.Sprintf("memory of a message of %d x %s", i.Frames, formatSize(i.Size))
	case "wait":
		return "CPU while waiting for a message"
	}
	return "CPU while idle"
}

// counted writes a number and a noun.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
