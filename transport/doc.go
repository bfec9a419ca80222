// Package transport makes connections between the processes of an MPI job: the
// communication backend of a distributed program. It has addresses, listeners,
// dialers, and connections that carry messages of many buffers, or a stream of bytes
// for programs that know package net.
//
//	l, err := transport.Listen(ctx, "mpi://*/store", transport.Config{})
//	conn, err := l.Accept(ctx)
//	frames, err := conn.RecvMessage(ctx)
//
//	conn, err := transport.Dial(ctx, "mpi://0/store", transport.Config{})
//	err = conn.SendMessage(ctx, frames)
//	err = conn.Close()
//
// Nothing of it is collective: after mpicomm.Init any rank listens and dials when it
// likes, to itself, too.
//
// # Connections
//
// All connections of a process travel on the private communicator on which the
// messages of package coro travel, by the same plans: docs/wire.md. A connection costs
// about a kilobyte on each side, no goroutine, and nothing while it is idle. As
// many as memory has room for may be open between two ranks, and what a message
// costs does not depend on their number.
//
// # Ends
//
// [Conn.Close] ends a connection when what is being sent has got through,
// [Conn.Abort] at once. The calls of both sides then fail with an error that wraps
// net.ErrClosed. A connection that was ended by its peer still has to be closed. A
// peer that dies or stops is noticed by its silence: [PeerLostError].
// mpicomm.Finalize ends listeners and connections that are still open, without
// flushing: close them before.
//
// # Not supported
//
// Half-closed connections; connections to processes of another job; encryption (use
// crypto/tls on a [Conn.NetConn]).
package transport
