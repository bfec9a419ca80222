// Shows that the simulated driver is as strict as its head says. The argument names a
// part; every part prints nothing and returns 0 if all is well.
#include <cuda.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int wrong;
#define IS(call, want)                                                                                                 \
  do {                                                                                                                 \
    int result_ = (int)(call);                                                                                         \
    if (result_ != (int)(want)) {                                                                                      \
      printf("line %d: %s is %d, want %d\n", __LINE__, #call, result_, (int)(want));                                   \
      wrong = 1;                                                                                                       \
    }                                                                                                                  \
  } while (0)
#define OK(call) IS(call, CUDA_SUCCESS)

static CUcontext begin(CUdevice device) {
  CUcontext ctx = NULL;
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxRetain(&ctx, device));
  OK(cuCtxSetCurrent(ctx));
  return ctx;
}

static void *without_context(void *p) {
  CUdeviceptr address;
  CUcontext ctx = (CUcontext)1;
  IS(cuMemAlloc(&address, 100), CUDA_ERROR_INVALID_CONTEXT);
  IS(cuMemcpyAsync((CUdeviceptr)p, (CUdeviceptr)p, 1, NULL), CUDA_ERROR_INVALID_CONTEXT);
  OK(cuCtxGetCurrent(&ctx));
  IS(ctx == NULL, 1);
  return NULL;
}

static void contexts(void) {
  CUdeviceptr address;
  CUcontext ctx, second;
  CUstream stream;
  CUdevice device = -1;
  IS(cuDeviceGetCount(&device), CUDA_ERROR_NOT_INITIALIZED);
  ctx = begin(0);
  OK(cuMemAlloc(&address, 100));
  pthread_t thread;
  pthread_create(&thread, NULL, without_context, (void *)(uintptr_t)address);
  pthread_join(thread, NULL);
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuDevicePrimaryCtxRetain(&second, 1));
  OK(cuCtxSetCurrent(second));
  OK(cuCtxGetDevice(&device));
  IS(device, 1);
  IS(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
  OK(cuDevicePrimaryCtxRelease(1));
  IS(cuStreamQuery(stream), CUDA_ERROR_INVALID_CONTEXT);
  IS(cuCtxSetCurrent(second), CUDA_ERROR_INVALID_CONTEXT);
  OK(cuCtxSetCurrent(ctx));
  OK(cuStreamDestroy(stream));
  IS(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
  OK(cuMemFree(address));
  IS(cuMemFree(address), CUDA_ERROR_INVALID_VALUE);
  OK(cuDevicePrimaryCtxRelease(0));
}

// With a delay of 50 ms for each fill.
static void streams(void) {
  CUcontext ctx = begin(0);
  CUdeviceptr a;
  CUstream blocking, free_running;
  CUevent event;
  OK(cuMemAlloc(&a, 64));
  OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
  OK(cuStreamCreate(&free_running, CU_STREAM_NON_BLOCKING));
  OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  OK(cuEventQuery(event));

  OK(cuMemsetD8Async(a, 1, 64, blocking)); // the legacy stream waits for it
  OK(cuEventRecord(event, NULL));
  IS(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  OK(cuEventSynchronize(event));
  OK(cuStreamQuery(blocking));

  OK(cuMemsetD8Async(a, 1, 64, NULL)); // it waits for the legacy stream
  OK(cuEventRecord(event, blocking));
  IS(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  OK(cuStreamSynchronize(blocking));
  OK(cuStreamQuery(NULL));

  OK(cuMemsetD8Async(a, 1, 64, free_running)); // neither waits
  OK(cuEventRecord(event, NULL));
  OK(cuStreamSynchronize(NULL));
  IS(cuStreamQuery(free_running), CUDA_ERROR_NOT_READY);
  for (int i = 0; i < 3; i++) OK(cuMemsetD8Async(a, 1, 64, CU_STREAM_LEGACY));
  OK(cuEventRecord(event, free_running));
  OK(cuStreamSynchronize(free_running));
  IS(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
  OK(cuCtxSynchronize());

  OK(cuMemsetD8Async(a, 1, 64, free_running)); // an event orders them
  OK(cuEventRecord(event, free_running));
  OK(cuStreamWaitEvent(blocking, event, 0));
  OK(cuStreamSynchronize(blocking));
  OK(cuStreamQuery(free_running));
  IS(cuStreamQuery(CU_STREAM_PER_THREAD), CUDA_ERROR_NOT_SUPPORTED);

  OK(cuEventDestroy(event));
  IS(cuEventDestroy(event), CUDA_ERROR_INVALID_HANDLE);
  OK(cuStreamDestroy(blocking));
  OK(cuStreamDestroy(free_running));
  OK(cuMemFree(a));
  OK(cuDevicePrimaryCtxRelease(0));
  (void)ctx;
}

static void memory(void) {
  begin(0);
  CUdeviceptr a, base, pool;
  CUstream stream;
  size_t size, n = 1000;
  unsigned type = 9, managed = 9, on = 1;
  void *handle = NULL;
  char host[1000], back[1000];
  for (size_t i = 0; i < n; i++) host[i] = (char)(i * 7);
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuMemAlloc(&a, n));
  OK(cuMemcpyHtoD(a, host, n));
  OK(cuMemcpyDtoH(back, a, n));
  IS(memcmp(host, back, n), 0);
  IS(cuMemcpy(a + 1, a, n), CUDA_ERROR_INVALID_VALUE);
  IS(cuMemcpyDtoHAsync(back, (CUdeviceptr)(uintptr_t)host, 1, stream), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemGetAddressRange(&base, &size, a + 5));
  IS(base == a && size == n, 1);
  IS(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)host), CUDA_ERROR_INVALID_VALUE);
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
  void *data[] = {&type, &managed};
  OK(cuPointerGetAttributes(2, attributes, data, (CUdeviceptr)(uintptr_t)host));
  IS(type == 0 && managed == 0, 1);
  OK(cuMemHostRegister(host, n, 0));
  IS(cuMemHostRegister(host, n, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)host));
  IS(type, CU_MEMORYTYPE_HOST);
  OK(cuMemHostUnregister(host));
  OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a));

  memset(back, 0, n); // a column of 10 bytes, of rows of 100
  CUDA_MEMCPY2D c = {0};
  c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  c.srcDevice = a;
  c.srcPitch = 100;
  c.srcXInBytes = 20;
  c.dstMemoryType = CU_MEMORYTYPE_HOST;
  c.dstHost = back;
  c.WidthInBytes = 10;
  c.Height = 10;
  OK(cuMemcpy2DAsync(&c, stream));
  OK(cuStreamSynchronize(stream));
  for (int i = 0; i < 10; i++) IS(memcmp(back + 10 * i, host + 100 * i + 20, 10), 0);

  CUipcMemHandle ipc;
  OK(cuMemAllocAsync(&pool, n, stream));
  IS(cuIpcGetMemHandle(&ipc, pool), CUDA_ERROR_INVALID_VALUE);
  OK(cuPointerGetAttribute(&handle, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, pool));
  IS(handle != NULL, 1);
  OK(cuMemFreeAsync(pool, stream));
  OK(cuMemFree(a));
  OK(cuStreamDestroy(stream));
  OK(cuDevicePrimaryCtxRelease(0));
}

static void transfer(int fd, void *p, size_t n, int out) {
  if ((out ? write(fd, p, n) : read(fd, p, n)) != (ssize_t)n) exit(9);
}

// Two processes share memory and an event. The fill is delayed.
static void ipc(void) {
  int down[2], up[2], status = 0;
  char byte = 0, text[100];
  CUipcMemHandle memory_handle;
  CUipcEventHandle event_handle;
  CUdeviceptr a;
  CUevent event;
  CUstream stream;
  if (pipe(down) != 0 || pipe(up) != 0) exit(9);
  pid_t child = fork();
  if (child == 0) {
    transfer(down[0], &memory_handle, sizeof memory_handle, 0);
    transfer(down[0], &event_handle, sizeof event_handle, 0);
    begin(0);
    OK(cuIpcOpenMemHandle(&a, memory_handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    OK(cuIpcOpenEventHandle(&event, event_handle));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    IS(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    OK(cuStreamWaitEvent(stream, event, 0));
    OK(cuMemcpyDtoHAsync(text, a, sizeof text, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuEventQuery(event));
    IS(text[0] == 5 && text[99] == 5, 1);
    OK(cuMemcpyHtoD(a, "from the child", 15));
    OK(cuStreamDestroy(stream));
    OK(cuEventDestroy(event));
    OK(cuIpcCloseMemHandle(a));
    OK(cuDevicePrimaryCtxRelease(0));
    transfer(up[1], &byte, 1, 1);
    exit(wrong);
  }
  begin(0);
  OK(cuMemAlloc(&a, 100));
  OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuMemsetD8Async(a, 5, 100, stream));
  OK(cuEventRecord(event, stream));
  OK(cuIpcGetMemHandle(&memory_handle, a));
  OK(cuIpcGetEventHandle(&event_handle, event));
  CUdeviceptr own;
  IS(cuIpcOpenMemHandle(&own, memory_handle, 1), CUDA_ERROR_INVALID_CONTEXT);
  transfer(down[1], &memory_handle, sizeof memory_handle, 1);
  transfer(down[1], &event_handle, sizeof event_handle, 1);
  transfer(up[0], &byte, 1, 0);
  OK(cuMemcpyDtoH(text, a, sizeof text));
  IS(strcmp(text, "from the child"), 0);
  OK(cuEventDestroy(event));
  OK(cuStreamDestroy(stream));
  OK(cuMemFree(a));
  OK(cuDevicePrimaryCtxRelease(0));
  waitpid(child, &status, 0);
  IS(status, 0);
}

static void leaks(void) {
  CUdeviceptr a;
  CUevent event;
  begin(0);
  OK(cuMemAlloc(&a, 100));
  OK(cuEventCreate(&event, 0));
}

static void fault(void) {
  CUdeviceptr a;
  begin(0);
  OK(cuMemAlloc(&a, 100));
  printf("%d\n", *(volatile char *)(uintptr_t)a);
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*run)(void);
  } parts[] = {{"contexts", contexts}, {"streams", streams}, {"memory", memory},
               {"ipc", ipc},           {"leaks", leaks},     {"fault", fault}};
  setvbuf(stdout, NULL, _IONBF, 0);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (argc == 2 && strcmp(argv[1], parts[i].name) == 0) {
      parts[i].run();
      return wrong;
    }
  return 2;
}
