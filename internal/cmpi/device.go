package cmpi

/*
#include <stdlib.h>
#include "engine.h"
*/
import "C"

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"unsafe"
)

// UseDevice has a context made current on every thread that calls MPI: swap is the
// address of a C function, m4g_device in engine.h. A swap of 0 ends that. No call of
// MPI may be under way.
func UseDevice(swap uintptr, context uint64) {
	C.m4g_use_device.context = C.uint64_t(context)
	*(*uintptr)(unsafe.Pointer(&C.m4g_use_device.swap)) = swap
}

// Enter makes that context current on this thread, for calls of MPI that are not made
// here; the goroutine is locked to it. Leave, with what Enter returned, ends that.
func Enter() (before uint64) { return uint64(C.m4g_enter()) }

// Leave puts back what was current before.
func Leave(before uint64) { C.m4g_leave(C.uint64_t(before)) }

// Capability is something that an MPI may be able to do with device memory.
type Capability struct {
	Able bool
	Why  string // what shows it, or what speaks against it
}

// DeviceMemory is what an MPI may be given device memory for.
type DeviceMemory struct {
	PointToPoint Capability // contiguous
	Datatypes    Capability // derived ones
	Collectives  Capability // non-blocking ones
}

// evidence is what is known of an initialised library. Queries and flags are 0, 1, or
// -1 where the library has none.
type evidence struct {
	implementation string // "openmpi" or "mpich"
	version        string
	cuda           int // MPIX_Query_cuda_support
	gpu            int // MPIX_GPU_query_support
	opalCuda       int // opal_cuda_support of Open MPI 4: that MCA variable's value
	plugins        []string
	env            func(string) string
}

// DeviceMemory finds out what an initialised library can do. Without proof it is
// nothing: to be wrong the other way is a crash.
func (l *Library) DeviceMemory() DeviceMemory {
	name := C.CString("opal_cuda_support")
	defer C.free(unsafe.Pointer(name))
	e := evidence{
		implementation: l.implementation(), version: l.ShortVersion(),
		cuda: int(C.m4g_query_cuda(l.handle)), gpu: int(C.m4g_query_gpu(l.handle)), opalCuda: int(C.m4g_flag(l.handle, name)),
		plugins: Plugins(), env: os.Getenv,
	}
	return e.judge()
}

func (e *evidence) judge() DeviceMemory {
	switch {
	case e.implementation == "openmpi":
		return e.openMPI()
	case strings.HasPrefix(e.version, "MVAPICH"):
		return e.mvapich()
	}
	return e.mpich()
}

func all(able bool, format string, a ...any) DeviceMemory {
	c := Capability{able, fmt.Sprintf(format, a...)}
	return DeviceMemory{c, c, c}
}

// off tells whether a variable of the environment is set and says no.
func (e *evidence) off(name string) bool {
	switch strings.ToLower(e.env(name)) {
	case "0", "false", "no", "n", "off", "disabled":
		return true
	}
	return false
}

// openMPI: MPIX_Query_cuda_support is about how Open MPI 4 was built, and about the
// accelerator in use in Open MPI 5. It is 0 over a UCX that can do contiguous messages
// by itself, and 1 where plugins without support are in use.
func (e *evidence) openMPI() DeviceMemory {
	has := func(name string) bool { return slices.Contains(e.plugins, name) }
	ucx := has("mca_pml_ucx") && !has("mca_pml_ob1")
	aware := e.cuda == 1
	if aware {
		switch {
		case e.opalCuda == 0:
			return all(false, "%s is built with CUDA, but opal_cuda_support is off", e.version)
		case e.off("OMPI_MCA_opal_cuda_support"), e.off("OMPI_MCA_mpi_cuda_support"):
			return all(false, "%s is built with CUDA, but OMPI_MCA_opal_cuda_support turns it off", e.version)
		case has("mca_pml_cm") && !has("mca_pml_ob1"):
			return all(false, "%s uses pml cm, and whether its fabric takes device memory is not known", e.version)
		case !ucx && has("mca_btl_vader") && !has("mca_btl_smcuda"):
			return all(false, "%s is built with CUDA, but uses btl vader without btl smcuda, which crashes on device memory", e.version)
		case ucx && !has("libuct_cuda"):
			return all(false, "%s is built with CUDA, but the UCX that it uses has not loaded libuct_cuda", e.version)
		}
	}
	m := all(false, "%s is not built with CUDA: MPIX_Query_cuda_support says 0", e.version)
	if e.cuda < 0 {
		m = all(false, "%s has no MPIX_Query_cuda_support", e.version)
	}
	switch {
	case aware:
		m = all(true, "%s is built with CUDA: MPIX_Query_cuda_support says 1, and nothing has turned it off", e.version)
		m.Collectives = Capability{false, "non-blocking reductions of Open MPI crash on device memory"}
	case ucx && has("libuct_cuda"):
		m.PointToPoint = Capability{true, "pml ucx is in use, and UCX has loaded libuct_cuda"}
		why := "UCX takes contiguous device memory, but " + m.Datatypes.Why
		m.Datatypes, m.Collectives = Capability{false, why}, Capability{false, why}
	}
	return m
}

// mvapich: the query is about how it was built; MV2_USE_CUDA is off by default.
func (e *evidence) mvapich() DeviceMemory {
	switch {
	case e.cuda != 1:
		return all(false, "%s is not built with CUDA: MPIX_Query_cuda_support does not say 1", e.version)
	case e.env("MV2_USE_CUDA") != "1":
		return all(false, "%s is built with CUDA, but MV2_USE_CUDA=1 is not set", e.version)
	}
	m := all(true, "%s is built with CUDA, and MV2_USE_CUDA=1 is set", e.version)
	m.Collectives = Capability{false, "nothing tells whether non-blocking collectives of " + e.version + " take device memory"}
	return m
}

func (e *evidence) mpich() DeviceMemory {
	switch {
	case e.gpu < 0:
		return all(false, "%s has no MPIX_GPU_query_support", e.version)
	case e.gpu == 0:
		return all(false, "%s is built without CUDA: MPIX_GPU_query_support says 0", e.version)
	case e.off("MPIR_CVAR_ENABLE_GPU"):
		return all(false, "%s is built with CUDA, but MPIR_CVAR_ENABLE_GPU turns it off", e.version)
	}
	return all(true, "%s is built with CUDA: MPIX_GPU_query_support says 1", e.version)
}
