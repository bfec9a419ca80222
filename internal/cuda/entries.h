// Every entry point of the CUDA driver that is called, under the name of its
// symbol (a suffix _v2 is part of the binary interface), with the signature that
// cuda.h gives it: ENTRY(name, parameters). All return CUresult. abi_test.go
// compiles this list against the cuda.h that it finds, so it cannot drift.
//
// OPTIONAL entries (newer drivers) may be missing; their pointer is then NULL.
#ifndef OPTIONAL
#define OPTIONAL ENTRY
#endif

ENTRY(cuInit, (unsigned int flags))
ENTRY(cuDriverGetVersion, (int *version))
ENTRY(cuGetErrorName, (CUresult error, const char **text))
ENTRY(cuGetErrorString, (CUresult error, const char **text))

ENTRY(cuDeviceGetCount, (int *count))
ENTRY(cuDeviceGet, (CUdevice * device, int ordinal))
ENTRY(cuDeviceGetName, (char *name, int len, CUdevice device))
ENTRY(cuDeviceGetUuid, (CUuuid * uuid, CUdevice device))
OPTIONAL(cuDeviceGetUuid_v2, (CUuuid * uuid, CUdevice device))
ENTRY(cuDeviceGetPCIBusId, (char *id, int len, CUdevice device))
ENTRY(cuDeviceGetAttribute, (int *value, CUdevice_attribute attribute, CUdevice device))
ENTRY(cuDeviceTotalMem_v2, (size_t * bytes, CUdevice device))
ENTRY(cuDeviceCanAccessPeer, (int *can, CUdevice device, CUdevice peer))

ENTRY(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))
ENTRY(cuDevicePrimaryCtxRelease_v2, (CUdevice device))
ENTRY(cuCtxGetCurrent, (CUcontext * context))
ENTRY(cuCtxSetCurrent, (CUcontext context))
ENTRY(cuCtxEnablePeerAccess, (CUcontext peer, unsigned int flags))

ENTRY(cuMemAlloc_v2, (CUdeviceptr * address, size_t bytes))
ENTRY(cuMemFree_v2, (CUdeviceptr address))
ENTRY(cuMemAllocManaged, (CUdeviceptr * address, size_t bytes, unsigned int flags))
ENTRY(cuMemHostAlloc, (void **address, size_t bytes, unsigned int flags))
ENTRY(cuMemFreeHost, (void *address))
ENTRY(cuMemGetInfo_v2, (size_t * available, size_t *total))
ENTRY(cuPointerGetAttributes, (unsigned int n, CUpointer_attribute *attributes, void **data, CUdeviceptr address))

ENTRY(cuMemcpyAsync, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream))
ENTRY(cuMemsetD8Async, (CUdeviceptr dst, unsigned char value, size_t bytes, CUstream stream))
ENTRY(cuMemsetD32Async, (CUdeviceptr dst, unsigned int value, size_t words, CUstream stream))

ENTRY(cuStreamCreate, (CUstream * stream, unsigned int flags))
ENTRY(cuStreamDestroy_v2, (CUstream stream))
ENTRY(cuStreamQuery, (CUstream stream))
ENTRY(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned int flags))
ENTRY(cuEventCreate, (CUevent * event, unsigned int flags))
ENTRY(cuEventDestroy_v2, (CUevent event))
ENTRY(cuEventRecord, (CUevent event, CUstream stream))
ENTRY(cuEventQuery, (CUevent event))

ENTRY(cuModuleLoadData, (CUmodule * module, const void *image))
ENTRY(cuModuleUnload, (CUmodule module))
ENTRY(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name))
ENTRY(cuLaunchKernel,
      (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,
       unsigned int block_y, unsigned int block_z, unsigned int shared, CUstream stream, void **parameters, void **extra))

#undef ENTRY
#undef OPTIONAL
