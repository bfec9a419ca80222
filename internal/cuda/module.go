package cuda

/*
#include <stdlib.h>
#include "driver.h"
*/
import "C"

import (
	"fmt"
	"unsafe"
)

// Module is a CUmodule.
type Module uintptr

// Function is a CUfunction.
type Function uintptr

// ModuleLoad compiles PTX text for the context's device and loads it.
func ModuleLoad(ctx Context, ptx string) (Module, error) {
	text := C.CString(ptx)
	defer C.free(unsafe.Pointer(text))
	r := C.m4g_module_load(C.uint64_t(ctx), text)
	return Module(r.value), check(r)
}

// ModuleUnload unloads a module. None of its kernels may be running.
func ModuleUnload(ctx Context, m Module) error {
	return check(C.m4g_module_unload(C.uint64_t(ctx), C.uint64_t(m)))
}

// ModuleFunction finds a kernel.
func ModuleFunction(ctx Context, m Module, name string) (Function, error) {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	r := C.m4g_module_function(C.uint64_t(ctx), C.uint64_t(m), text)
	return Function(r.value), check(r)
}

// maxArguments is the length of the array in m4g_launch.
const maxArguments = 8

// Launch starts a kernel with one-dimensional blocks. Every parameter of the
// kernel has 8 bytes.
func Launch(ctx Context, f Function, blocks, threads int, s Stream, arguments ...uint64) error {
	if len(arguments) > maxArguments {
		return fmt.Errorf("a kernel with %d parameters: want at most %d", len(arguments), maxArguments)
	}
	return check(C.m4g_launch(C.uint64_t(ctx), C.uint64_t(f), C.uint32_t(blocks), C.uint32_t(threads), C.uint64_t(s),
		(*C.uint64_t)(unsafe.Pointer(unsafe.SliceData(arguments))), C.int(len(arguments))))
}
