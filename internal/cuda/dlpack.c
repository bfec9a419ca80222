#include "dlpack.h"

#include <stdlib.h>

extern void m4g_dl_released(uint64_t owner); // dlpack.go

typedef struct {
  m4g_dl_managed managed;
  int64_t shape, stride;
  uint64_t owner;
} exported;

static void release(m4g_dl_managed *managed) {
  exported *e = (exported *)managed;
  uint64_t owner = e->owner;
  free(e);
  m4g_dl_released(owner);
}

m4g_dl_managed *m4g_dl_export(uint64_t data, int64_t n, int32_t type, int32_t id, uint64_t owner) {
  exported *e = calloc(1, sizeof *e);
  if (e == NULL) return NULL;
  e->shape = n;
  e->stride = 1;
  e->owner = owner;
  m4g_dl_tensor *t = &e->managed.tensor;
  t->data = (void *)(uintptr_t)data;
  t->device.type = type;
  t->device.id = id;
  t->ndim = 1;
  t->dtype.code = M4G_DL_UINT;
  t->dtype.bits = 8;
  t->dtype.lanes = 1;
  t->shape = &e->shape;
  t->strides = &e->stride;
  e->managed.deleter = release;
  return &e->managed;
}

void m4g_dl_delete(uint64_t tensor) {
  m4g_dl_managed *m = (m4g_dl_managed *)(uintptr_t)tensor;
  if (m->deleter != NULL) m->deleter(m);
}
