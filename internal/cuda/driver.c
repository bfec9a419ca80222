#include "driver.h"

#include <dlfcn.h>
#include <string.h>

static struct {
#define ENTRY(name, parameters) CUresult(*name) parameters;
#include "entries.h"
} cuda;

void *m4g_driver_open(const char *path, char *text, int size) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    const char *why = dlerror();
    strncpy(text, why != NULL ? why : "unknown", size - 1);
    text[size - 1] = 0;
  }
  return library;
}

const char *m4g_driver_load(void *library) {
#define ENTRY(name, parameters)                                                                                        \
  *(void **)&cuda.name = dlsym(library, #name);                                                                        \
  if (cuda.name == NULL) return #name;
#define OPTIONAL(name, parameters) *(void **)&cuda.name = dlsym(library, #name);
#include "entries.h"
  return NULL;
}

const char *m4g_call_name(int call) {
  static const char *names[] = {"",
#define ENTRY(name, parameters) #name,
#include "entries.h"
  };
  return names[call];
}

const char *m4g_result_name(int result) {
  const char *text = NULL;
  return cuda.cuGetErrorName != NULL && cuda.cuGetErrorName((CUresult)result, &text) == CUDA_SUCCESS ? text : NULL;
}
const char *m4g_result_text(int result) {
  const char *text = NULL;
  return cuda.cuGetErrorString != NULL && cuda.cuGetErrorString((CUresult)result, &text) == CUDA_SUCCESS ? text : NULL;
}

// CALL calls an entry and notes which it was.
#define CALL(r, name, ...) ((r)->call = M4G_##name, (r)->result = (int32_t)cuda.name(__VA_ARGS__))

// ---- devices ----

m4g_returned m4g_init(void) {
  m4g_returned r = {0};
  CALL(&r, cuInit, 0);
  return r;
}
m4g_returned m4g_driver_version(void) {
  m4g_returned r = {0};
  int version = 0;
  CALL(&r, cuDriverGetVersion, &version);
  r.value = (uint64_t)version;
  return r;
}
m4g_returned m4g_device_count(void) {
  m4g_returned r = {0};
  int n = 0;
  CALL(&r, cuDeviceGetCount, &n);
  r.value = (uint64_t)n;
  return r;
}
m4g_returned m4g_device(int ordinal) {
  m4g_returned r = {0};
  CUdevice device = 0;
  CALL(&r, cuDeviceGet, &device, ordinal);
  r.value = (uint64_t)device;
  return r;
}
m4g_returned m4g_device_name(int device, char *name, int size) {
  m4g_returned r = {0};
  CALL(&r, cuDeviceGetName, name, size, device);
  return r;
}
m4g_returned m4g_device_uuid(int device, char *bytes) {
  m4g_returned r = {0};
  CUuuid uuid = {{0}};
  if (cuda.cuDeviceGetUuid_v2 != NULL) CALL(&r, cuDeviceGetUuid_v2, &uuid, device);
  else CALL(&r, cuDeviceGetUuid, &uuid, device);
  memcpy(bytes, uuid.bytes, sizeof uuid.bytes);
  return r;
}
m4g_returned m4g_device_bus(int device, char *id, int size) {
  m4g_returned r = {0};
  CALL(&r, cuDeviceGetPCIBusId, id, size, device);
  return r;
}
m4g_returned m4g_device_memory(int device) {
  m4g_returned r = {0};
  size_t bytes = 0;
  CALL(&r, cuDeviceTotalMem_v2, &bytes, device);
  r.value = bytes;
  return r;
}
m4g_returned m4g_device_capability(int device) {
  m4g_returned r = {0};
  int major = 0, minor = 0;
  if (CALL(&r, cuDeviceGetAttribute, &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) == CUDA_SUCCESS)
    CALL(&r, cuDeviceGetAttribute, &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  r.value = (uint64_t)major;
  r.second = (uint64_t)minor;
  return r;
}
m4g_returned m4g_device_peer(int device, int peer) {
  m4g_returned r = {0};
  int can = 0;
  CALL(&r, cuDeviceCanAccessPeer, &can, device, peer);
  r.value = (uint64_t)can;
  return r;
}
m4g_returned m4g_context_retain(int device) {
  m4g_returned r = {0};
  CUcontext context = NULL;
  CALL(&r, cuDevicePrimaryCtxRetain, &context, device);
  r.value = (uintptr_t)context;
  return r;
}
m4g_returned m4g_context_release(int device) {
  m4g_returned r = {0};
  CALL(&r, cuDevicePrimaryCtxRelease_v2, device);
  return r;
}
m4g_returned m4g_pointer_inspect(uint64_t address, m4g_pointer *p) {
  m4g_returned r = {0};
  CUpointer_attribute attributes[] = {
      CU_POINTER_ATTRIBUTE_CONTEXT,     CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
      CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,       CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
      CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, // the last, because drivers before 11.3 do not know it
  };
  unsigned n = sizeof attributes / sizeof *attributes;
  memset(p, 0, sizeof *p);
  void *data[] = {&p->context, &p->start, &p->size, &p->type, &p->managed, &p->device, &p->pool};
  if (CALL(&r, cuPointerGetAttributes, n, attributes, data, address) == CUDA_ERROR_INVALID_VALUE)
    CALL(&r, cuPointerGetAttributes, n - 1, attributes, data, address);
  return r;
}

// ---- what needs a context ----

// enter makes a context current for this thread.
static CUcontext enter(m4g_returned *r, uint64_t context) {
  CUcontext wanted = (CUcontext)(uintptr_t)context, before = NULL;
  if (CALL(r, cuCtxGetCurrent, &before) == CUDA_SUCCESS && before != wanted) CALL(r, cuCtxSetCurrent, wanted);
  return before;
}

// leave puts back the context of another library. One that was destroyed in the
// meantime cannot be, so the result does not matter. Where there was none, ours
// stays: the next call on this thread is cheaper.
static void leave(CUcontext before, uint64_t context) {
  if (before != NULL && before != (CUcontext)(uintptr_t)context) cuda.cuCtxSetCurrent(before);
}

uint64_t m4g_context_swap(uint64_t context) {
  m4g_returned r = {0};
  CUcontext before = enter(&r, context);
  return before != (CUcontext)(uintptr_t)context ? (uint64_t)(uintptr_t)before : 0;
}

// WITH calls an entry with the context current.
#define WITH(r, context, name, ...)                                                                                    \
  do {                                                                                                                 \
    CUcontext before = enter(r, context);                                                                              \
    if ((r)->result != CUDA_SUCCESS) break;                                                                            \
    CALL(r, name, __VA_ARGS__);                                                                                        \
    leave(before, context);                                                                                            \
  } while (0)

static inline CUstream to_stream(uint64_t s) { return (CUstream)(uintptr_t)s; }
static inline CUevent to_event(uint64_t e) { return (CUevent)(uintptr_t)e; }

m4g_returned m4g_context_peer(uint64_t context, uint64_t peer) {
  m4g_returned r = {0};
  WITH(&r, context, cuCtxEnablePeerAccess, (CUcontext)(uintptr_t)peer, 0);
  return r;
}

m4g_returned m4g_mem_alloc(uint64_t context, uint64_t bytes) {
  m4g_returned r = {0};
  CUdeviceptr address = 0;
  WITH(&r, context, cuMemAlloc_v2, &address, bytes);
  r.value = address;
  return r;
}
m4g_returned m4g_mem_free(uint64_t context, uint64_t address) {
  m4g_returned r = {0};
  WITH(&r, context, cuMemFree_v2, address);
  return r;
}
m4g_returned m4g_mem_alloc_managed(uint64_t context, uint64_t bytes) {
  m4g_returned r = {0};
  CUdeviceptr address = 0;
  WITH(&r, context, cuMemAllocManaged, &address, bytes, CU_MEM_ATTACH_GLOBAL);
  r.value = address;
  return r;
}
m4g_returned m4g_mem_host_alloc(uint64_t context, uint64_t bytes) {
  m4g_returned r = {0};
  void *address = NULL;
  WITH(&r, context, cuMemHostAlloc, &address, bytes, CU_MEMHOSTALLOC_PORTABLE);
  r.value = (uintptr_t)address;
  return r;
}
m4g_returned m4g_mem_free_host(uint64_t context, uint64_t address) {
  m4g_returned r = {0};
  WITH(&r, context, cuMemFreeHost, (void *)(uintptr_t)address);
  return r;
}
m4g_returned m4g_mem_info(uint64_t context) {
  m4g_returned r = {0};
  size_t available = 0, total = 0;
  WITH(&r, context, cuMemGetInfo_v2, &available, &total);
  r.value = available;
  r.second = total;
  return r;
}

m4g_returned m4g_memcpy(uint64_t context, uint64_t dst, uint64_t src, uint64_t bytes, uint64_t stream) {
  m4g_returned r = {0};
  WITH(&r, context, cuMemcpyAsync, dst, src, bytes, to_stream(stream));
  return r;
}
m4g_returned m4g_memset8(uint64_t context, uint64_t dst, uint32_t value, uint64_t bytes, uint64_t stream) {
  m4g_returned r = {0};
  WITH(&r, context, cuMemsetD8Async, dst, (unsigned char)value, bytes, to_stream(stream));
  return r;
}
m4g_returned m4g_memset32(uint64_t context, uint64_t dst, uint32_t value, uint64_t words, uint64_t stream) {
  m4g_returned r = {0};
  WITH(&r, context, cuMemsetD32Async, dst, value, words, to_stream(stream));
  return r;
}

m4g_returned m4g_stream_create(uint64_t context) {
  m4g_returned r = {0};
  CUstream stream = NULL;
  WITH(&r, context, cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  r.value = (uintptr_t)stream;
  return r;
}
m4g_returned m4g_stream_destroy(uint64_t context, uint64_t stream) {
  m4g_returned r = {0};
  WITH(&r, context, cuStreamDestroy_v2, to_stream(stream));
  return r;
}
m4g_returned m4g_stream_query(uint64_t context, uint64_t stream) {
  m4g_returned r = {0};
  WITH(&r, context, cuStreamQuery, to_stream(stream));
  return r;
}
m4g_returned m4g_stream_wait_event(uint64_t context, uint64_t stream, uint64_t event) {
  m4g_returned r = {0};
  WITH(&r, context, cuStreamWaitEvent, to_stream(stream), to_event(event), 0);
  return r;
}
m4g_returned m4g_event_create(uint64_t context) {
  m4g_returned r = {0};
  CUevent event = NULL;
  WITH(&r, context, cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
  r.value = (uintptr_t)event;
  return r;
}
m4g_returned m4g_event_destroy(uint64_t context, uint64_t event) {
  m4g_returned r = {0};
  WITH(&r, context, cuEventDestroy_v2, to_event(event));
  return r;
}
m4g_returned m4g_event_record(uint64_t context, uint64_t event, uint64_t stream) {
  m4g_returned r = {0};
  WITH(&r, context, cuEventRecord, to_event(event), to_stream(stream));
  return r;
}
m4g_returned m4g_event_query(uint64_t context, uint64_t event) {
  m4g_returned r = {0};
  WITH(&r, context, cuEventQuery, to_event(event));
  return r;
}
void m4g_event_query_all(m4g_query *queries, int n) {
  for (int i = 0; i < n; i++) {
    m4g_returned r = m4g_event_query(queries[i].context, queries[i].event);
    queries[i].call = r.call;
    queries[i].result = r.result;
  }
}

m4g_returned m4g_module_load(uint64_t context, const char *ptx) {
  m4g_returned r = {0};
  CUmodule module = NULL;
  WITH(&r, context, cuModuleLoadData, &module, ptx);
  r.value = (uintptr_t)module;
  return r;
}
m4g_returned m4g_module_unload(uint64_t context, uint64_t module) {
  m4g_returned r = {0};
  WITH(&r, context, cuModuleUnload, (CUmodule)(uintptr_t)module);
  return r;
}
m4g_returned m4g_module_function(uint64_t context, uint64_t module, const char *name) {
  m4g_returned r = {0};
  CUfunction function = NULL;
  WITH(&r, context, cuModuleGetFunction, &function, (CUmodule)(uintptr_t)module, name);
  r.value = (uintptr_t)function;
  return r;
}
m4g_returned m4g_launch(uint64_t context, uint64_t function, uint32_t blocks, uint32_t threads, uint64_t stream,
                        const uint64_t *arguments, int n) {
  m4g_returned r = {0};
  void *parameters[8];
  for (int i = 0; i < n; i++) parameters[i] = (void *)&arguments[i];
  WITH(&r, context, cuLaunchKernel, (CUfunction)(uintptr_t)function, blocks, 1, 1, threads, 1, 1, 0, to_stream(stream),
       parameters, NULL);
  return r;
}
