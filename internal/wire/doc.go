// Package wire is the format of the headers of multi-buffer messages:
// docs/wire.md describes it. It knows neither MPI nor goroutines.
package wire
