package cuda

// #include "dlpack.h"
import "C"

import (
	"errors"
	"fmt"
	"runtime/cgo"
	"unsafe"
)

// The types of device in a DLPack tensor.
const (
	DLCUDA        = C.M4G_DL_CUDA
	DLCUDAHost    = C.M4G_DL_CUDA_HOST
	DLCUDAManaged = C.M4G_DL_CUDA_MANAGED
)

// Tensor is what a one-dimensional DLPack tensor refers to.
type Tensor struct {
	Address uintptr
	Bytes   int
	Type    int // of the device
	Device  int
}

// ExportTensor makes a tensor of bytes in C memory. Its deleter calls release
// once, on whatever thread.
func ExportTensor(t Tensor, release func()) (uintptr, error) {
	owner := cgo.NewHandle(release)
	managed := C.m4g_dl_export(C.uint64_t(t.Address), C.int64_t(t.Bytes), C.int32_t(t.Type), C.int32_t(t.Device), C.uint64_t(owner))
	if managed == nil {
		owner.Delete()
		return 0, errors.New("no memory for a DLPack tensor")
	}
	return uintptr(unsafe.Pointer(managed)), nil
}

//export m4g_dl_released
func m4g_dl_released(owner C.uint64_t) {
	handle := cgo.Handle(owner)
	release := handle.Value().(func())
	handle.Delete()
	release()
}

// ReadTensor says what a tensor refers to. The tensor must be one-dimensional and
// contiguous.
func ReadTensor(address uintptr) (Tensor, error) {
	t := (*(**C.m4g_dl_managed)(unsafe.Pointer(&address))).tensor
	switch {
	case t.ndim != 1:
		return Tensor{}, fmt.Errorf("the DLPack tensor has %d dimensions: want 1: flatten it first", t.ndim)
	case t.strides != nil && *t.strides != 1 && *t.shape > 1:
		return Tensor{}, fmt.Errorf("the elements of the DLPack tensor are %d apart: want a contiguous one: copy it first", *t.strides)
	case int(t.dtype.bits)*int(t.dtype.lanes)%8 != 0:
		return Tensor{}, fmt.Errorf("the elements of the DLPack tensor have %d bits: want whole bytes", int(t.dtype.bits)*int(t.dtype.lanes))
	case *t.shape < 0:
		return Tensor{}, fmt.Errorf("the DLPack tensor has %d elements", *t.shape)
	}
	return Tensor{
		Address: uintptr(t.data) + uintptr(t.byte_offset),
		Bytes:   int(*t.shape) * int(t.dtype.bits) * int(t.dtype.lanes) / 8,
		Type:    int(t.device._type),
		Device:  int(t.device.id),
	}, nil
}

// DeleteTensor calls the deleter of a tensor.
func DeleteTensor(address uintptr) { C.m4g_dl_delete(C.uint64_t(address)) }
