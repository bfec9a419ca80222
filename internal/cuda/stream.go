package cuda

// #include "driver.h"
import "C"

import "unsafe"

// Stream is a CUstream; 0 is the legacy default stream.
type Stream uintptr

// Event is a CUevent.
type Event uintptr

// StreamCreate makes a stream that does not wait for the legacy default stream.
func StreamCreate(ctx Context) (Stream, error) {
	r := C.m4g_stream_create(C.uint64_t(ctx))
	return Stream(r.value), check(r)
}

// StreamDestroy destroys a stream; what is queued on it is still done.
func StreamDestroy(ctx Context, s Stream) error {
	return check(C.m4g_stream_destroy(C.uint64_t(ctx), C.uint64_t(s)))
}

// StreamQuery tells whether everything that was queued is done.
func StreamQuery(ctx Context, s Stream) (bool, error) {
	return done(check(C.m4g_stream_query(C.uint64_t(ctx), C.uint64_t(s))))
}

// StreamWaitEvent makes what is queued later wait for what the event recorded.
func StreamWaitEvent(ctx Context, s Stream, e Event) error {
	return check(C.m4g_stream_wait_event(C.uint64_t(ctx), C.uint64_t(s), C.uint64_t(e)))
}

// EventCreate makes an event that measures no time.
func EventCreate(ctx Context) (Event, error) {
	r := C.m4g_event_create(C.uint64_t(ctx))
	return Event(r.value), check(r)
}

// EventDestroy destroys an event.
func EventDestroy(ctx Context, e Event) error {
	return check(C.m4g_event_destroy(C.uint64_t(ctx), C.uint64_t(e)))
}

// EventRecord makes the event stand for everything that was queued so far.
func EventRecord(ctx Context, e Event, s Stream) error {
	return check(C.m4g_event_record(C.uint64_t(ctx), C.uint64_t(e), C.uint64_t(s)))
}

// EventQuery tells whether what the event recorded is done.
func EventQuery(ctx Context, e Event) (bool, error) {
	return done(check(C.m4g_event_query(C.uint64_t(ctx), C.uint64_t(e))))
}

// done makes "not ready" of an error what it is: an answer.
func done(err error) (bool, error) {
	if e, ok := err.(*Error); ok && e.Result == notReady {
		return false, nil
	}
	return err == nil, err
}

// Query is a query of an event.
type Query struct{ c C.m4g_query }

// NewQuery asks for an event.
func NewQuery(ctx Context, e Event) Query {
	return Query{C.m4g_query{context: C.uint64_t(ctx), event: C.uint64_t(e)}}
}

// Done is the answer of QueryAll.
func (q *Query) Done() (bool, error) { return done(failed(q.c.call, q.c.result)) }

// QueryAll makes all queries in one call into C.
func QueryAll(queries []Query) {
	if len(queries) > 0 {
		C.m4g_event_query_all((*C.m4g_query)(unsafe.Pointer(unsafe.SliceData(queries))), C.int(len(queries)))
	}
}

// MemcpyAsync copies between any two places that the driver knows, page-locked
// host memory among them. For other host memory it may block.
func MemcpyAsync(ctx Context, dst, src uintptr, bytes int, s Stream) error {
	return check(C.m4g_memcpy(C.uint64_t(ctx), C.uint64_t(dst), C.uint64_t(src), C.uint64_t(bytes), C.uint64_t(s)))
}

// MemsetD8Async sets bytes.
func MemsetD8Async(ctx Context, dst uintptr, value uint8, bytes int, s Stream) error {
	return check(C.m4g_memset8(C.uint64_t(ctx), C.uint64_t(dst), C.uint32_t(value), C.uint64_t(bytes), C.uint64_t(s)))
}

// MemsetD32Async sets words of 4 bytes.
func MemsetD32Async(ctx Context, dst uintptr, value uint32, words int, s Stream) error {
	return check(C.m4g_memset32(C.uint64_t(ctx), C.uint64_t(dst), C.uint32_t(value), C.uint64_t(words), C.uint64_t(s)))
}
