package cuda

/*
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "driver.h"
*/
import "C"

import (
	"fmt"
	"os"
	"sync"
	"unsafe"
)

// EnvLibrary names the environment variable with the path of the driver's
// library, for machines where the loader does not find it.
const EnvLibrary = "MPI4GO_CUDA"

const soname = "libcuda.so.1"

// Load finds the driver, once in the life of the process, and initialises it. The
// error wraps ErrNotSupported if there is none, or if it is too old, and says
// what was looked for and what is missing.
var Load = sync.OnceValue(func() error {
	path, hint := os.Getenv(EnvLibrary), "is set to it"
	if path == "" {
		path, hint = soname, "may be set to its path"
	}
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var text [512]C.char
	library := C.m4g_driver_open(name, &text[0], C.int(len(text)))
	if library == nil {
		return fmt.Errorf("%w: looked for the driver's library %s (%s %s): %s", ErrNotSupported, path, EnvLibrary, hint, C.GoString(&text[0]))
	}
	if missing := C.m4g_driver_load(library); missing != nil {
		return fmt.Errorf("%w: looked for the symbol %s in %s, and it is missing: is it the library of a CUDA driver, 11.0 or newer?", ErrNotSupported, C.GoString(missing), path)
	}
	return Init()
})

// Init initialises the driver, which Load does too. It may be called again.
func Init() error { return check(C.m4g_init()) }

// DriverVersion is the version of CUDA that the driver is for.
func DriverVersion() (major, minor int, err error) {
	r := C.m4g_driver_version()
	return int(r.value) / 1000, int(r.value) % 1000 / 10, check(r)
}

// Constants are the values in our declarations.
func Constants() map[string]int64 {
	return map[string]int64{
		"CUDA_SUCCESS":                                 C.CUDA_SUCCESS,
		"CUDA_ERROR_INVALID_VALUE":                     C.CUDA_ERROR_INVALID_VALUE,
		"CUDA_ERROR_OUT_OF_MEMORY":                     C.CUDA_ERROR_OUT_OF_MEMORY,
		"CUDA_ERROR_STUB_LIBRARY":                      C.CUDA_ERROR_STUB_LIBRARY,
		"CUDA_ERROR_NO_DEVICE":                         C.CUDA_ERROR_NO_DEVICE,
		"CUDA_ERROR_NOT_READY":                         C.CUDA_ERROR_NOT_READY,
		"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED":       C.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED,
		"CUDA_ERROR_NOT_SUPPORTED":                     C.CUDA_ERROR_NOT_SUPPORTED,
		"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR": C.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
		"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR": C.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
		"CU_POINTER_ATTRIBUTE_CONTEXT":                 C.CU_POINTER_ATTRIBUTE_CONTEXT,
		"CU_POINTER_ATTRIBUTE_MEMORY_TYPE":             C.CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
		"CU_POINTER_ATTRIBUTE_IS_MANAGED":              C.CU_POINTER_ATTRIBUTE_IS_MANAGED,
		"CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL":          C.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
		"CU_POINTER_ATTRIBUTE_RANGE_START_ADDR":        C.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
		"CU_POINTER_ATTRIBUTE_RANGE_SIZE":              C.CU_POINTER_ATTRIBUTE_RANGE_SIZE,
		"CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE":          C.CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
		"CU_MEMORYTYPE_HOST":                           C.CU_MEMORYTYPE_HOST,
		"CU_MEMORYTYPE_DEVICE":                         C.CU_MEMORYTYPE_DEVICE,
		"CU_STREAM_NON_BLOCKING":                       C.CU_STREAM_NON_BLOCKING,
		"CU_EVENT_DISABLE_TIMING":                      C.CU_EVENT_DISABLE_TIMING,
		"CU_MEMHOSTALLOC_PORTABLE":                     C.CU_MEMHOSTALLOC_PORTABLE,
		"CU_MEM_ATTACH_GLOBAL":                         C.CU_MEM_ATTACH_GLOBAL,
		"sizeof(CUresult)":                             C.sizeof_CUresult,
		"sizeof(CUdevice)":                             C.sizeof_CUdevice,
		"sizeof(CUdeviceptr)":                          C.sizeof_CUdeviceptr,
		"sizeof(CUdevice_attribute)":                   C.sizeof_CUdevice_attribute,
		"sizeof(CUpointer_attribute)":                  C.sizeof_CUpointer_attribute,
		"sizeof(CUuuid)":                               C.sizeof_CUuuid,
	}
}
