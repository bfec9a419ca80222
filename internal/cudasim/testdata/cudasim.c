// A simulated CUDA driver: a libcuda.so.1 for tests on machines without a GPU.
// It is stricter than a real one: what only goes wrong now and then there goes
// wrong always here.
//
//   - Device memory is an address range that the host cannot touch (PROT_NONE): a
//     dereference faults. Its bytes lie in a memfd that is mapped a second time,
//     for the simulator alone.
//   - Contexts are current per OS thread; a call that needs one returns
//     CUDA_ERROR_INVALID_CONTEXT (201) on a thread without. So does a handle of
//     another context, as CUDA_ERROR_INVALID_HANDLE (400).
//   - A stream is a thread that works off a queue. The legacy default stream waits
//     for the blocking streams and they for it; non-blocking streams do not.
//   - A copy between pageable host memory and a device blocks its caller.
//   - An illegal address in a kernel stays: every later call returns the error.
//   - IPC handles hold the process id and a descriptor, opened through /proc.
//   - Kernels are recognised by name in the PTX text, and run as the C functions
//     at the end of this file.
//
// The environment configures it. It is read by each cuInit, so a program may
// change it and call cuInit again; the calls are counted anew then.
//
//	CUDASIM_DEVICES=2     number of devices
//	CUDASIM_MEMORY=N      bytes of memory for each device (1 GiB)
//	CUDASIM_DELAY=A[:B]   delay of copies, fills and kernels: A us, and B us for each MiB
//	CUDASIM_FAIL=ENTRY:N[:RESULT],...
//	                      the N-th call of an entry fails (999). A call that frees or
//	                      destroys does so all the same.
//	CUDASIM_TRACE=FILE    append a line for each call: entry, result, process, thread,
//	                      and the file name of the library or program that made the call
//	CUDASIM_STATS=FILE    a file that always holds the counters: living objects (which
//	                      are leaks once the process has ended) and events. It is
//	                      mapped, so it is right however the process ends. %p in its
//	                      name is the process id, for programs of several processes.
//	CUDASIM_LEAKS=1       report living objects on stderr when the process calls exit
//	                      (a Go program does not)
#define _GNU_SOURCE
#include <cuda.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#undef cuDeviceGetUuid // one name for both in newer headers

enum { MAX_DEVICES = 16, MAX_ARGS = 8, NEED_NOTHING = 0, NEED_INIT = 1, NEED_CONTEXT = 2, RELEASES = 4 };

// ---- state; everything is under one lock ----

typedef struct {
  CUstream stream;
  uint64_t seq;
} dep;

// An event that several processes share.
typedef struct {
  _Atomic uint64_t recorded, done;
} shared_event;

typedef struct kernel {
  const char *name;
  int nargs;
  int (*run)(const uint64_t *args);
} kernel;

enum op_kind { COPY, SET, MARK, HOST_FUNCTION, KERNEL, NOTHING };

typedef struct op {
  struct op *next;
  uint64_t seq;
  enum op_kind kind;
  CUcontext ctx;
  char *dst, *src, *staging;
  size_t n, rows, dst_pitch, src_pitch;
  unsigned value, width;
  CUhostFn function;
  void *data;
  const kernel *kernel;
  uint64_t args[MAX_ARGS];
  shared_event *shared;
  uint64_t generation;
  dep *deps;
  int ndeps;
} op;

struct CUstream_st {
  CUstream next;
  CUcontext ctx;
  int live, flags, legacy;
  uint64_t queued, done; // they go on when the stream is used again
  op *first, **last;
  pthread_cond_t arrival;
};

struct CUevent_st {
  CUevent next;
  CUcontext ctx;
  int live, flags;
  dep recorded;
  shared_event *shared;
  int fd;
};

struct CUctx_st {
  CUcontext next;
  int device, retains, sticky;
  unsigned peers;
  CUstream legacy;
};

struct CUfunc_st {
  CUfunction next;
  const kernel *kernel;
};
struct CUmod_st {
  CUmodule next;
  CUcontext ctx;
  char *text;
  CUfunction functions;
};

enum memory { DEVICE, MANAGED, PINNED, REGISTERED, IMPORTED, POOL };

typedef struct block {
  struct block *next; // by address
  uintptr_t address;
  size_t size;
  enum memory kind;
  CUcontext ctx;
  int device;
  char *bytes; // where the simulator sees them
  int sync_memops;
  unsigned long long id;
} block;

typedef struct {
  pid_t pid;
  int fd;
  uint64_t offset, size;
  int device;
} ipc_memory;

static pthread_mutex_t big = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER; // something completed
static int initialised, devices = 2;
static size_t memory = 1ul << 30, used[MAX_DEVICES];
static double delay_us, delay_us_mib;
static CUcontext primary[MAX_DEVICES], contexts;
static CUstream streams;
static CUevent events;
static CUmodule modules;
static block *blocks;
static unsigned long long ids;
static __thread CUcontext current;
static __thread int injected;

// Addresses of device memory; byte x of the region is byte x of the memfd.
enum { GRAIN = 4096 };
static const size_t region_size = 1ul << 38;
static uintptr_t region;
static char *shadow;
static int region_fd = -1;

// ---- counters ----

#define COUNTERS(X)                                                                                                    \
  X(device) X(managed) X(pinned) X(registered) X(imported) X(pool) X(streams) X(events) X(modules) X(retains) X(bytes)   \
  X(blocked) X(pageable) X(violations) X(injected) X(calls)
enum counter {
#define X(name) C_##name,
  COUNTERS(X)
#undef X
  NCOUNTERS,
  FIRST_EVENT = C_blocked // those before it count living objects
};
static const char *counter_names[] = {
#define X(name) #name,
    COUNTERS(X)
#undef X
};
static long long counters[NCOUNTERS];
enum { ROW = 48 };
static char *stats;

static void show(enum counter c) {
  if (stats == NULL) return;
  char row[ROW + 1];
  snprintf(row, sizeof row, "%-16s%31lld\n", counter_names[c], counters[c]);
  memcpy(stats + c * ROW, row, ROW);
}
static void count(enum counter c, long long n) {
  counters[c] += n;
  show(c);
}

static void violation(const char *format, ...) {
  va_list list;
  va_start(list, format);
  fprintf(stderr, "cudasim: ");
  vfprintf(stderr, format, list);
  fputc('\n', stderr);
  va_end(list);
  count(C_violations, 1);
}

static void open_stats(const char *name) {
  char path[4096];
  const char *p = strstr(name, "%p");
  if (p == NULL) snprintf(path, sizeof path, "%s", name);
  else snprintf(path, sizeof path, "%.*s%d%s", (int)(p - name), name, (int)getpid(), p + 2);
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0 || ftruncate(fd, NCOUNTERS * ROW) != 0) return;
  char *map = mmap(NULL, NCOUNTERS * ROW, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (map == MAP_FAILED) return;
  if (stats != NULL) munmap(stats, NCOUNTERS * ROW);
  stats = map;
  for (int i = 0; i < NCOUNTERS; i++) show(i);
}

__attribute__((destructor)) static void report_leaks(void) {
  if (getenv("CUDASIM_LEAKS") == NULL) return;
  for (int i = 0; i < FIRST_EVENT; i++)
    if (counters[i] != 0) fprintf(stderr, "cudasim: leak: %s %lld\n", counter_names[i], counters[i]);
}

// ---- settings, and what every entry does first and last ----

typedef struct {
  const char *name;
  uint64_t calls, epoch;
} entry;
static uint64_t epoch = 1; // of the settings
static char *failures;
static int trace = -1;

static void read_settings(void) {
  const char *text;
  epoch++;
  devices = (text = getenv("CUDASIM_DEVICES")) != NULL && *text ? atoi(text) : 2;
  if (devices > MAX_DEVICES) devices = MAX_DEVICES;
  memory = (text = getenv("CUDASIM_MEMORY")) != NULL && *text ? strtoull(text, NULL, 0) : 1ul << 30;
  delay_us = delay_us_mib = 0;
  if ((text = getenv("CUDASIM_DELAY")) != NULL) sscanf(text, "%lf:%lf", &delay_us, &delay_us_mib);
  free(failures);
  text = getenv("CUDASIM_FAIL");
  failures = text != NULL ? strdup(text) : NULL;
  if (trace >= 0) close(trace);
  trace = -1;
  if ((text = getenv("CUDASIM_TRACE")) != NULL && *text)
    trace = open(text, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if ((text = getenv("CUDASIM_STATS")) != NULL && *text) open_stats(text);
}

// failure is the result that the settings demand of this call, or 0.
static int failure(entry *e) {
  if (e->epoch != epoch) {
    e->epoch = epoch;
    e->calls = 0;
  }
  e->calls++;
  count(C_calls, 1);
  size_t length = strlen(e->name);
  for (const char *f = failures; f != NULL && *f; f = strchr(f, ',') ? strchr(f, ',') + 1 : NULL) {
    unsigned long n = 0;
    int result = CUDA_ERROR_UNKNOWN;
    if (strncmp(f, e->name, length) == 0 && f[length] == ':' && sscanf(f + length, ":%lu:%d", &n, &result) >= 1 &&
        n == e->calls) {
      count(C_injected, 1);
      return result;
    }
  }
  return 0;
}

static CUresult enter(entry *e, int need) {
  pthread_mutex_lock(&big);
  injected = 0;
  if (strcmp(e->name, "cuInit") == 0) read_settings();
  int fail = failure(e);
  if (fail && !(need & RELEASES)) return fail;
  injected = fail;
  if (need & (NEED_INIT | NEED_CONTEXT) && !initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (need & NEED_CONTEXT) {
    if (current == NULL || current->retains == 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (current->sticky && !(need & RELEASES)) return current->sticky;
  }
  return CUDA_SUCCESS;
}

// caller is the file name of the library or program that an address of code is in.
static const char *caller(void *address) {
  Dl_info info;
  if (!dladdr(address, &info) || info.dli_fname == NULL) return "?";
  const char *slash = strrchr(info.dli_fname, '/');
  return slash != NULL ? slash + 1 : info.dli_fname;
}

static CUresult leave(entry *e, CUresult result, void *from) {
  if (injected && result == CUDA_SUCCESS) result = injected;
  if (trace >= 0) dprintf(trace, "%s %d %d %d %s\n", e->name, (int)result, (int)getpid(), (int)gettid(), caller(from));
  pthread_mutex_unlock(&big);
  return result;
}

// ENTRY(name, what it needs, parameters, arguments) { body, under the lock }
#define ENTRY(name, need, parameters, ...)                                                                             \
  static CUresult do_##name parameters;                                                                                \
  CUresult name parameters {                                                                                           \
    static entry e = {#name, 0, 0};                                                                                     \
    CUresult result = enter(&e, need);                                                                                 \
    if (result == CUDA_SUCCESS) result = do_##name(__VA_ARGS__);                                                       \
    return leave(&e, result, __builtin_return_address(0));                                                             \
  }                                                                                                                    \
  static CUresult do_##name parameters

// ---- device ----

static int valid(CUdevice d) { return d >= 0 && d < devices; }

ENTRY(cuInit, NEED_NOTHING, (unsigned int flags), flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (devices <= 0) return CUDA_ERROR_NO_DEVICE;
  if (region == 0) {
    region_fd = memfd_create("cudasim", MFD_CLOEXEC);
    if (region_fd < 0 || ftruncate(region_fd, region_size) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
    void *view = mmap(NULL, region_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void *bytes = mmap(NULL, region_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, region_fd, 0);
    if (view == MAP_FAILED || bytes == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    madvise(bytes, region_size, MADV_DONTDUMP);
    madvise(bytes, region_size, MADV_DONTFORK);
    region = (uintptr_t)view;
    shadow = bytes;
  }
  initialised = 1;
  return CUDA_SUCCESS;
}

ENTRY(cuDriverGetVersion, NEED_NOTHING, (int *version), version) {
  *version = 12040;
  return CUDA_SUCCESS;
}

static const struct {
  int result;
  const char *name, *text;
} errors[] = {
#define E(name, text) {name, #name, text}
    E(CUDA_SUCCESS, "no error"),
    E(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    E(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    E(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    E(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    E(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    E(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    E(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
    E(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    E(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    E(CUDA_ERROR_NOT_READY, "device not ready"),
    E(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    E(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled"),
    E(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "part or all of the requested memory range is already mapped"),
    E(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "pointer does not correspond to a registered memory region"),
    E(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    E(CUDA_ERROR_UNKNOWN, "unknown error"),
};

static CUresult describe(CUresult error, const char **text, int name) {
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
    if (errors[i].result == (int)error) {
      *text = name ? errors[i].name : errors[i].text;
      return CUDA_SUCCESS;
    }
  *text = NULL;
  return CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGetErrorName(CUresult error, const char **text) { return describe(error, text, 1); }
CUresult cuGetErrorString(CUresult error, const char **text) { return describe(error, text, 0); }

ENTRY(cuDeviceGetCount, NEED_INIT, (int *n), n) {
  *n = devices;
  return CUDA_SUCCESS;
}
ENTRY(cuDeviceGet, NEED_INIT, (CUdevice * device, int ordinal), device, ordinal) {
  if (!valid(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}
ENTRY(cuDeviceGetName, NEED_INIT, (char *name, int len, CUdevice d), name, len, d) {
  if (!valid(d)) return CUDA_ERROR_INVALID_DEVICE;
  snprintf(name, len, "Simulated device %d", d);
  return CUDA_SUCCESS;
}
static CUresult uuid_of(CUuuid *uuid, CUdevice d) {
  if (!valid(d)) return CUDA_ERROR_INVALID_DEVICE;
  for (int i = 0; i < 16; i++) uuid->bytes[i] = (char)(0x10 * i + d);
  return CUDA_SUCCESS;
}
ENTRY(cuDeviceGetUuid, NEED_INIT, (CUuuid * uuid, CUdevice d), uuid, d) { return uuid_of(uuid, d); }
ENTRY(cuDeviceGetUuid_v2, NEED_INIT, (CUuuid * uuid, CUdevice d), uuid, d) { return uuid_of(uuid, d); }
ENTRY(cuDeviceGetPCIBusId, NEED_INIT, (char *id, int len, CUdevice d), id, len, d) {
  if (!valid(d)) return CUDA_ERROR_INVALID_DEVICE;
  snprintf(id, len, "0000:%02X:00.0", d + 1);
  return CUDA_SUCCESS;
}
ENTRY(cuDeviceGetAttribute, NEED_INIT, (int *value, CUdevice_attribute attribute, CUdevice d), value, attribute, d) {
  if (!valid(d)) return CUDA_ERROR_INVALID_DEVICE;
  switch ((int)attribute) {
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = 8; break;
  case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 16; break;
  case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
  case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
  case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS: *value = 1; break;
  default: *value = 0;
  }
  return CUDA_SUCCESS;
}
ENTRY(cuDeviceTotalMem_v2, NEED_INIT, (size_t * bytes, CUdevice d), bytes, d) {
  if (!valid(d)) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = memory;
  return CUDA_SUCCESS;
}
ENTRY(cuDeviceCanAccessPeer, NEED_INIT, (int *can, CUdevice d, CUdevice peer), can, d, peer) {
  if (!valid(d) || !valid(peer)) return CUDA_ERROR_INVALID_DEVICE;
  *can = d != peer;
  return CUDA_SUCCESS;
}

// ---- context ----

static CUcontext find_context(CUcontext ctx) {
  for (CUcontext c = contexts; c != NULL; c = c->next)
    if (c == ctx && c->retains > 0) return c;
  return NULL;
}

ENTRY(cuDevicePrimaryCtxRetain, NEED_INIT, (CUcontext * ctx, CUdevice d), ctx, d) {
  if (!valid(d)) return CUDA_ERROR_INVALID_DEVICE;
  if (primary[d] == NULL || primary[d]->retains == 0) { // another handle each time
    CUcontext c = calloc(1, sizeof *c);
    c->device = d;
    c->next = contexts;
    contexts = primary[d] = c;
  }
  primary[d]->retains++;
  count(C_retains, 1);
  *ctx = primary[d];
  return CUDA_SUCCESS;
}
ENTRY(cuDevicePrimaryCtxRelease_v2, NEED_INIT | RELEASES, (CUdevice d), d) {
  if (!valid(d)) return CUDA_ERROR_INVALID_DEVICE;
  if (primary[d] == NULL || primary[d]->retains == 0) return CUDA_ERROR_INVALID_CONTEXT;
  primary[d]->retains--;
  count(C_retains, -1);
  return CUDA_SUCCESS;
}
ENTRY(cuCtxSetCurrent, NEED_INIT, (CUcontext ctx), ctx) {
  if (ctx != NULL && find_context(ctx) == NULL) return CUDA_ERROR_INVALID_CONTEXT;
  current = ctx;
  return CUDA_SUCCESS;
}
ENTRY(cuCtxGetCurrent, NEED_INIT, (CUcontext * ctx), ctx) {
  *ctx = current;
  return CUDA_SUCCESS;
}
ENTRY(cuCtxGetDevice, NEED_CONTEXT, (CUdevice * d), d) {
  *d = current->device;
  return CUDA_SUCCESS;
}
ENTRY(cuCtxEnablePeerAccess, NEED_CONTEXT, (CUcontext peer, unsigned int flags), peer, flags) {
  if (flags != 0 || find_context(peer) == NULL) return CUDA_ERROR_INVALID_VALUE;
  if (peer == current) return CUDA_ERROR_INVALID_DEVICE;
  if (current->peers & 1u << peer->device) return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  current->peers |= 1u << peer->device;
  return CUDA_SUCCESS;
}

// ---- streams ----

static void nap(double us) {
  if (us <= 0) return;
  struct timespec t = {(time_t)(us / 1e6), (long)(((long long)(us * 1e3)) % 1000000000)};
  nanosleep(&t, NULL);
}

static void run(op *o) {
  if (o->kind == COPY || o->kind == SET || o->kind == KERNEL)
    nap(delay_us + delay_us_mib * (double)(o->n * (o->rows ? o->rows : 1)) / (1 << 20));
  switch (o->kind) {
  case COPY:
    for (size_t i = 0; i < o->rows; i++) memmove(o->dst + i * o->dst_pitch, o->src + i * o->src_pitch, o->n);
    break;
  case SET:
    if (o->width == 1) memset(o->dst, (int)o->value, o->n);
    else
      for (size_t i = 0; i + 4 <= o->n; i += 4) memcpy(o->dst + i, &o->value, 4);
    break;
  case HOST_FUNCTION: o->function(o->data); break;
  case KERNEL:
    if (o->kernel->run(o->args) != 0) o->ctx->sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
    break;
  case MARK:
    if (atomic_load(&o->shared->done) < o->generation) atomic_store(&o->shared->done, o->generation);
    break;
  case NOTHING: // wait for the event of another process
    while (o->shared != NULL && atomic_load(&o->shared->done) < o->generation) nap(50);
  }
}

static void *work(void *argument) {
  CUstream s = argument;
  pthread_mutex_lock(&big);
  for (;;) {
    while (s->first == NULL) pthread_cond_wait(&s->arrival, &big);
    op *o = s->first;
    for (int i = 0; i < o->ndeps; i++)
      while (o->deps[i].stream->done < o->deps[i].seq) pthread_cond_wait(&changed, &big);
    if (o->ctx->sticky == 0) {
      pthread_mutex_unlock(&big);
      run(o);
      pthread_mutex_lock(&big);
    }
    s->first = o->next;
    if (s->first == NULL) s->last = &s->first;
    s->done = o->seq;
    free(o->staging);
    free(o->deps);
    free(o);
    pthread_cond_broadcast(&changed);
  }
  return NULL;
}

// new_stream takes up a destroyed one where there is one, with its thread.
static CUstream new_stream(int flags) {
  for (CUstream s = streams; s != NULL; s = s->next)
    if (!s->live && !s->legacy) {
      s->live = 1;
      s->flags = flags;
      s->ctx = current;
      return s;
    }
  CUstream s = calloc(1, sizeof *s);
  s->live = 1;
  s->flags = flags;
  s->ctx = current;
  s->last = &s->first;
  pthread_cond_init(&s->arrival, NULL);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  int failed = pthread_create(&thread, NULL, work, s);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed) {
    free(s);
    return NULL;
  }
  pthread_detach(thread);
  s->next = streams;
  streams = s;
  return s;
}

static CUresult find_stream(CUstream handle, CUstream *found) {
  if (handle == CU_STREAM_PER_THREAD) return CUDA_ERROR_NOT_SUPPORTED;
  if (handle == NULL || handle == CU_STREAM_LEGACY) {
    if (current->legacy == NULL) {
      if ((current->legacy = new_stream(CU_STREAM_DEFAULT)) == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
      current->legacy->legacy = 1;
    }
    *found = current->legacy;
    return CUDA_SUCCESS;
  }
  for (CUstream s = streams; s != NULL; s = s->next)
    if (s == handle && s->live) {
      if (s->ctx != current) {
        violation("a stream of another context is used");
        return CUDA_ERROR_INVALID_HANDLE;
      }
      *found = s;
      return CUDA_SUCCESS;
    }
  violation("a stream is used that does not exist");
  return CUDA_ERROR_INVALID_HANDLE;
}

static void depend(op *o, CUstream s, uint64_t seq) {
  if (s == NULL || s->done >= seq) return;
  o->deps = realloc(o->deps, (o->ndeps + 1) * sizeof *o->deps);
  o->deps[o->ndeps++] = (dep){s, seq};
}

static op *new_op(enum op_kind kind) {
  op *o = calloc(1, sizeof *o);
  o->kind = kind;
  return o;
}

static void enqueue(CUstream s, op *o) {
  if (s->legacy) {
    for (CUstream other = streams; other != NULL; other = other->next)
      if (other != s && other->ctx == s->ctx && !(other->flags & CU_STREAM_NON_BLOCKING)) depend(o, other, other->queued);
  } else if (!(s->flags & CU_STREAM_NON_BLOCKING) && s->ctx->legacy != NULL) {
    depend(o, s->ctx->legacy, s->ctx->legacy->queued);
  }
  o->ctx = s->ctx;
  o->seq = ++s->queued;
  *s->last = o;
  s->last = &o->next;
  pthread_cond_signal(&s->arrival);
}

// await blocks the caller, which our library never wants.
static CUresult await(CUstream s, uint64_t seq) {
  if (s == NULL || s->done >= seq) return CUDA_SUCCESS;
  count(C_blocked, 1);
  while (s->done < seq) pthread_cond_wait(&changed, &big);
  return s->ctx->sticky;
}
static CUresult await_all(void) {
  for (CUstream s = streams; s != NULL; s = s->next)
    if (s->ctx == current) await(s, s->queued);
  return current->sticky;
}

ENTRY(cuCtxSynchronize, NEED_CONTEXT, (void)) { return await_all(); }
ENTRY(cuStreamCreate, NEED_CONTEXT, (CUstream * stream, unsigned int flags), stream, flags) {
  if (flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  if ((*stream = new_stream((int)flags)) == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
  count(C_streams, 1);
  return CUDA_SUCCESS;
}
ENTRY(cuStreamDestroy_v2, NEED_CONTEXT | RELEASES, (CUstream stream), stream) {
  CUstream s;
  CUresult result = find_stream(stream, &s);
  if (result != CUDA_SUCCESS) return result;
  if (s->legacy) return CUDA_ERROR_INVALID_HANDLE;
  s->live = 0;
  count(C_streams, -1);
  return CUDA_SUCCESS;
}
ENTRY(cuStreamQuery, NEED_CONTEXT, (CUstream stream), stream) {
  CUstream s;
  CUresult result = find_stream(stream, &s);
  if (result != CUDA_SUCCESS) return result;
  return s->done >= s->queued ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
ENTRY(cuStreamSynchronize, NEED_CONTEXT, (CUstream stream), stream) {
  CUstream s;
  CUresult result = find_stream(stream, &s);
  return result != CUDA_SUCCESS ? result : await(s, s->queued);
}
ENTRY(cuLaunchHostFunc, NEED_CONTEXT, (CUstream stream, CUhostFn function, void *data), stream, function, data) {
  CUstream s;
  CUresult result = find_stream(stream, &s);
  if (result != CUDA_SUCCESS) return result;
  op *o = new_op(HOST_FUNCTION);
  o->function = function;
  o->data = data;
  enqueue(s, o);
  return CUDA_SUCCESS;
}

// ---- events ----

static CUevent new_event(unsigned flags) {
  CUevent e = events;
  while (e != NULL && e->live) e = e->next;
  if (e == NULL) {
    e = calloc(1, sizeof *e);
    e->next = events;
    events = e;
  }
  e->live = 1;
  e->flags = (int)flags;
  e->ctx = current;
  e->recorded = (dep){NULL, 0};
  e->shared = NULL;
  e->fd = -1;
  count(C_events, 1);
  return e;
}

static CUevent find_event(CUevent event) {
  for (CUevent e = events; e != NULL; e = e->next)
    if (e == event && e->live) return e;
  violation("an event is used that does not exist");
  return NULL;
}

static int complete(CUevent e) {
  if (e->shared != NULL) return atomic_load(&e->shared->done) >= atomic_load(&e->shared->recorded);
  return e->recorded.stream == NULL || e->recorded.stream->done >= e->recorded.seq;
}

ENTRY(cuEventCreate, NEED_CONTEXT, (CUevent * event, unsigned int flags), event, flags) {
  int fd = -1;
  shared_event *shared = NULL;
  if (flags & CU_EVENT_INTERPROCESS) {
    if (!(flags & CU_EVENT_DISABLE_TIMING)) return CUDA_ERROR_INVALID_VALUE;
    fd = memfd_create("cudasim-event", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, GRAIN) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
    shared = mmap(NULL, GRAIN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  CUevent e = new_event(flags);
  e->fd = fd;
  e->shared = shared;
  *event = e;
  return CUDA_SUCCESS;
}
ENTRY(cuEventDestroy_v2, NEED_CONTEXT | RELEASES, (CUevent event), event) {
  CUevent e = find_event(event);
  if (e == NULL) return CUDA_ERROR_INVALID_HANDLE;
  e->live = 0;
  if (e->fd >= 0) close(e->fd);
  count(C_events, -1); // a shared page stays mapped: a stream may still mark it
  return CUDA_SUCCESS;
}
ENTRY(cuEventRecord, NEED_CONTEXT, (CUevent event, CUstream stream), event, stream) {
  CUstream s;
  CUevent e = find_event(event);
  if (e == NULL) return CUDA_ERROR_INVALID_HANDLE;
  CUresult result = find_stream(stream, &s);
  if (result != CUDA_SUCCESS) return result;
  if (e->ctx != current) {
    violation("an event is recorded in a stream of another context");
    return CUDA_ERROR_INVALID_HANDLE;
  }
  op *o = new_op(NOTHING);
  if (e->shared != NULL) {
    o->kind = MARK;
    o->shared = e->shared;
    o->generation = atomic_fetch_add(&e->shared->recorded, 1) + 1;
  }
  enqueue(s, o);
  e->recorded = (dep){s, s->queued};
  return CUDA_SUCCESS;
}
ENTRY(cuEventQuery, NEED_CONTEXT, (CUevent event), event) {
  CUevent e = find_event(event);
  if (e == NULL) return CUDA_ERROR_INVALID_HANDLE;
  return complete(e) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
ENTRY(cuEventSynchronize, NEED_CONTEXT, (CUevent event), event) {
  CUevent e = find_event(event);
  if (e == NULL) return CUDA_ERROR_INVALID_HANDLE;
  if (e->shared == NULL) return await(e->recorded.stream, e->recorded.seq);
  if (!complete(e)) count(C_blocked, 1);
  while (!complete(e)) {
    pthread_mutex_unlock(&big);
    nap(50);
    pthread_mutex_lock(&big);
  }
  return CUDA_SUCCESS;
}
ENTRY(cuStreamWaitEvent, NEED_CONTEXT, (CUstream stream, CUevent event, unsigned int flags), stream, event, flags) {
  CUstream s;
  CUevent e = find_event(event);
  if (e == NULL || flags != 0) return CUDA_ERROR_INVALID_HANDLE;
  CUresult result = find_stream(stream, &s);
  if (result != CUDA_SUCCESS) return result;
  op *o = new_op(NOTHING);
  if (e->shared != NULL) {
    o->shared = e->shared;
    o->generation = atomic_load(&e->shared->recorded);
  } else {
    depend(o, e->recorded.stream, e->recorded.seq);
  }
  enqueue(s, o);
  return CUDA_SUCCESS;
}

// ---- memory ----

static int on_device(const block *b) { return b->kind == DEVICE || b->kind == IMPORTED || b->kind == POOL; }

static block *find_block(uintptr_t address) {
  for (block *b = blocks; b != NULL && b->address <= address; b = b->next)
    if (address - b->address < b->size) return b;
  return NULL;
}

static const enum counter counter_of[] = {C_device, C_managed, C_pinned, C_registered, C_imported, C_pool};

static block *insert(uintptr_t address, size_t size, enum memory kind, char *bytes) {
  block **at = &blocks;
  while (*at != NULL && (*at)->address < address) at = &(*at)->next;
  block *b = calloc(1, sizeof *b);
  *b = (block){*at, address, size, kind, current, current->device, bytes, 0, ++ids};
  *at = b;
  count(counter_of[kind], 1);
  if (kind == DEVICE || kind == POOL || kind == MANAGED) {
    used[b->device] += size;
    count(C_bytes, (long long)size);
  }
  return b;
}

static void erase(block *b) {
  block **at = &blocks;
  while (*at != b) at = &(*at)->next;
  *at = b->next;
  count(counter_of[b->kind], -1);
  if (b->kind == DEVICE || b->kind == POOL || b->kind == MANAGED) {
    used[b->device] -= b->size;
    count(C_bytes, -(long long)b->size);
  }
  free(b);
}

static size_t rounded(size_t n) { return (n + GRAIN - 1) / GRAIN * GRAIN; }

// reserve finds the first gap in the region.
static uintptr_t reserve(size_t n) {
  uintptr_t at = region;
  for (block *b = blocks; b != NULL; b = b->next) {
    if (b->address < region || b->address >= region + region_size) continue;
    if (b->address - at >= rounded(n)) break;
    at = b->address + rounded(b->size);
  }
  return at + rounded(n) <= region + region_size ? at : 0;
}

static CUresult allocate(CUdeviceptr *p, size_t n, enum memory kind) {
  if (n == 0) return CUDA_ERROR_INVALID_VALUE;
  if (n > memory || used[current->device] + n > memory) return CUDA_ERROR_OUT_OF_MEMORY;
  uintptr_t address = reserve(n);
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  char *bytes = shadow + (address - region);
  memset(bytes, 0xA5, n < GRAIN ? n : GRAIN); // fresh memory is not zero
  insert(address, n, kind, bytes);
  *p = address;
  return CUDA_SUCCESS;
}

static void deallocate(block *b) {
  if (b->kind == IMPORTED) munmap(b->bytes - b->address % GRAIN, rounded(b->size));
  else if (rounded(b->size) > GRAIN)
    fallocate(region_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(b->address - region), (off_t)rounded(b->size));
  erase(b);
}

ENTRY(cuMemAlloc_v2, NEED_CONTEXT, (CUdeviceptr * p, size_t n), p, n) { return allocate(p, n, DEVICE); }
ENTRY(cuMemAllocAsync, NEED_CONTEXT, (CUdeviceptr * p, size_t n, CUstream stream), p, n, stream) {
  CUstream s;
  CUresult result = find_stream(stream, &s);
  return result != CUDA_SUCCESS ? result : allocate(p, n, POOL);
}
ENTRY(cuMemFree_v2, NEED_CONTEXT | RELEASES, (CUdeviceptr p), p) {
  if (p == 0) return CUDA_SUCCESS;
  block *b = find_block(p);
  if (b == NULL || b->address != p || !(b->kind == DEVICE || b->kind == POOL || b->kind == MANAGED)) {
    violation("cuMemFree of %#llx, which is no allocation", p);
    return CUDA_ERROR_INVALID_VALUE;
  }
  await_all();
  b = find_block(p);
  if (b == NULL) return CUDA_ERROR_INVALID_VALUE;
  if (b->kind == MANAGED) {
    munmap(b->bytes, rounded(b->size));
    erase(b);
  } else {
    deallocate(b);
  }
  return CUDA_SUCCESS;
}
ENTRY(cuMemFreeAsync, NEED_CONTEXT | RELEASES, (CUdeviceptr p, CUstream stream), p, stream) {
  CUstream s;
  CUresult result = find_stream(stream, &s);
  if (result != CUDA_SUCCESS) return result;
  block *b = find_block(p);
  if (b == NULL || b->address != p || b->kind != POOL) return CUDA_ERROR_INVALID_VALUE;
  await(s, s->queued);
  deallocate(b);
  return CUDA_SUCCESS;
}
ENTRY(cuMemAllocManaged, NEED_CONTEXT, (CUdeviceptr * p, size_t n, unsigned int flags), p, n, flags) {
  if (n == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)) return CUDA_ERROR_INVALID_VALUE;
  if (n > memory || used[current->device] + n > memory) return CUDA_ERROR_OUT_OF_MEMORY;
  char *m = mmap(NULL, rounded(n), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (m == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  insert((uintptr_t)m, n, MANAGED, m);
  *p = (uintptr_t)m;
  return CUDA_SUCCESS;
}
ENTRY(cuMemHostAlloc, NEED_CONTEXT, (void **p, size_t n, unsigned int flags), p, n, flags) {
  if (n == 0 || flags > 7) return CUDA_ERROR_INVALID_VALUE;
  char *m = mmap(NULL, rounded(n), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (m == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  insert((uintptr_t)m, n, PINNED, m);
  *p = m;
  return CUDA_SUCCESS;
}
ENTRY(cuMemFreeHost, NEED_CONTEXT | RELEASES, (void *p), p) {
  block *b = find_block((uintptr_t)p);
  if (b == NULL || b->address != (uintptr_t)p || b->kind != PINNED) {
    violation("cuMemFreeHost of %p, which is no allocation", p);
    return CUDA_ERROR_INVALID_VALUE;
  }
  await_all();
  b = find_block((uintptr_t)p);
  if (b == NULL) return CUDA_ERROR_INVALID_VALUE;
  munmap(b->bytes, rounded(b->size));
  erase(b);
  return CUDA_SUCCESS;
}
ENTRY(cuMemHostRegister_v2, NEED_CONTEXT, (void *p, size_t n, unsigned int flags), p, n, flags) {
  if (p == NULL || n == 0 || flags > 15) return CUDA_ERROR_INVALID_VALUE;
  if (find_block((uintptr_t)p) != NULL) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  insert((uintptr_t)p, n, REGISTERED, p);
  return CUDA_SUCCESS;
}
ENTRY(cuMemHostUnregister, NEED_CONTEXT | RELEASES, (void *p), p) {
  block *b = find_block((uintptr_t)p);
  if (b == NULL || b->address != (uintptr_t)p || b->kind != REGISTERED) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  erase(b);
  return CUDA_SUCCESS;
}
ENTRY(cuMemGetInfo_v2, NEED_CONTEXT, (size_t * available, size_t *total), available, total) {
  *total = memory;
  *available = memory > used[current->device] ? memory - used[current->device] : 0;
  return CUDA_SUCCESS;
}
ENTRY(cuMemGetAddressRange_v2, NEED_CONTEXT, (CUdeviceptr * base, size_t *size, CUdeviceptr p), base, size, p) {
  block *b = find_block(p);
  if (b == NULL) return CUDA_ERROR_NOT_FOUND;
  if (base != NULL) *base = b->address;
  if (size != NULL) *size = b->size;
  return CUDA_SUCCESS;
}

// ---- copies ----

// see gives the simulator's view of n bytes, and their block (NULL: pageable).
static CUresult see(uintptr_t address, size_t n, char **bytes, block **found) {
  *bytes = NULL;
  *found = NULL;
  if (n == 0) return CUDA_SUCCESS;
  block *b = find_block(address);
  if (b == NULL) {
    if (address == 0 || (address >= region && address < region + region_size)) {
      violation("%zu bytes at %#zx are not allocated", n, address);
      return CUDA_ERROR_INVALID_VALUE;
    }
    *bytes = (char *)address;
    return CUDA_SUCCESS;
  }
  if (address - b->address + n > b->size) {
    violation("%zu bytes at %#zx go past the end of the allocation of %zu bytes", n, address, b->size);
    return CUDA_ERROR_INVALID_VALUE;
  }
  *bytes = b->bytes + (address - b->address);
  *found = b;
  return CUDA_SUCCESS;
}

typedef struct {
  uintptr_t dst, src;
  size_t n, rows, dst_pitch, src_pitch;
} area;

static CUresult copy(area a, CUstream stream, int wait) {
  CUstream s;
  CUresult result = find_stream(stream, &s);
  if (result != CUDA_SUCCESS) return result;
  if (a.n == 0 || a.rows == 0) return CUDA_SUCCESS;
  block *to, *from;
  op *o = new_op(COPY);
  o->n = a.n;
  o->rows = a.rows;
  o->dst_pitch = a.dst_pitch;
  o->src_pitch = a.src_pitch;
  if ((result = see(a.dst, (a.rows - 1) * a.dst_pitch + a.n, &o->dst, &to)) != CUDA_SUCCESS ||
      (result = see(a.src, (a.rows - 1) * a.src_pitch + a.n, &o->src, &from)) != CUDA_SUCCESS) {
    free(o);
    return result;
  }
  if (to == NULL || from == NULL) count(C_pageable, 1);
  if (from == NULL && to != NULL && !wait && a.rows == 1 && a.n <= 64 << 10) { // the driver keeps a copy
    o->staging = malloc(a.n);
    memcpy(o->staging, o->src, a.n);
    o->src = o->staging;
  } else if (from == NULL || to == NULL) {
    wait = 1;
  }
  if (wait || (to != NULL && to->sync_memops) || (from != NULL && from->sync_memops)) wait = 1;
  enqueue(s, o);
  return wait ? await(s, s->queued) : CUDA_SUCCESS;
}

static CUresult row(uintptr_t dst, uintptr_t src, size_t n, CUstream stream, int wait) {
  return copy((area){dst, src, n, 1, n, n}, stream, wait);
}

// typed checks that an argument is on the side that the entry's name says.
static CUresult typed(CUdeviceptr p, size_t n) {
  block *b = find_block(p);
  if (n > 0 && b == NULL) {
    violation("%#llx is no memory of a device", p);
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

ENTRY(cuMemcpy, NEED_CONTEXT, (CUdeviceptr dst, CUdeviceptr src, size_t n), dst, src, n) {
  return row(dst, src, n, NULL, 1);
}
ENTRY(cuMemcpyHtoD_v2, NEED_CONTEXT, (CUdeviceptr dst, const void *src, size_t n), dst, src, n) {
  CUresult result = typed(dst, n);
  return result != CUDA_SUCCESS ? result : row(dst, (uintptr_t)src, n, NULL, 1);
}
ENTRY(cuMemcpyDtoH_v2, NEED_CONTEXT, (void *dst, CUdeviceptr src, size_t n), dst, src, n) {
  CUresult result = typed(src, n);
  return result != CUDA_SUCCESS ? result : row((uintptr_t)dst, src, n, NULL, 1);
}
ENTRY(cuMemcpyAsync, NEED_CONTEXT, (CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream), dst, src, n, stream) {
  return row(dst, src, n, stream, 0);
}
ENTRY(cuMemcpyHtoDAsync_v2, NEED_CONTEXT, (CUdeviceptr dst, const void *src, size_t n, CUstream stream), dst, src, n,
      stream) {
  CUresult result = typed(dst, n);
  return result != CUDA_SUCCESS ? result : row(dst, (uintptr_t)src, n, stream, 0);
}
ENTRY(cuMemcpyDtoHAsync_v2, NEED_CONTEXT, (void *dst, CUdeviceptr src, size_t n, CUstream stream), dst, src, n, stream) {
  CUresult result = typed(src, n);
  return result != CUDA_SUCCESS ? result : row((uintptr_t)dst, src, n, stream, 0);
}
ENTRY(cuMemcpyDtoDAsync_v2, NEED_CONTEXT, (CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream), dst, src, n,
      stream) {
  CUresult result = typed(dst, n);
  if (result == CUDA_SUCCESS) result = typed(src, n);
  return result != CUDA_SUCCESS ? result : row(dst, src, n, stream, 0);
}
ENTRY(cuMemcpyPeerAsync, NEED_CONTEXT,
      (CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t n, CUstream stream), dst, to, src, from, n,
      stream) {
  if (find_context(to) == NULL || find_context(from) == NULL) return CUDA_ERROR_INVALID_CONTEXT;
  return row(dst, src, n, stream, 0);
}
ENTRY(cuMemcpy2DAsync_v2, NEED_CONTEXT, (const CUDA_MEMCPY2D *c, CUstream stream), c, stream) {
  if (c->srcMemoryType == CU_MEMORYTYPE_ARRAY || c->dstMemoryType == CU_MEMORYTYPE_ARRAY) return CUDA_ERROR_NOT_SUPPORTED;
  uintptr_t src = c->srcMemoryType == CU_MEMORYTYPE_HOST ? (uintptr_t)c->srcHost : c->srcDevice;
  uintptr_t dst = c->dstMemoryType == CU_MEMORYTYPE_HOST ? (uintptr_t)c->dstHost : c->dstDevice;
  size_t src_pitch = c->srcPitch ? c->srcPitch : c->WidthInBytes, dst_pitch = c->dstPitch ? c->dstPitch : c->WidthInBytes;
  return copy((area){dst + c->dstY * dst_pitch + c->dstXInBytes, src + c->srcY * src_pitch + c->srcXInBytes,
                     c->WidthInBytes, c->Height, dst_pitch, src_pitch},
              stream, 0);
}

static CUresult set(CUdeviceptr p, unsigned value, unsigned width, size_t n, CUstream stream) {
  CUstream s;
  CUresult result = find_stream(stream, &s);
  if (result != CUDA_SUCCESS || n == 0) return result;
  if (p % width != 0) return CUDA_ERROR_INVALID_VALUE;
  block *b;
  op *o = new_op(SET);
  o->n = n * width;
  o->value = value;
  o->width = width;
  if ((result = see(p, o->n, &o->dst, &b)) != CUDA_SUCCESS || b == NULL) {
    free(o);
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
  }
  enqueue(s, o);
  return CUDA_SUCCESS;
}
ENTRY(cuMemsetD8Async, NEED_CONTEXT, (CUdeviceptr p, unsigned char value, size_t n, CUstream stream), p, value, n, stream) {
  return set(p, value, 1, n, stream);
}
ENTRY(cuMemsetD32Async, NEED_CONTEXT, (CUdeviceptr p, unsigned int value, size_t n, CUstream stream), p, value, n, stream) {
  return set(p, value, 4, n, stream);
}

// ---- pointers ----

static CUresult attribute(void *data, int which, CUdeviceptr p, const block *b) {
  int host = b != NULL && (b->kind == PINNED || b->kind == REGISTERED);
  switch (which) {
  case CU_POINTER_ATTRIBUTE_CONTEXT: *(CUcontext *)data = b != NULL ? b->ctx : NULL; break;
  case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    *(unsigned *)data = b == NULL ? 0 : host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    break;
  case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *(CUdeviceptr *)data = b != NULL ? p : 0; break;
  case CU_POINTER_ATTRIBUTE_HOST_POINTER: *(void **)data = b != NULL && !on_device(b) ? (void *)(uintptr_t)p : NULL; break;
  case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: *(unsigned *)data = b != NULL && b->sync_memops; break;
  case CU_POINTER_ATTRIBUTE_BUFFER_ID: *(unsigned long long *)data = b != NULL ? b->id : 0; break;
  case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(unsigned *)data = b != NULL && b->kind == MANAGED; break;
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)data = b != NULL ? b->device : 0; break;
  case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: *(unsigned *)data = b != NULL && b->kind == DEVICE; break;
  case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *(CUdeviceptr *)data = b != NULL ? b->address : 0; break;
  case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t *)data = b != NULL ? b->size : 0; break;
  case CU_POINTER_ATTRIBUTE_MAPPED: *(unsigned *)data = b != NULL; break;
  case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: *(void **)data = b != NULL && b->kind == POOL ? (void *)&blocks : NULL; break;
  default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}
ENTRY(cuPointerGetAttribute, NEED_INIT, (void *data, CUpointer_attribute a, CUdeviceptr p), data, a, p) {
  block *b = find_block(p);
  return b == NULL ? CUDA_ERROR_INVALID_VALUE : attribute(data, (int)a, p, b);
}
ENTRY(cuPointerGetAttributes, NEED_INIT, (unsigned int n, CUpointer_attribute *a, void **data, CUdeviceptr p), n, a, data,
      p) {
  CUresult result = CUDA_SUCCESS;
  for (unsigned i = 0; i < n && result == CUDA_SUCCESS; i++) result = attribute(data[i], (int)a[i], p, find_block(p));
  return result;
}
ENTRY(cuPointerSetAttribute, NEED_CONTEXT, (const void *value, CUpointer_attribute a, CUdeviceptr p), value, a, p) {
  block *b = find_block(p);
  if (a != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || b == NULL || !on_device(b)) return CUDA_ERROR_INVALID_VALUE;
  b->sync_memops = *(const unsigned *)value != 0;
  return CUDA_SUCCESS;
}

// ---- between processes ----

static int open_remote(pid_t pid, int fd) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
  return open(path, O_RDWR | O_CLOEXEC);
}

ENTRY(cuIpcGetMemHandle, NEED_CONTEXT, (CUipcMemHandle * handle, CUdeviceptr p), handle, p) {
  block *b = find_block(p);
  if (b == NULL || b->kind != DEVICE) return CUDA_ERROR_INVALID_VALUE; // not of the stream-ordered allocator
  ipc_memory m = {getpid(), region_fd, b->address - region, b->size, b->device};
  memset(handle, 0, sizeof *handle);
  memcpy(handle, &m, sizeof m);
  return CUDA_SUCCESS;
}
ENTRY(cuIpcOpenMemHandle_v2, NEED_CONTEXT, (CUdeviceptr * p, CUipcMemHandle handle, unsigned int flags), p, handle,
      flags) {
  ipc_memory m;
  memcpy(&m, &handle, sizeof m);
  if (flags > 1 || m.size == 0) return CUDA_ERROR_INVALID_VALUE;
  if (m.pid == getpid()) return CUDA_ERROR_INVALID_CONTEXT; // as the real one: not in the process that made it
  int fd = open_remote(m.pid, m.fd);
  if (fd < 0) return CUDA_ERROR_INVALID_VALUE;
  char *bytes = mmap(NULL, rounded(m.size), PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)m.offset);
  close(fd);
  uintptr_t address = reserve(m.size);
  if (bytes == MAP_FAILED || address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  insert(address, m.size, IMPORTED, bytes);
  *p = address;
  return CUDA_SUCCESS;
}
ENTRY(cuIpcCloseMemHandle, NEED_CONTEXT | RELEASES, (CUdeviceptr p), p) {
  block *b = find_block(p);
  if (b == NULL || b->address != p || b->kind != IMPORTED) return CUDA_ERROR_INVALID_VALUE;
  await_all();
  deallocate(b);
  return CUDA_SUCCESS;
}
ENTRY(cuIpcGetEventHandle, NEED_CONTEXT, (CUipcEventHandle * handle, CUevent event), handle, event) {
  CUevent e = find_event(event);
  if (e == NULL || !(e->flags & CU_EVENT_INTERPROCESS)) return CUDA_ERROR_INVALID_HANDLE;
  ipc_memory m = {getpid(), e->fd, 0, GRAIN, e->ctx->device};
  memset(handle, 0, sizeof *handle);
  memcpy(handle, &m, sizeof m);
  return CUDA_SUCCESS;
}
ENTRY(cuIpcOpenEventHandle, NEED_CONTEXT, (CUevent * event, CUipcEventHandle handle), event, handle) {
  ipc_memory m;
  memcpy(&m, &handle, sizeof m);
  int fd = open_remote(m.pid, m.fd);
  if (fd < 0) return CUDA_ERROR_INVALID_HANDLE;
  shared_event *shared = mmap(NULL, GRAIN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (shared == MAP_FAILED) {
    close(fd);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  CUevent e = new_event(CU_EVENT_DISABLE_TIMING);
  e->shared = shared;
  e->fd = fd;
  *event = e;
  return CUDA_SUCCESS;
}

// ---- kernels ----

static const kernel kernels[];

// parameters counts those of an entry of PTX text; -1 if there is no such entry.
static int parameters(const char *text, const char *name) {
  size_t length = strlen(name);
  for (const char *p = text; (p = strstr(p, ".entry")) != NULL;) {
    p += strlen(".entry");
    p += strspn(p, " \t\n");
    if (strncmp(p, name, length) != 0 || strchr(" \t\n(", p[length]) == NULL) continue;
    const char *end = strchr(p, ')');
    int n = 0;
    while (end != NULL && (p = strstr(p, ".param")) != NULL && p < end) {
      n++;
      p++;
    }
    return n;
  }
  return -1;
}

static CUresult load(CUmodule *module, const void *image) {
  if (strstr(image, ".version") == NULL || strstr(image, ".target") == NULL || strstr(image, ".address_size 64") == NULL)
    return CUDA_ERROR_INVALID_PTX;
  CUmodule m = calloc(1, sizeof *m);
  m->ctx = current;
  m->text = strdup(image);
  m->next = modules;
  *module = modules = m;
  count(C_modules, 1);
  return CUDA_SUCCESS;
}
ENTRY(cuModuleLoadData, NEED_CONTEXT, (CUmodule * module, const void *image), module, image) {
  return load(module, image);
}
ENTRY(cuModuleLoadDataEx, NEED_CONTEXT,
      (CUmodule * module, const void *image, unsigned int n, CUjit_option *options, void **values), module, image, n,
      options, values) {
  (void)n, (void)options, (void)values;
  return load(module, image);
}
ENTRY(cuModuleUnload, NEED_CONTEXT | RELEASES, (CUmodule module), module) {
  for (CUmodule *at = &modules; *at != NULL; at = &(*at)->next)
    if (*at == module) {
      await_all();
      *at = module->next;
      for (CUfunction f = module->functions, next; f != NULL; f = next) {
        next = f->next;
        free(f);
      }
      free(module->text);
      free(module);
      count(C_modules, -1);
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_HANDLE;
}

ENTRY(cuModuleGetFunction, NEED_CONTEXT, (CUfunction * function, CUmodule module, const char *name), function, module,
      name) {
  for (const kernel *k = kernels; k->name != NULL; k++) {
    if (strcmp(k->name, name) != 0) continue;
    int n = parameters(module->text, name);
    if (n < 0) return CUDA_ERROR_NOT_FOUND;
    if (n != k->nargs) {
      violation("kernel %s has %d parameters in PTX, %d here", name, n, k->nargs);
      return CUDA_ERROR_INVALID_PTX;
    }
    CUfunction f = calloc(1, sizeof *f);
    f->kernel = k;
    f->next = module->functions;
    module->functions = f;
    *function = f;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_FOUND;
}
ENTRY(cuLaunchKernel, NEED_CONTEXT,
      (CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
       unsigned int bz, unsigned int shared, CUstream stream, void **params, void **extra),
      f, gx, gy, gz, bx, by, bz, shared, stream, params, extra) {
  CUstream s;
  CUresult result = find_stream(stream, &s);
  if (result != CUDA_SUCCESS) return result;
  if (gx == 0 || gy == 0 || gz == 0 || bx == 0 || by == 0 || bz == 0 || (size_t)bx * by * bz > 1024 || shared > 48 << 10 ||
      params == NULL || extra != NULL)
    return CUDA_ERROR_INVALID_VALUE;
  op *o = new_op(KERNEL);
  o->kernel = f->kernel;
  for (int i = 0; i < f->kernel->nargs; i++) memcpy(&o->args[i], params[i], sizeof o->args[i]);
  enqueue(s, o);
  return CUDA_SUCCESS;
}

// kernel_memory is the simulator's view of memory that a kernel uses; NULL is an
// illegal address.
static void *kernel_memory(uint64_t address, uint64_t n) {
  char *bytes;
  block *b;
  pthread_mutex_lock(&big);
  CUresult result = see(address, n, &bytes, &b);
  pthread_mutex_unlock(&big);
  return result == CUDA_SUCCESS && (b != NULL || n == 0) ? bytes : NULL;
}

// What follows is what the kernels of internal/pattern do.

static unsigned char pattern_byte(uint64_t seed, uint64_t i) {
  uint64_t x = (i >> 3) + seed * 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  x ^= x >> 31;
  return (unsigned char)(x >> 8 * (i & 7));
}

static int run_fill(const uint64_t *args) { // address, length, seed
  unsigned char *p = kernel_memory(args[0], args[1]);
  if (p == NULL && args[1] > 0) return -1;
  for (uint64_t i = 0; i < args[1]; i++) p[i] = pattern_byte(args[2], i);
  return 0;
}

static int run_verify(const uint64_t *args) { // address, length, seed, address of {wrong bytes, first of them}
  unsigned char *p = kernel_memory(args[0], args[1]);
  uint64_t *result = kernel_memory(args[3], 2 * sizeof *result);
  if ((p == NULL && args[1] > 0) || result == NULL) return -1;
  for (uint64_t i = 0; i < args[1]; i++) {
    if (p[i] == pattern_byte(args[2], i)) continue;
    result[0]++;
    if (i < result[1]) result[1] = i;
  }
  return 0;
}

static const kernel kernels[] = {{"mpi4go_fill", 3, run_fill}, {"mpi4go_verify", 4, run_verify}, {NULL, 0, NULL}};
