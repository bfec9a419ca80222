package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
)

// newBuffer returns memory that is really there: pages that were never written
// are all the same page of zeros, which stays in the cache.
func newBuffer(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i + 1)
	}
	return b
}

// seeds is how many patterns there are. It is prime, so that no window or round
// length repeats them in step.
const seeds = 4093

// pattern makes the contents of messages: pseudo-random bytes, from another
// place for each seed.
type pattern struct{ bytes []byte }

func newPattern(longest int) *pattern {
	p := &pattern{make([]byte, longest+seeds)}
	_, _ = rand.NewChaCha8([32]byte{}).Read(p.bytes) // it cannot fail
	return p
}

func (p *pattern) message(n, seed int) []byte {
	return p.bytes[seed%seeds:][:n]
}

func (p *pattern) fill(_ context.Context, b buffer, seed int) error {
	copy(b.bytes, p.message(len(b.bytes), seed))
	return nil
}

func (p *pattern) verify(_ context.Context, b buffer, seed int) error {
	message, want := b.bytes, p.message(len(b.bytes), seed)
	if bytes.Equal(message, want) {
		return nil
	}
	for i := range message {
		if message[i] != want[i] {
			return fmt.Errorf("byte %d is %#02x, want %#02x", i, message[i], want[i])
		}
	}
	return nil
}
