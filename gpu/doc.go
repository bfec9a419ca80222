// Package gpu gives Go programs the memory of NVIDIA GPUs: buffers, streams,
// events, copies, and page-locked host memory from a pool. It finds the CUDA
// driver (libcuda.so.1) at run time. Building needs no CUDA toolkit, and a
// machine without a driver gets [ErrNotSupported] from the first call.
//
//	d, err := gpu.OpenLocalDevice()           // by the rank on this host
//	b, err := d.Alloc(4 * len(numbers))
//	s, err := d.NewStream()
//	err = gpu.Memcpy(ctx, s, b, numbers)      // waits: suspends the goroutine
//	err = coro.Send(ctx, world, b.Mem(), 1, 7)
//
// Everything may be called from any goroutine. Contexts are handled inside: a
// [Device] holds the primary context of its device, the one that other CUDA
// libraries in the process use, and each call makes it current for its duration.
//
// The names are CUDA's own. Calls that end in Async queue work on a [Stream] and
// return. What waits takes a context, and suspends the goroutine, not its thread:
// one goroutine asks the driver for the events of all that wait. No call blocks
// in the driver, except that freeing memory may wait there for work that other
// libraries have queued on the device.
//
// A [Buffer] is device, managed or page-locked host memory. It is not freed by
// the garbage collector: call Free. Whoever uses memory, a stream or an event after
// its end gets [ErrFreed]. Lengths are in bytes. [Buffer.Mem] makes a mem.Buffer,
// which is what messages are sent from and received into.
//
// # Ownership
//
// An Async call borrows its buffers until the stream has done the work: do not
// write to the source, nor touch the destination, until [Stream.Synchronize] or
// an event says so. Free waits for that by itself. [Memcpy] borrows until it
// returns; if its context ended, until the stream is synchronised.
//
// # Not supported
//
// Other vendors' GPUs. Strided copies, arrays and textures, graphs, memory pools
// of the driver (cuMemAllocAsync; memory from there is recognised), sharing
// between processes (the MPI library does that itself). Per-thread default
// streams, which have no meaning where goroutines change threads. Launching
// kernels: use [Stream.Handle] and [Device.Context] with the library that
// has them.
package gpu
