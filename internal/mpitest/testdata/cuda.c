// Two ranks that give MPI the addresses of device memory, in every direction between
// device and host, and call nothing of the driver between that themselves. It counts
// wrong bytes, and prints "right" if there are none.
#include <cuda.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call)                                                                                                    \
  do {                                                                                                                 \
    int result = (int)(call);                                                                                          \
    if (result != 0) {                                                                                                 \
      fprintf(stderr, "cuda.c:%d: %s: %d\n", __LINE__, #call, result);                                                 \
      MPI_Abort(MPI_COMM_WORLD, 9);                                                                                    \
    }                                                                                                                  \
  } while (0)

static unsigned char byte(size_t i, int tag) { return (unsigned char)(i * 13 + (i >> 8) + (size_t)tag * 31); }

int main(int argc, char **argv) {
  static const size_t sizes[] = {0, 1, 255, 4095, 4097, 65536, 131073, (1 << 20) + 1, 16 << 20};
  static const struct {
    int send, receive; // from and into device memory
  } directions[] = {{1, 1}, {1, 0}, {0, 1}};
  CUcontext ctx;
  CHECK(cuInit(0));
  CHECK(cuDevicePrimaryCtxRetain(&ctx, 0));
  CHECK(cuCtxSetCurrent(ctx));
  int rank, tag = 0;
  long wrong = 0;
  CHECK(MPI_Init(&argc, &argv));
  CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  for (size_t d = 0; d < sizeof directions / sizeof *directions; d++)
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++, tag++) {
      size_t n = sizes[s];
      int device = rank == 0 ? directions[d].send : directions[d].receive;
      unsigned char *host = malloc(n + 1);
      CUdeviceptr memory;
      CHECK(cuMemAlloc(&memory, n + 1));
      void *buf = device ? (void *)memory : host;
      if (rank == 0) {
        for (size_t i = 0; i < n; i++) host[i] = byte(i, tag);
        if (device) CHECK(cuMemcpyHtoD(memory, host, n));
        CHECK(MPI_Send(buf, (int)n, MPI_BYTE, 1, tag, MPI_COMM_WORLD));
      } else {
        memset(host, 0, n + 1);
        CHECK(MPI_Recv(buf, (int)n, MPI_BYTE, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        if (device) CHECK(cuMemcpyDtoH(host, memory, n));
        for (size_t i = 0; i < n; i++) wrong += host[i] != byte(i, tag);
      }
      CHECK(MPI_Barrier(MPI_COMM_WORLD));
      CHECK(cuMemFree(memory));
      free(host);
    }
  CHECK(MPI_Finalize());
  CHECK(cuDevicePrimaryCtxRelease(0));
  if (wrong == 0) printf("rank %d: right\n", rank);
  else printf("rank %d: %ld bytes are wrong\n", rank, wrong);
  return wrong != 0;
}
