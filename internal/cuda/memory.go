package cuda

// #include "driver.h"
import "C"

// MemAlloc allocates memory of the context's device.
func MemAlloc(ctx Context, bytes int) (uintptr, error) {
	r := C.m4g_mem_alloc(C.uint64_t(ctx), C.uint64_t(bytes))
	return uintptr(r.value), check(r)
}

// MemFree frees what MemAlloc or MemAllocManaged allocated. The driver may wait
// for everything that the device is doing.
func MemFree(ctx Context, address uintptr) error {
	return check(C.m4g_mem_free(C.uint64_t(ctx), C.uint64_t(address)))
}

// MemAllocManaged allocates memory that the driver moves between host and device.
func MemAllocManaged(ctx Context, bytes int) (uintptr, error) {
	r := C.m4g_mem_alloc_managed(C.uint64_t(ctx), C.uint64_t(bytes))
	return uintptr(r.value), check(r)
}

// MemHostAlloc allocates page-locked host memory, for all contexts.
func MemHostAlloc(ctx Context, bytes int) (uintptr, error) {
	r := C.m4g_mem_host_alloc(C.uint64_t(ctx), C.uint64_t(bytes))
	return uintptr(r.value), check(r)
}

// MemFreeHost frees what MemHostAlloc allocated; it may wait as MemFree does.
func MemFreeHost(ctx Context, address uintptr) error {
	return check(C.m4g_mem_free_host(C.uint64_t(ctx), C.uint64_t(address)))
}

// MemGetInfo tells how much memory of the device is free.
func MemGetInfo(ctx Context) (free, total int, err error) {
	r := C.m4g_mem_info(C.uint64_t(ctx))
	return int(r.value), int(r.second), check(r)
}

// Pointer is what the driver knows of an address. All is zero for an address that
// it does not know.
type Pointer struct {
	Context  Context
	OnDevice bool // device or managed memory
	Host     bool // page-locked host memory
	Managed  bool
	Device   int
	Start    uintptr // of the allocation
	Size     int
	Pool     bool // from a stream-ordered allocator
}

// Inspect asks the driver what an address is.
func Inspect(address uintptr) (Pointer, error) {
	var p C.m4g_pointer
	r := C.m4g_pointer_inspect(C.uint64_t(address), &p)
	return Pointer{
		Context:  Context(p.context),
		OnDevice: p._type == C.CU_MEMORYTYPE_DEVICE,
		Host:     p._type == C.CU_MEMORYTYPE_HOST,
		Managed:  p.managed != 0,
		Device:   int(p.device),
		Start:    uintptr(p.start),
		Size:     int(p.size),
		Pool:     p.pool != 0,
	}, check(r)
}
