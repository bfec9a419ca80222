// Package mem describes memory that messages are sent from and received into:
// where it is, how long it is, and of which kind. It is what the host side
// (mpicomm, coro) and the device side (gpu) share.
//
// A [Buffer] refers to memory, it does not own a copy. [Of] makes one of a
// slice without copying, so
//
//	coro.Send(ctx, world, []float64{1, 2, 3}, 1, 7)
//
// sends 24 bytes from where they are. Lengths are in bytes everywhere in this
// package.
//
// [Alloc] gives memory outside the Go heap for buffers that live long and are
// used for communication again and again; docs/buffers.md says when that
// matters.
//
// Not supported: memory with gaps (a strided column). Copy it, or send a
// buffer for each piece.
package mem
