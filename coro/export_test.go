package coro

import "github.com/mpi4go/mpi4go/internal/wire"

// SetPlans makes this process send messages by other plans, until the function
// that it returns is called.
func SetPlans(text string) (restore func()) {
	ch, err := openedChannel()
	if err != nil {
		panic(err)
	}
	plans, err := wire.ParsePlans(text)
	if err != nil {
		panic(err)
	}
	old := ch.plans
	ch.plans = plans
	return func() { ch.plans = old }
}

// Unacknowledged counts the messages to a rank that it has not acknowledged, and
// Kept those from all ranks that nobody has received.
func Unacknowledged(rank int) int {
	ch, _ := openedChannel()
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.peer(rank).slots.inUse()
}

// Kept counts the messages that have arrived and that nobody has received.
func Kept() int {
	ch, _ := openedChannel()
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.matching.n
}
