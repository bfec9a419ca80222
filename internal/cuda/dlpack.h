// The layout of a DLPack tensor (its version 0.x struct DLManagedTensor, the one
// in capsules named "dltensor"), and what is done with one.
#ifndef MPI4GO_DLPACK_H
#define MPI4GO_DLPACK_H

#include <stdint.h>

typedef struct {
  void *data;
  struct {
    int32_t type, id;
  } device;
  int32_t ndim;
  struct {
    uint8_t code, bits;
    uint16_t lanes;
  } dtype;
  int64_t *shape, *strides; // strides in elements; NULL: contiguous
  uint64_t byte_offset;
} m4g_dl_tensor;

typedef struct m4g_dl_managed {
  m4g_dl_tensor tensor;
  void *context;
  void (*deleter)(struct m4g_dl_managed *);
} m4g_dl_managed;

enum { M4G_DL_UINT = 1, M4G_DL_CUDA = 2, M4G_DL_CUDA_HOST = 3, M4G_DL_CUDA_MANAGED = 13 };

m4g_dl_managed *m4g_dl_export(uint64_t data, int64_t n, int32_t type, int32_t id, uint64_t owner);
void m4g_dl_delete(uint64_t tensor);

#endif
