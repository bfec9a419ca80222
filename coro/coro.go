package coro

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
)

// Send sends a buffer to a rank and suspends the goroutine until the buffer is
// free again. That does not mean that it was received: up to 256 bytes of host memory are
// copied and Send returns at once; a short message may wait at the receiver; a
// long one waits for its receive. The buffer is borrowed until Send returns.
//
// Errors: mpicomm.ErrRank, mpicomm.ErrTag; when the context ends before the
// send is done, an [*mpicomm.InFlightError]; a failure of an earlier short send
// on the communicator; those of MPI.
//
// Source: MPI_Isend, MPI-4.1 3.7.2.
func Send[D mem.Data](ctx context.Context, c *mpicomm.Comm, buf D, dest, tag int) error {
	_, err := mpicomm.Do(ctx, c.SendOp(mem.Of(buf), dest, tag))
	return err
}

// Ssend is Send in synchronous mode: it returns when the receive has started.
//
// Source: MPI_Issend, MPI-4.1 3.7.2.
func Ssend[D mem.Data](ctx context.Context, c *mpicomm.Comm, buf D, dest, tag int) error {
	_, err := mpicomm.Do(ctx, c.SsendOp(mem.Of(buf), dest, tag))
	return err
}

// Recv receives a message from a rank, or mpicomm.AnySource, with a tag, or
// mpicomm.AnyTag, and suspends the goroutine until it is there. Status.Count is
// its length in bytes; the rest of a longer buffer is left alone. The buffer is
// borrowed until Recv returns.
//
// Errors: mpicomm.ErrTruncate if the message is longer than the buffer (it is
// consumed; nothing past the end is written); mpicomm.ErrRank, mpicomm.ErrTag;
// the context's, if it ends before a message has matched; an
// [*mpicomm.InFlightError] if one has and does not come in time; those of MPI.
//
// Source: MPI_Irecv, MPI-4.1 3.7.2.
func Recv[D mem.Data](ctx context.Context, c *mpicomm.Comm, buf D, source, tag int) (mpicomm.Status, error) {
	return mpicomm.Do(ctx, c.RecvOp(mem.Of(buf), source, tag))
}

// Sendrecv sends one buffer and receives into another, posted as one set, so
// that two ranks may call it at the same time with any lengths. The buffers
// must not overlap; both are borrowed until it returns. The status is that of
// the message received. Errors are those of [Send] and [Recv].
//
// Source: MPI_Sendrecv, MPI-4.1 3.11.
func Sendrecv[S, R mem.Data](ctx context.Context, c *mpicomm.Comm, send S, dest, sendtag int, recv R, source, recvtag int) (mpicomm.Status, error) {
	var room [2]mpicomm.Status
	statuses, err := mpicomm.DoAll(ctx, room[:0], c.RecvOp(mem.Of(recv), source, recvtag), c.SendOp(mem.Of(send), dest, sendtag))
	if len(statuses) == 0 {
		return mpicomm.Status{}, err
	}
	return statuses[0], err
}

// RecvAlloc receives a message whose length is not known, into a slice made for
// it: RecvAlloc[byte], or of any numeric type, of which the message must be a
// whole number. While it waits it keeps its place in the order of receives.
//
// When the context ends before a message has matched, the error is the
// context's; when one has, it is received in full with a nil error, or left to
// the next receive that matches it with the context's error. If neither is
// possible in time the error is an [*mpicomm.InFlightError], and the slice, which
// is returned too, belongs to the library until the request is done.
//
// Other errors: those of [Recv], and mpicomm.ErrType for a message that is not a
// whole number of elements, which is left to the next receive that matches it.
//
// Source: MPI_Improbe and MPI_Imrecv, MPI-4.1 3.8.
func RecvAlloc[T mem.Element](ctx context.Context, c *mpicomm.Comm, source, tag int) ([]T, mpicomm.Status, error) {
	var made []T
	status, err := mpicomm.RecvAlloc(ctx, c, source, tag, func(s mpicomm.Status) (mem.Buffer, error) {
		size := int(unsafe.Sizeof(*new(T)))
		if s.Count%size != 0 {
			return mem.Buffer{}, fmt.Errorf("a message of %d bytes is no whole number of %d-byte elements (peer %d tag %d): %w",
				s.Count, size, s.Source, s.Tag, mpicomm.ErrType)
		}
		made = make([]T, s.Count/size)
		return mem.OfSlice(made), nil
	})
	return made, status, err
}
