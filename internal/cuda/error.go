package cuda

// #include "driver.h"
import "C"

import (
	"errors"
	"fmt"
)

// ErrNotSupported says that the machine has no usable CUDA driver or device, or
// that its driver lacks something. It wraps errors.ErrUnsupported.
var ErrNotSupported = fmt.Errorf("CUDA is not available here: %w", errors.ErrUnsupported)

// Result is a result of the driver (CUresult) that is not success.
type Result int

// Results that callers compare with.
const (
	OutOfMemory        Result = C.CUDA_ERROR_OUT_OF_MEMORY
	notReady           Result = C.CUDA_ERROR_NOT_READY
	peerAlreadyEnabled Result = C.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
)

// unsupported are the results that mean ErrNotSupported.
var unsupported = map[Result]bool{
	C.CUDA_ERROR_STUB_LIBRARY: true, C.CUDA_ERROR_NO_DEVICE: true, C.CUDA_ERROR_NOT_SUPPORTED: true,
}

// Error gives the driver's name for the result, such as CUDA_ERROR_OUT_OF_MEMORY.
func (r Result) Error() string {
	if name := C.m4g_result_name(C.int(r)); name != nil {
		return C.GoString(name)
	}
	return fmt.Sprintf("CUDA error %d", int(r))
}

// Error is a failed call of the driver. errors.Is finds its Result, and
// ErrNotSupported where the result means that.
type Error struct {
	Call   string // the entry point, such as cuMemAlloc_v2
	Result Result
}

// Error names the call, the result, its number, and what it means.
func (e *Error) Error() string {
	text := ""
	if t := C.m4g_result_text(C.int(e.Result)); t != nil {
		text = ": " + C.GoString(t)
	}
	return fmt.Sprintf("%s: %s (%d)%s", e.Call, e.Result.Error(), int(e.Result), text)
}

// Is tells whether the target is the Result, or ErrNotSupported.
func (e *Error) Is(target error) bool {
	if result, ok := target.(Result); ok {
		return result == e.Result
	}
	return (target == ErrNotSupported || target == errors.ErrUnsupported) && unsupported[e.Result]
}

func failed(call, result C.int32_t) error {
	if result == C.CUDA_SUCCESS {
		return nil
	}
	return &Error{Call: C.GoString(C.m4g_call_name(C.int(call))), Result: Result(result)}
}

func check(r C.m4g_returned) error { return failed(r.call, r.result) }
