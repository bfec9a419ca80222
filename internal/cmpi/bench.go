package cmpi

/*
#include <stdlib.h>
#include "engine.h"
static int call_bench(const m4g_family *f, const m4g_bench *b, double *seconds) { return f->bench(b, seconds); }
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
)

// Bench is one run of a C loop between this rank and Peer on MPI_COMM_WORLD.
// With BenchBarrier it is a barrier of all ranks and the rest does not matter.
type Bench struct {
	Mode       BenchMode
	Peer       int
	Sender     bool // whether this rank sends first
	Window     int
	Iterations int
	Send, Recv []byte // of one length, at most 2^31-1 bytes
}

// Run returns the seconds that the loop took. The caller holds the lead.
func (b *Bench) Run(l *Library) (float64, error) {
	size := len(b.Send)
	if size == 0 { // the loops want an address even for no bytes
		b = &Bench{b.Mode, b.Peer, b.Sender, b.Window, b.Iterations, make([]byte, 1), make([]byte, 1)}
	}
	c := (*C.m4g_bench)(C.calloc(1, C.sizeof_m4g_bench))
	defer C.free(unsafe.Pointer(c))
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&b.Send[0])
	pin.Pin(&b.Recv[0])
	c.mode, c.peer, c.window, c.iterations = C.int32_t(b.Mode), C.int32_t(b.Peer), C.int32_t(b.Window), C.int32_t(b.Iterations)
	if b.Sender {
		c.sender = 1
	}
	c.size = C.int64_t(size)
	c.sendbuf, c.recvbuf = unsafe.Pointer(&b.Send[0]), unsafe.Pointer(&b.Recv[0])
	var seconds C.double
	if rc := C.call_bench(l.family, c, &seconds); rc != 0 {
		return 0, l.callError("the C loop", int(rc))
	}
	return float64(seconds), nil
}
