//go:build race

package mpitest

// Race tells whether the race detector is on, which allocates by itself.
const Race = true
