package main

import (
	"fmt"
	"strconv"
	"strings"
)

// item is one thing to measure: KIND:SIZE:FRAMES:N.
type item struct {
	kind   string
	size   int // bytes of a frame
	frames int
	n      int // messages of a window, or conversations
}

func parseItem(text string) (item, error) {
	fields := strings.Split(text, ":")
	i := item{kind: fields[0], size: 1, frames: 1, n: 1}
	for at, into := range []*int{&i.size, &i.frames, &i.n} {
		if len(fields) <= at+1 {
			break
		}
		n, err := strconv.Atoi(fields[at+1])
		if err != nil || n < 1 {
			return i, fmt.Errorf("%q is not KIND:SIZE:FRAMES:N", text)
		}
		*into = n
	}
	if len(fields) > 4 {
		return i, fmt.Errorf("%q is not KIND:SIZE:FRAMES:N", text)
	}
	return i, nil
}

func (i item) String() string { return fmt.Sprintf("%s:%d:%d:%d", i.kind, i.size, i.frames, i.n) }
