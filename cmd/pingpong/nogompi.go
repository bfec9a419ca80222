//go:build !gompi

package main

// withGompi tells whether gompi is measured too: it is linked with one MPI, so
// not every build has it.
const withGompi = false

func (l *latency) gompi() pass { return nil }
