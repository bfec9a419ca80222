// Package mpicomm is MPI for Go programs: non-blocking point-to-point
// operations, probes, collectives and communicators, over whichever MPI library launched the
// job.
//
// # Model
//
// [Init] finds and initialises MPI, [World] is the communicator of all ranks.
// [Comm.Isend], [Comm.Irecv] and the like start an operation and return a
// [Request], the only kind of operation there is; [Post] starts several as one
// set. Request.Wait suspends the goroutine, never an OS thread. [Do] starts an
// operation and waits for it; package coro builds on it and is what most
// programs want.
//
// All calls may be made from any goroutine. Operations of one goroutine are
// started in its program order, and MPI keeps the order of messages between two
// ranks on one communicator. Receives that could match the same message are
// served in the order of their calls.
//
// # Collectives
//
// [Bcast], [Allreduce], [Gather] and the others are functions that are generic
// over the type of the elements. All ranks of a communicator start its
// collectives in the same order, so do that from one goroutine; Config.Debug
// checks it. [Comm.Split] and its kin make communicators, one at a time in a
// process.
//
// # Who owns the buffer
//
// An operation that was started owns its buffer until it is done: do not write
// to the buffer of a send, nor look at that of a receive, before Wait, Test or
// Done says so. The library keeps the memory alive and in place meanwhile, also
// when the Request is dropped. docs/buffers.md has the whole table.
//
// # What is on the wire
//
// Every operation is exactly one MPI message of MPI_BYTE with no header, of any
// length, so the other end may be a C or mpi4py program that calls MPI_Send or
// MPI_Recv on the same communicator. Collectives are those of MPI, too.
//
// A receive whose message is longer than its buffer fails with [ErrTruncate].
// The message is consumed, and no byte past the end of the buffer is written.
//
// # Device memory
//
// A buffer may be memory of a GPU (package gpu). MPI is given it where [Info] says that
// MPI takes it; elsewhere it is staged through page-locked memory, and the operation is still one
// plain message. Either way the operation waits for what the device has to do before
// it: docs/gpu.md.
//
// # Beside other packages
//
// Init attaches to an MPI that another package of the process has initialised,
// if its thread level suffices; see [Init] and [Config].Exclusive. [World] is
// MPI_COMM_WORLD itself, whose error handler is then that package's: an error
// that only MPI sees ends the job, as a rule. On a [Comm.Dup] such errors return
// (with MPICH those at completion still go to the handler of the world).
//
// # Errors
//
// What can be seen locally (a rank or tag out of range, a nil communicator) is
// reported before MPI sees it. Errors of MPI are [*Error] with a [Class]:
// errors.Is(err, mpicomm.ErrTruncate).
//
// # Not supported
//
// One-sided communication, persistent and partitioned operations,
// intercommunicators, MPI-IO, dynamic processes; collectives of device memory other
// than [Bcast].
package mpicomm
