package cmpi

/*
#include "engine.h"
static inline int call_query_thread(const m4g_family *f, int *provided) { return f->query_thread(provided); }
static inline int call_detach(const m4g_family *f, uint64_t private_comm) { M4G_CALL(int, f->detach(private_comm)); }
*/
import "C"

// The calls for an MPI that somebody else has initialised and will finalise.

// Finalizing is called, if it is set before Library.Init, when that somebody
// calls MPI_Finalize: on its thread, before MPI has ended anything. All calls of
// MPI are still possible in it. It is also called by Detach.
var Finalizing func()

//export m4gFinalizing
func m4gFinalizing() { Finalizing() }

// ThreadLevel calls MPI_Query_thread.
func (l *Library) ThreadLevel() (int, error) {
	var provided C.int
	if rc := C.call_query_thread(l.family, &provided); rc != 0 {
		return 0, l.callError("MPI_Query_thread", int(rc))
	}
	return int(provided), nil
}

// Detach frees what Init has made. It is collective.
func (l *Library) Detach(private uint64) error {
	if rc := C.call_detach(l.family, C.uint64_t(private)); rc != 0 {
		return l.callError("MPI_Comm_free", int(rc))
	}
	return nil
}
