// The driver API, as far as it is called: our own declarations of its types, and
// the functions by which Go calls it.
#ifndef MPI4GO_DRIVER_H
#define MPI4GO_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct {
  char bytes[16];
} CUuuid;

// abi_test.go compares the value of each.
typedef enum {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_STUB_LIBRARY = 34,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704,
  CUDA_ERROR_NOT_SUPPORTED = 801,
} CUresult;
typedef enum {
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
} CUdevice_attribute;
typedef enum {
  CU_POINTER_ATTRIBUTE_CONTEXT = 1,
  CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
  CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
  CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
  CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,
  CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE = 17,
} CUpointer_attribute;
enum {
  CU_MEMORYTYPE_HOST = 1,
  CU_MEMORYTYPE_DEVICE = 2,
  CU_STREAM_NON_BLOCKING = 1,
  CU_EVENT_DISABLE_TIMING = 2,
  CU_MEMHOSTALLOC_PORTABLE = 1,
  CU_MEM_ATTACH_GLOBAL = 1,
};

// Which entry returned a result.
typedef enum {
  M4G_NO_CALL,
#define ENTRY(name, parameters) M4G_##name,
#include "entries.h"
} m4g_call;

// What a call gives: which entry returned what, and the value it is for. The
// entry is that of a failed one, such as the one that makes the context current.
typedef struct {
  int32_t call, result;
  uint64_t value, second;
} m4g_returned;

typedef struct {
  uint64_t context, start, size, pool;
  uint32_t type, managed;
  int32_t device;
} m4g_pointer;

// A query of many events in one call.
typedef struct {
  uint64_t context, event;
  int32_t call, result; // filled in
} m4g_query;

const char *m4g_driver_load(void *library); // the symbol that is missing, or NULL
void *m4g_driver_open(const char *path, char *text, int size);
const char *m4g_call_name(int call);
const char *m4g_result_name(int result);
const char *m4g_result_text(int result);

m4g_returned m4g_init(void);
m4g_returned m4g_driver_version(void);
m4g_returned m4g_device_count(void);
m4g_returned m4g_device(int ordinal);
m4g_returned m4g_device_name(int device, char *name, int size);
m4g_returned m4g_device_uuid(int device, char *uuid);
m4g_returned m4g_device_bus(int device, char *id, int size);
m4g_returned m4g_device_memory(int device);
m4g_returned m4g_device_capability(int device);
m4g_returned m4g_device_peer(int device, int peer);
m4g_returned m4g_context_retain(int device);
m4g_returned m4g_context_release(int device);
m4g_returned m4g_context_peer(uint64_t context, uint64_t peer);
// m4g_context_swap makes a context current for this thread. It returns the other one
// that was before, or 0.
uint64_t m4g_context_swap(uint64_t context);

m4g_returned m4g_mem_alloc(uint64_t context, uint64_t bytes);
m4g_returned m4g_mem_free(uint64_t context, uint64_t address);
m4g_returned m4g_mem_alloc_managed(uint64_t context, uint64_t bytes);
m4g_returned m4g_mem_host_alloc(uint64_t context, uint64_t bytes);
m4g_returned m4g_mem_free_host(uint64_t context, uint64_t address);
m4g_returned m4g_mem_info(uint64_t context);
m4g_returned m4g_pointer_inspect(uint64_t address, m4g_pointer *pointer);

m4g_returned m4g_memcpy(uint64_t context, uint64_t dst, uint64_t src, uint64_t bytes, uint64_t stream);
m4g_returned m4g_memset8(uint64_t context, uint64_t dst, uint32_t value, uint64_t bytes, uint64_t stream);
m4g_returned m4g_memset32(uint64_t context, uint64_t dst, uint32_t value, uint64_t words, uint64_t stream);

m4g_returned m4g_stream_create(uint64_t context);
m4g_returned m4g_stream_destroy(uint64_t context, uint64_t stream);
m4g_returned m4g_stream_query(uint64_t context, uint64_t stream);
m4g_returned m4g_stream_wait_event(uint64_t context, uint64_t stream, uint64_t event);
m4g_returned m4g_event_create(uint64_t context);
m4g_returned m4g_event_destroy(uint64_t context, uint64_t event);
m4g_returned m4g_event_record(uint64_t context, uint64_t event, uint64_t stream);
m4g_returned m4g_event_query(uint64_t context, uint64_t event);
void m4g_event_query_all(m4g_query *queries, int n);

m4g_returned m4g_module_load(uint64_t context, const char *ptx);
m4g_returned m4g_module_unload(uint64_t context, uint64_t module);
m4g_returned m4g_module_function(uint64_t context, uint64_t module, const char *name);
m4g_returned m4g_launch(uint64_t context, uint64_t function, uint32_t blocks, uint32_t threads, uint64_t stream,
                        const uint64_t *arguments, int n);

#endif
