// Package gpu will own device memory: buffers, streams, events, and a pool of
// pinned host memory, over the CUDA driver API found at run time. It is empty
// yet. What the host side needs of it, the kinds of memory, is in package mem.
//
// Not supported: everything. Device memory is refused with an error by the
// calls of mpicomm and coro.
package gpu
