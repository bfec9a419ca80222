package transport

import (
	"context"

	"github.com/mpi4go/mpi4go/internal/inner"
)

// SpeakVersions makes this process speak other versions, until the function that it
// returns is called.
func SpeakVersions(least, most uint8) (restore func()) {
	n, err := openNode()
	if err != nil {
		panic(err)
	}
	old := n.versions.Swap(&versions{least, most})
	return func() { n.versions.Store(old) }
}

// HalfDial dials without ever looking at the answer, and later aborts what it got.
func HalfDial(rank int, service string) {
	n, err := openNode()
	if err != nil {
		panic(err)
	}
	n.send(rank, control{kind: msgDial, from: 1<<32 - 1, least: leastVersion, most: mostVersion, limits: n.link.Limits(), service: service})
}

// Open counts the connections that are not over.
func Open() int {
	n, err := openNode()
	if err != nil {
		panic(err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.conns)
}

// Link is the process's door to the channel of messages.
func Link() inner.Connections {
	n, err := openNode()
	if err != nil {
		panic(err)
	}
	return n.link
}

// Merged is a context as a call has it, and a function that ends its side.
func Merged(ctx context.Context) (merged context.Context, end func(error)) {
	s := new(side)
	merged, _, _ = s.with(ctx)
	return merged, s.fail
}
