package cmpi

/*
#include <stdlib.h>
#include "engine.h"
static int call_split(const m4g_family *f, m4g_comm *c, uint64_t comm, int how, int color, int key) { M4G_CALL(int, (f->split(c, comm, how, color, key), c->rc)); }
static void call_from_fortran(const m4g_family *f, m4g_comm *c, int handle) { f->from_fortran(c, handle); }
static int call_to_fortran(const m4g_family *f, uint64_t comm) { return f->to_fortran(comm); }
static int call_comm_free(const m4g_family *f, uint64_t comm) { M4G_CALL(int, f->comm_free(comm)); }
static int call_set_name(const m4g_family *f, uint64_t comm, const char *name) { return f->set_name(comm, name); }
static int call_get_name(const m4g_family *f, uint64_t comm, char *name, int size) { return f->get_name(comm, name, size); }
static int call_wide(const m4g_family *f) { return f->wide(); }
*/
import "C"

import "unsafe"

// The calls of this file are made with the lead: see progress.Engine.Exclusive.

// Comm is a communicator of MPI.
type Comm struct {
	Handle     uint64 // 0 for MPI_COMM_NULL
	Rank, Size int
}

// Split calls MPI_Comm_split; a negative color is MPI_UNDEFINED. It blocks until
// every rank has called it.
func (l *Library) Split(comm uint64, color, key int) (Comm, error) {
	var c C.m4g_comm
	C.call_split(l.family, &c, C.uint64_t(comm), C.M4G_SPLIT_COLOR, C.int(color), C.int(key))
	return l.newComm(&c)
}

// SplitShared calls MPI_Comm_split_type for the ranks that share memory. It
// blocks until every rank has called it.
func (l *Library) SplitShared(comm uint64, key int) (Comm, error) {
	var c C.m4g_comm
	C.call_split(l.family, &c, C.uint64_t(comm), C.M4G_SPLIT_SHARED, 0, C.int(key))
	return l.newComm(&c)
}

// FromFortran finds the communicator of a Fortran handle (MPI_Comm_f2c).
func (l *Library) FromFortran(handle int) (Comm, error) {
	var c C.m4g_comm
	C.call_from_fortran(l.family, &c, C.int(handle))
	return l.newComm(&c)
}

func (l *Library) newComm(c *C.m4g_comm) (Comm, error) {
	if c.rc != 0 {
		return Comm{}, l.callError(C.GoString(c.failed), int(c.rc))
	}
	return Comm{uint64(c.handle), int(c.rank), int(c.size)}, nil
}

// ToFortran is the Fortran handle of a communicator (MPI_Comm_c2f).
func (l *Library) ToFortran(comm uint64) int {
	return int(C.call_to_fortran(l.family, C.uint64_t(comm)))
}

// FreeComm calls MPI_Comm_free. It may block until every rank has called it.
func (l *Library) FreeComm(comm uint64) error {
	if rc := C.call_comm_free(l.family, C.uint64_t(comm)); rc != 0 {
		return l.callError("MPI_Comm_free", int(rc))
	}
	return nil
}

// SetCommName calls MPI_Comm_set_name, with as much of the name as fits.
func (l *Library) SetCommName(comm uint64, name string) error {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	if rc := C.call_set_name(l.family, C.uint64_t(comm), c); rc != 0 {
		return l.callError("MPI_Comm_set_name", int(rc))
	}
	return nil
}

// CommName calls MPI_Comm_get_name.
func (l *Library) CommName(comm uint64) (string, error) {
	var name [1024]C.char
	if rc := C.call_get_name(l.family, C.uint64_t(comm), &name[0], C.int(len(name))); rc != 0 {
		return "", l.callError("MPI_Comm_get_name", int(rc))
	}
	return C.GoString(&name[0]), nil
}

// Wide tells whether counts and displacements above 2^31-1 elements work in the
// operations that have them for each rank (MPI_Igatherv_c and so on).
func (l *Library) Wide() bool { return C.call_wide(l.family) != 0 }
