// Package cuda is the only code that knows the CUDA driver API in C. It finds
// libcuda.so.1 at run time; building needs no CUDA toolkit. It has no policy:
// package gpu decides what is allocated, kept and waited for.
//
// A context is current for an OS thread, and goroutines move between threads. So
// every function that needs one takes it and makes it current in the same call
// into C, compared with what the driver says is current: a flag of our own would
// be out of date as soon as another library changes it. What was current before
// is current again afterwards.
//
// The C side, from the top:
//
//	driver.h    our declarations of the driver's types, and the calls
//	entries.h   the driver's entry points, with their signatures
//	driver.c    dlopen, contexts, the calls
//	dlpack.h    the layout of a DLPack tensor
//
// abi_test.go compares driver.h and entries.h with each cuda.h that it finds.
package cuda
