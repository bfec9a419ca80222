// What the Go side and the per-family C code share: operations, the engine
// that polls them, and the table of functions that each MPI family provides.
//
// Nothing here depends on an MPI: handles travel as uint64_t, ranks and tags in
// the numbering of the Go side (ANY_SOURCE -1, PROC_NULL -2, ANY_TAG -1).
#ifndef MPI4GO_ENGINE_H
#define MPI4GO_ENGINE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { M4G_ANY_SOURCE = -1, M4G_PROC_NULL = -2, M4G_ANY_TAG = -1 };

// Messages up to this many bytes are copied through op->scratch: no pinning,
// and a receive into it is guarded against a longer message.
enum { M4G_SCRATCH = 256 };

enum m4g_kind {
  M4G_SEND = 1,
  M4G_SSEND,
  M4G_RECV,
  M4G_IMRECV,  // receive a matched message (op->handle)
  M4G_MPROBE,  // wait for a message and match it; op->handle becomes the message
  M4G_PROBE,   // wait for a message, leave it
  M4G_IMPROBE, // match a message if one is there; complete at once
  M4G_IPROBE,  // look for a message; complete at once
  M4G_UNMATCH, // give a matched message (op->handle) back to later receives
  M4G_CANCEL,  // cancel the operation at op->addr if its serial is op->handle
  M4G_DUP,     // MPI_Comm_idup; op->handle becomes the communicator
  M4G_BARRIER, // MPI_Ibarrier
  // The arguments of these lie in op->scratch: m4g_coll.
  M4G_BCAST,
  M4G_REDUCE,
  M4G_ALLREDUCE,
  M4G_SCAN,
  M4G_EXSCAN,
  M4G_GATHER,
  M4G_GATHERV,
  M4G_ALLGATHER,
  M4G_ALLGATHERV,
  M4G_SCATTER,
  M4G_SCATTERV,
  M4G_ALLTOALL,
  M4G_ALLTOALLV,
};

enum m4g_flag {
  M4G_IN_SCRATCH = 1, // the bytes are in op->scratch, not at op->addr
  M4G_DETACHED = 2,   // nobody waits for it; only a failure is of interest
  M4G_CANCELLING = 4, // MPI_Cancel was called
  M4G_RESERVED = 8,   // a matched MPROBE that keeps its place in the call order until it is received or given back
  M4G_IS_LARGE = 16,  // counted in engine.large
  M4G_FITS = 32,      // no message for this receive is longer than its buffer
  M4G_IN_PARTS = 64,  // the bytes lie where op->scratch says: m4g_parts
  M4G_ON_DEVICE = 128, // the buffer is memory of a device
};

enum m4g_state {
  M4G_IDLE = 0,
  M4G_WAITING, // in engine.waiting, for a message to match
  M4G_TAKEN,   // done, but still in engine.waiting: see M4G_RESERVED
  M4G_POSTED,  // MPI has it
  M4G_DONE,
};

// Error classes in the numbering of the Go side; 0 is success.
#define M4G_ERROR_CLASSES(X)                                                                                           \
  X(BUFFER) X(COUNT) X(TYPE) X(TAG) X(COMM) X(RANK) X(REQUEST) X(ROOT) X(GROUP) X(OP) X(ARG) X(UNKNOWN) X(TRUNCATE)    \
  X(OTHER) X(INTERN) X(IN_STATUS) X(PENDING) X(NO_MEM) X(KEYVAL)
#define M4G_CLASS(name) M4G_ERR_##name,
enum m4g_error_class { M4G_SUCCESS, M4G_ERROR_CLASSES(M4G_CLASS) };
#undef M4G_CLASS

// Datatypes and reduction operations in the numbering of the Go side.
#define M4G_TYPES(X)                                                                                                   \
  X(BYTE) X(INT8_T) X(INT16_T) X(INT32_T) X(INT64_T) X(UINT8_T) X(UINT16_T) X(UINT32_T) X(UINT64_T) X(FLOAT)           \
  X(DOUBLE) X(C_FLOAT_COMPLEX) X(C_DOUBLE_COMPLEX) X(2INT) X(LONG_INT) X(FLOAT_INT) X(DOUBLE_INT)
#define M4G_OPS(X)                                                                                                     \
  X(MAX) X(MIN) X(SUM) X(PROD) X(LAND) X(BAND) X(LOR) X(BOR) X(LXOR) X(BXOR) X(MINLOC) X(MAXLOC)
#define M4G_TYPE(name) M4G_TYPE_##name,
enum m4g_type { M4G_TYPES(M4G_TYPE) };
#undef M4G_TYPE
#define M4G_OP(name) M4G_OP_##name,
enum m4g_redop { M4G_OPS(M4G_OP) };
#undef M4G_OP

// What a collective operation has besides op->addr, the buffer that is sent,
// and op->len, its length or that of the other one, whichever is more.
typedef struct m4g_coll {
  uint64_t recv;  // the buffer that is received into
  int64_t count;  // elements for each rank, where all have as many
  int64_t size;   // bytes of an element
  uint64_t sendcounts, sdispls, recvcounts, rdispls; // addresses of arrays, of int, or with wide of int64_t
  int32_t type, op, root;
  uint8_t in_place, wide;
  uint8_t reserved[2];
} m4g_coll;

// The memory of a send or a receive that is not contiguous.
typedef struct m4g_parts {
  uint64_t addresses, lengths; // of arrays of MPI_Aint and of int, an element for each part
  int32_t n;
} m4g_parts;

// What a process shows to the others of its host: its place in their doorbells.
typedef struct m4g_seat {
  _Alignas(64) _Atomic uint32_t asleep; // enum m4g_asleep; whoever sets it to 0 rings
  _Atomic uint32_t bell;                // futex: ends the driver's nap
} m4g_seat;

enum m4g_asleep {
  M4G_DOZES = 1, // briefly
  M4G_LISTENS,   // it waits for messages only
  M4G_SENDS,     // a receive posted by somebody else may be what it waits for, too
};

// Memory that the processes of a host share, with a seat for each rank of the job.
typedef struct m4g_bells {
  m4g_seat nobody;          // for ranks that cannot be rung
  _Atomic uint32_t present; // the processes that ring, and that answer
  m4g_seat seats[];
} m4g_bells;

// The seats of a communicator's ranks.
typedef struct m4g_peers {
  m4g_seat **by_rank; // NULL if they are not known: ring all that are here
  int64_t here;       // seats of other ranks on this host, which follow
  m4g_seat *seats[];
} m4g_peers;

// One operation, in C memory so that MPI and the leader's poll may keep
// pointers to it. cmpi.Op is its mirror in Go; a test compares the layouts.
typedef struct m4g_op {
  uint64_t next;   // address of the next operation of a chain or of the done list, or 0
  uint64_t link;   // address of the next operation in engine.waiting, or 0
  uint64_t comm;   // MPI_Comm
  uint64_t addr;   // the buffer
  int64_t len;     // its length in bytes
  uint64_t handle; // MPI_Message or new MPI_Comm, in or out
  uint64_t head;   // address of the first operation of its set, or 0
  uint64_t peers;  // address of the m4g_peers of the communicator, or 0
  int64_t count;   // out: bytes of the message
  uint32_t index;  // names the owner on the Go side
  uint32_t waiter; // whose completion ends a leader's poll
  int32_t peer, tag;
  int32_t source, recvtag; // out
  int32_t rc;              // out: MPI error code, or 0
  uint32_t serial;         // counts the uses of this slot
  uint8_t kind, flags, state;
  uint8_t found;     // out, IMPROBE and IPROBE: there was a message
  uint8_t cancelled; // out: MPI_Test_cancelled
  uint8_t truncated; // out: the message was longer than len
  uint8_t reserved[6];
  uint32_t remaining; // in the head of a set: operations of the set that are not done
  uint8_t scratch[M4G_SCRATCH + 8]; // the last 8 bytes guard the first 256
} m4g_op;

// Who may call MPI now.
enum m4g_lead { M4G_FREE_LEAD = 0, M4G_WAITER, M4G_DRIVER, M4G_CLOSED };

// A list of operations, first in, first out.
typedef struct m4g_list {
  m4g_op *first, *last;
} m4g_list;

// A message that was matched and given back.
typedef struct m4g_held {
  struct m4g_held *next;
  uint64_t comm, message;
  int64_t count;
  int32_t source, tag;
} m4g_held;

enum m4g_nap_kind { M4G_AWAKE, M4G_SHORT_NAP, M4G_LONG_NAP };

typedef struct m4g_family m4g_family;

typedef struct m4g_engine {
  // Written by every goroutine that posts.
  _Alignas(64) _Atomic uint64_t stack; // submitted operations, last in first
  _Alignas(64) _Atomic uint32_t lead;  // enum m4g_lead
  _Atomic uint32_t preempt;            // a poster asks the driver to step back
  _Atomic uint32_t napping;            // the driver sleeps on seat->bell: enum m4g_nap_kind
  _Atomic uint32_t stop;               // the driver is to return
  m4g_seat *seat;                      // that others ring, or own
  m4g_seat own;

  // Written under the lead.
  _Alignas(64) const m4g_family *family;
  _Atomic uint64_t epoch; // polls so far by somebody who waits
  _Atomic int64_t outstanding; // operations started and not complete
  _Atomic uint32_t left;       // whether the last waiter with the lead left any outstanding
  m4g_list done;
  m4g_list waiting; // receives that wait by MPI_Improbe, in call order
  int64_t nwaiting, ntaken;
  int64_t rotate; // where the next pass over a long waiting list begins
  m4g_held *held; // messages given back, oldest first
  void *requests;   // MPI_Request[cap]; the window [head, tail) is in use
  m4g_op **posted;  // their operations; NULL where one is complete
  int64_t head, tail, cap, live, chunk;
  uint32_t target; // the waiter whose completions end this poll
  uint32_t got;    // how many of them this poll has seen
  uint32_t others; // completions somebody else waits for
  uint32_t quirks; // enum m4g_quirk
  uint32_t yield;  // polls between two sched_yield, 0 never
  int64_t large;   // transfers above 32 KiB outstanding
  uint64_t started, completed;
  uint64_t calls;    // of poll
  uint64_t passes;   // of all calls
  int64_t coarse_ms; // the time, now and then

  // Written by the driver.
  const m4g_bells *bells;   // or NULL
  uint32_t everybody;       // ranks of the job, or 0 where some messages come without a bell
  uint32_t in_vain;         // bells in a row after which nothing completed
  uint64_t completed_then;  // when the last bell rang
} m4g_engine;

// What the driver does while nobody else polls: spin, then nap, longer and longer.
typedef struct m4g_patience {
  int64_t spin_ns;                  // after the last event
  int64_t hot_ns, warm_ns, cold_ns; // naps
  int64_t hot_for_ns, warm_for_ns;  // how long after the last event to take hot, then warm ones
  int64_t deep_ns;                  // naps instead of warm and cold ones where every message rings
} m4g_patience;

// m4g_drive polls for the goroutines that wait, for as long as nobody else
// does. It returns M4G_LEADING_DRIVER holding the lead, with operations done or
// nothing outstanding, or M4G_IDLE_DRIVER without it, when somebody else polls
// or e->stop is set.
enum { M4G_IDLE_DRIVER, M4G_LEADING_DRIVER };
int m4g_drive(m4g_engine *e, const m4g_patience *p, uint64_t *done);

enum m4g_quirk {
  // A receive shorter than its message writes past the end of the buffer
  // (Open MPI 4 and 5, pml ob1, above the eager limit), or succeeds (Intel MPI).
  M4G_QUIRK_SHORT_RECV_OVERFLOWS = 1,
  // MPI_ERRORS_RETURN is taken for MPI_ERRORS_ARE_FATAL (libmpi_abi of Intel MPI).
  M4G_QUIRK_ERRORS_RETURN_ABORTS = 2,
  // The launcher learns of MPI_Finalize only by a handler of atexit (MPICH 4.2).
  M4G_QUIRK_FINALIZED_AT_EXIT = 4,
};

// What an m4g_poll returns besides the operations that are done.
enum m4g_poll_flag {
  M4G_POLL_DRIVER = 1, // leave when e->preempt is set
};

typedef struct m4g_start { // what Init learns
  uint32_t quirks; // in: enum m4g_quirk
  int32_t rc, provided;
  int32_t rank, size, local_rank, local_size;
  int64_t tag_ub;
  uint64_t world, private_comm;
  const char *failed; // the call that failed, when rc is not 0
} m4g_start;

typedef struct m4g_constant {
  const char *name;
  int64_t value;
} m4g_constant;

// The C reference loops that ours are measured against, on MPI_COMM_WORLD (bench.h).
enum m4g_bench_mode {
  M4G_BENCH_LATENCY,
  M4G_BENCH_BANDWIDTH,
  M4G_BENCH_BIBANDWIDTH,
  M4G_BENCH_BARRIER,
  M4G_BENCH_BCAST,
  M4G_BENCH_ALLREDUCE,
  M4G_BENCH_ALLTOALL,
  M4G_BENCH_IBCAST, // and the non-blocking ones
  M4G_BENCH_IALLREDUCE,
  M4G_BENCH_IALLTOALL,
  // One message of `frames` buffers of `size` bytes, in ping-pong.
  M4G_BENCH_FRAMES_PACKED,   // copied into one buffer, sent, copied out
  M4G_BENCH_FRAMES_REQUESTS, // a header of 8 bytes, then a request for each frame
  M4G_BENCH_FRAMES_DATATYPE, // one hindexed datatype
  M4G_BENCH_FRAMES_ONE,      // one contiguous buffer of as many bytes
};
typedef struct m4g_bench {
  int32_t mode, peer, sender, window, iterations, frames;
  int64_t size, stride; // stride: from one frame to the next
  void *sendbuf, *recvbuf;
} m4g_bench;

// A communicator, as far as the Go side needs to know it.
typedef struct m4g_comm {
  int32_t rc, rank, size;
  uint64_t handle; // 0 for MPI_COMM_NULL
  const char *failed; // the call that failed, when rc is not 0
} m4g_comm;

enum m4g_split { M4G_SPLIT_COLOR, M4G_SPLIT_SHARED };

// One family of MPI libraries that share a binary interface.
struct m4g_family {
  const char *name;
  const m4g_constant *constants; // ends with a NULL name
  // load resolves every entry; it returns the name of a missing symbol or NULL.
  const char *(*load)(void *library);
  int (*init_thread)(int required);
  int (*query_thread)(int *provided);
  // init makes what the library needs of an initialised MPI; ours tells that we
  // initialised it.
  void (*init)(m4g_start *s, int ours);
  // detach frees that again, in an MPI that is somebody else's.
  int (*detach)(uint64_t private_comm);
  int (*agree)(uint64_t comm, const char *mine, char *all, int width);
  uint64_t (*poll)(m4g_engine *e, m4g_op *chain, uint32_t target, uint32_t want, uint32_t spins, uint32_t flags);
  // split calls MPI_Comm_split, or MPI_Comm_split_type; a negative color is MPI_UNDEFINED.
  void (*split)(m4g_comm *c, uint64_t comm, int how, int color, int key);
  void (*from_fortran)(m4g_comm *c, int handle);
  int (*to_fortran)(uint64_t comm);
  int (*comm_free)(uint64_t comm);
  int (*set_name)(uint64_t comm, const char *name);
  int (*get_name)(uint64_t comm, char *name, int size);
  // wide tells whether collectives with counts above INT_MAX for each rank work.
  int (*wide)(void);
  int (*finalize)(void);
  int (*abort)(uint64_t comm, int code);
  int (*error_class)(int code); // the number of the Go side: see error classes below
  void (*error_string)(int code, char *text, int size);
  void (*version)(char *text, int size, int *major, int *minor);
  int (*initialized)(void);
  int (*finalized)(void);
  // bench runs one of the C reference loops of bench.h; it returns an MPI code.
  int (*bench)(const m4g_bench *b, double *seconds);
};

extern const m4g_family m4g_openmpi, m4g_mpiabi, m4g_mpich;

// What MPI needs where it uses a device: a context that is current on the thread
// that calls it. Swap makes one current and returns the other that was before, or 0.
// Without a device swap is NULL.
typedef struct m4g_device {
  uint64_t (*swap)(uint64_t context);
  uint64_t context;
} m4g_device;
extern m4g_device m4g_use_device;

// m4g_enter comes before every call of MPI that may make progress, and m4g_leave,
// with what it returned, after it.
static inline uint64_t m4g_enter(void) {
  return __builtin_expect(m4g_use_device.swap != NULL, 0) ? m4g_use_device.swap(m4g_use_device.context) : 0;
}
static inline void m4g_leave(uint64_t before) {
  if (__builtin_expect(before != 0, 0)) m4g_use_device.swap(before);
}
// M4G_CALL is the body of a function that makes such a call and returns its value.
#define M4G_CALL(type, call)                                                                                           \
  uint64_t before = m4g_enter();                                                                                       \
  type value = call;                                                                                                   \
  m4g_leave(before);                                                                                                   \
  return value

// m4g_open loads a library with dlopen; global makes its symbols visible to the
// plugins that it loads (Open MPI). It returns NULL and the reason in text.
void *m4g_open(const char *path, int global, char *text, int size);
// m4g_loaded finds a library that is in the process already.
void *m4g_loaded(const char *soname);
int m4g_has(void *library, const char *symbol);
// m4g_query_cuda calls MPIX_Query_cuda_support (Open MPI, MVAPICH2), m4g_query_gpu
// MPIX_GPU_query_support for CUDA (MPICH): 0 or 1, -1 where there is none.
// m4g_flag reads a variable of type bool likewise.
int m4g_query_cuda(void *library);
int m4g_query_gpu(void *library);
int m4g_flag(void *library, const char *symbol);
// m4g_abi_version is the major version of the standard ABI (MPI-5.0 20.2) that a
// library has, -1 if it has another binary interface.
int m4g_abi_version(void *library);

m4g_engine *m4g_engine_new(const m4g_family *family);
m4g_op *m4g_op_slab(int n);

uint64_t m4g_poll(m4g_engine *e, m4g_op *chain, uint32_t target, uint32_t want, uint32_t spins, uint32_t flags);
// m4g_listen lets others ring the bell, until m4g_nap returns. It returns the
// state of the bell for that.
uint32_t m4g_listen(m4g_engine *e, int briefly);
// m4g_nap sleeps for at most ns nanoseconds, or until m4g_ring, or a bell unless
// it is deaf to those. It returns whether it was a bell.
enum { M4G_FUNNEL = 1, M4G_DEAF = 2 };
int m4g_nap(m4g_engine *e, int64_t ns, uint32_t bell, int flags);
void m4g_ring(m4g_engine *e);
// m4g_knock rings a bell, whether anybody sleeps or not.
void m4g_knock(m4g_seat *seat);
// m4g_wake rings unless another process has just done so.
void m4g_wake(m4g_seat *seat);
// m4g_rouse rings if the process of a seat sleeps, and m4g_rouse_all for each that
// is on this host.
static inline void m4g_rouse(m4g_seat *seat, uint32_t least) {
  if (__builtin_expect(atomic_load_explicit(&seat->asleep, memory_order_relaxed) >= least, 0)) m4g_wake(seat);
}
void m4g_rouse_all(const m4g_peers *p, uint32_t least);
// m4g_restack makes the handler of a signal run on the alternate stack, which Go requires.
void m4g_restack(int signal);

// m4gFinalizing is called, from within MPI_Finalize, when the owner of an MPI
// that is not ours finalises it. It is in Go (foreign.go).
void m4gFinalizing(void);

#endif
