// Package cmpi is the only code that knows MPI in C. It finds an MPI library at
// run time, hides its binary interface behind one table of functions per
// family, and polls operations in C, where posting and testing cost no call
// across the language boundary each.
//
// The C side, from the top:
//
//	engine.h     operations, the engine, the table that a family provides
//	shim.c       dlopen, the background driver
//	family.h     the shim, written once with the standard's names ...
//	family_*.c   ... and compiled once per family
//	abi_*.h      the family's types, constants and handles
//	entries.h    the MPI functions that are called, with their signatures
//	bench.h      the C loops that our own figures are measured against
//
// There are three families: openmpi, mpich, and mpiabi, which is the ABI of the
// MPI-5 standard. abi_test.go compares abi_*.h and entries.h with each mpi.h that
// is installed.
package cmpi
