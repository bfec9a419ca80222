// Package coro sends and receives messages from goroutines. A call suspends its
// goroutine until MPI is done with the buffer; the thread goes on with other
// goroutines. It is the package that most programs use:
//
//	if world.Rank() == 0 {
//		err = coro.Send(ctx, world, []float64{1, 2, 3}, 1, tag)
//	} else {
//		values := make([]float64, 3)
//		status, err = coro.Recv(ctx, world, values, 0, tag)
//	}
//
// But for messages of many buffers, every call is one non-blocking MPI operation
// underneath (mpicomm.Do) and one plain MPI message on the wire, so the peer may be a C or mpi4py program.
//
// # Who owns the buffer
//
// A call borrows its buffer until it returns, unless it returns an
// [*mpicomm.InFlightError]. docs/buffers.md has the whole table.
//
// # Contexts
//
// Every call that blocks takes a context and returns when it ends. A receive
// that had matched a message by then delivers it with a nil error: a message is
// never lost to a cancellation. See mpicomm.Do for the rest.
//
// # Concurrency
//
// Start as many goroutines as you like, with go or in a [Group]. Receives that
// could match the same message are served in the order of their calls.
//
// # Messages of many buffers
//
// [SendMessage] sends a list of buffers, its frames, in one call, and [RecvMessage]
// receives it in one: they go out together and complete together, and none is
// copied but those short enough to travel in the header. [IsendMessage] and
// [IrecvMessage] start one and return a [MessageRequest]. docs/wire.md says how they
// travel.
//
//	frames, err := mem.Frames(offsets, validity, values, "int64")
//	err = coro.SendMessage(ctx, world, frames, 1, tag)
//
// # Device memory
//
// Buffers and frames may be memory of a GPU, mixed in any way: [Send] a
// gpu.Buffer's Mem, or its On(stream). docs/gpu.md says when it goes straight to MPI, what
// staging costs, and what orders it with the device's work.
package coro
