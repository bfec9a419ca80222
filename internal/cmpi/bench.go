package cmpi

/*
#include <stdlib.h>
#include "engine.h"
static int call_bench(const m4g_family *f, const m4g_bench *b, double *seconds) { M4G_CALL(int, f->bench(b, seconds)); }
*/
import "C"

import (
	"runtime"
	"unsafe"
)

// BenchMode selects one of the C loops of bench.h.
type BenchMode int32

// The loops of bench.h.
const (
	BenchLatency     BenchMode = C.M4G_BENCH_LATENCY
	BenchBandwidth   BenchMode = C.M4G_BENCH_BANDWIDTH
	BenchBibandwidth BenchMode = C.M4G_BENCH_BIBANDWIDTH
	BenchBarrier     BenchMode = C.M4G_BENCH_BARRIER
	BenchBcast       BenchMode = C.M4G_BENCH_BCAST
	BenchAllreduce   BenchMode = C.M4G_BENCH_ALLREDUCE
	BenchAlltoall    BenchMode = C.M4G_BENCH_ALLTOALL
	BenchIbcast      BenchMode = C.M4G_BENCH_IBCAST
	BenchIallreduce  BenchMode = C.M4G_BENCH_IALLREDUCE
	BenchIalltoall   BenchMode = C.M4G_BENCH_IALLTOALL

	BenchFramesPacked   BenchMode = C.M4G_BENCH_FRAMES_PACKED
	BenchFramesRequests BenchMode = C.M4G_BENCH_FRAMES_REQUESTS
	BenchFramesDatatype BenchMode = C.M4G_BENCH_FRAMES_DATATYPE
	BenchFramesOne      BenchMode = C.M4G_BENCH_FRAMES_ONE
)

// Bench is one run of a C loop on MPI_COMM_WORLD: between this rank and Peer, or
// of a collective of all ranks.
type Bench struct {
	Mode       BenchMode
	Peer       int
	Sender     bool // whether this rank sends first
	Window     int
	Iterations int
	Send, Recv []byte // at most 2^31-1 bytes
	// SendAt and RecvAt, unless 0, are addresses in the place of Send and Recv, of
	// memory that Go does not know.
	SendAt, RecvAt uintptr
	Size           int // bytes of a message or a frame, or in a collective for each rank
	Frames         int // of a message of many buffers
	Stride         int // bytes from one frame to the next
}

// Run returns the seconds that the loop took. The caller holds the lead.
func (b *Bench) Run(l *Library) (float64, error) {
	var none [1]byte // the loops want an address even for no bytes
	address := func(buf []byte) *byte {
		if len(buf) == 0 {
			return &none[0]
		}
		return &buf[0]
	}
	c := (*C.m4g_bench)(C.calloc(1, C.sizeof_m4g_bench))
	defer C.free(unsafe.Pointer(c))
	var pin runtime.Pinner
	defer pin.Unpin()
	send, recv := address(b.Send), address(b.Recv)
	pin.Pin(send)
	pin.Pin(recv)
	c.mode, c.peer, c.window, c.iterations = C.int32_t(b.Mode), C.int32_t(b.Peer), C.int32_t(b.Window), C.int32_t(b.Iterations)
	if b.Sender {
		c.sender = 1
	}
	c.size, c.frames, c.stride = C.int64_t(b.Size), C.int32_t(b.Frames), C.int64_t(b.Stride)
	c.sendbuf, c.recvbuf = unsafe.Pointer(send), unsafe.Pointer(recv)
	if b.SendAt != 0 {
		*(*uintptr)(unsafe.Pointer(&c.sendbuf)) = b.SendAt
	}
	if b.RecvAt != 0 {
		*(*uintptr)(unsafe.Pointer(&c.recvbuf)) = b.RecvAt
	}
	var seconds C.double
	if rc := C.call_bench(l.family, c, &seconds); rc != 0 {
		return 0, l.callError("the C loop", int(rc))
	}
	return float64(seconds), nil
}
