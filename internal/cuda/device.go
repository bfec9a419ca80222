package cuda

/*
#include "driver.h"
static uintptr_t context_swap(void) { return (uintptr_t)m4g_context_swap; }
*/
import "C"

import (
	"fmt"
	"unsafe"
)

// Context is a CUcontext, 0 if there is none.
type Context uintptr

// Device describes a device.
type Device struct {
	Handle       int
	Name         string
	UUID         [16]byte
	PCIBusID     string
	TotalMem     int
	Major, Minor int // compute capability
}

// DeviceCount is the number of devices that the process may use.
func DeviceCount() (int, error) {
	r := C.m4g_device_count()
	return int(r.value), check(r)
}

// DeviceOf reads what the driver says of the device with an ordinal.
func DeviceOf(ordinal int) (Device, error) {
	r := C.m4g_device(C.int(ordinal))
	d := Device{Handle: int(r.value)}
	handle := C.int(d.Handle)
	var name [256]C.char
	var bus [32]C.char
	for _, read := range []func() C.m4g_returned{
		func() C.m4g_returned { return r },
		func() C.m4g_returned { return C.m4g_device_name(handle, &name[0], C.int(len(name))) },
		func() C.m4g_returned {
			return C.m4g_device_uuid(handle, (*C.char)(unsafe.Pointer(&d.UUID[0])))
		},
		func() C.m4g_returned { return C.m4g_device_bus(handle, &bus[0], C.int(len(bus))) },
		func() C.m4g_returned {
			r := C.m4g_device_memory(handle)
			d.TotalMem = int(r.value)
			return r
		},
		func() C.m4g_returned {
			r := C.m4g_device_capability(handle)
			d.Major, d.Minor = int(r.value), int(r.second)
			return r
		},
	} {
		if err := check(read()); err != nil {
			return Device{}, fmt.Errorf("device %d: %w", ordinal, err)
		}
	}
	d.Name, d.PCIBusID = C.GoString(&name[0]), C.GoString(&bus[0])
	return d, nil
}

// CanAccessPeer tells whether one device can address the memory of another.
func CanAccessPeer(device, peer int) (bool, error) {
	r := C.m4g_device_peer(C.int(device), C.int(peer))
	return r.value != 0, check(r)
}

// EnablePeerAccess lets kernels in a context use memory of another. It does
// nothing where they can already.
func EnablePeerAccess(ctx, peer Context) error {
	err := check(C.m4g_context_peer(C.uint64_t(ctx), C.uint64_t(peer)))
	if e, ok := err.(*Error); ok && e.Result == peerAlreadyEnabled {
		return nil
	}
	return err
}

// Retain takes a reference to the primary context of a device.
func Retain(device int) (Context, error) {
	r := C.m4g_context_retain(C.int(device))
	return Context(r.value), check(r)
}

// Release gives a reference to the primary context back.
func Release(device int) error { return check(C.m4g_context_release(C.int(device))) }

// ContextHook is the address of m4g_context_swap (driver.h), for C code that has to
// make a context current.
func ContextHook() uintptr { return uintptr(C.context_swap()) }
