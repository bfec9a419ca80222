// The C loops that our own figures are measured against, over the same loaded
// MPI and in the same process. They follow the OSU micro-benchmarks: latency is
// blocking MPI_Send/MPI_Recv; bandwidth is a window of MPI_Isend against a
// window of posted MPI_Irecv, then a 4-byte answer. The collectives are the
// blocking ones, on all ranks: MPI_Bcast from rank 0, MPI_Allreduce of doubles
// (MPI_SUM), MPI_Alltoall of as many bytes for each rank.

#define DO(call)                                                                                                       \
  if ((rc = mpi.call) != MPI_SUCCESS) goto out

static int bench(const m4g_bench *b, double *seconds) {
  enum { TAG = 1, BACK = 2, ANSWER = 3 };
  MPI_Comm comm = MPI_COMM_WORLD;
  int rc = MPI_SUCCESS, n = (int)b->size, peer = b->peer, both = b->mode == M4G_BENCH_BIBANDWIDTH;
  MPI_Request *r = malloc(2 * (b->window + 1) * sizeof(MPI_Request));
  struct timespec from, to;
  if (r == NULL) return MPI_ERR_NO_MEM;
  clock_gettime(CLOCK_MONOTONIC, &from);
  for (int i = 0; b->mode == M4G_BENCH_BARRIER && i < b->iterations; i++) DO(Barrier(comm));
  for (int i = 0; b->mode == M4G_BENCH_BCAST && i < b->iterations; i++) DO(Bcast(b->sendbuf, n, MPI_BYTE, 0, comm));
  for (int i = 0; b->mode == M4G_BENCH_ALLREDUCE && i < b->iterations; i++)
    DO(Allreduce(b->sendbuf, b->recvbuf, n / 8, MPI_DOUBLE, MPI_SUM, comm));
  for (int i = 0; b->mode == M4G_BENCH_ALLTOALL && i < b->iterations; i++)
    DO(Alltoall(b->sendbuf, n, MPI_BYTE, b->recvbuf, n, MPI_BYTE, comm));
  for (int i = 0; b->mode == M4G_BENCH_LATENCY && i < b->iterations; i++) {
    if (b->sender) {
      DO(Send(b->sendbuf, n, MPI_BYTE, peer, TAG, comm));
      DO(Recv(b->recvbuf, n, MPI_BYTE, peer, TAG, comm, MPI_STATUS_IGNORE));
    } else {
      DO(Recv(b->recvbuf, n, MPI_BYTE, peer, TAG, comm, MPI_STATUS_IGNORE));
      DO(Send(b->sendbuf, n, MPI_BYTE, peer, TAG, comm));
    }
  }
  for (int i = 0; (b->mode == M4G_BENCH_BANDWIDTH || both) && i < b->iterations; i++) {
    int posted = 0, mine = b->sender ? TAG : BACK, theirs = b->sender ? BACK : TAG;
    char answer[4] = {0};
    if (both || !b->sender)
      for (int w = 0; w < b->window; w++) DO(Irecv(b->recvbuf, n, MPI_BYTE, peer, theirs, comm, &r[posted++]));
    if (both || b->sender)
      for (int w = 0; w < b->window; w++) DO(Isend(b->sendbuf, n, MPI_BYTE, peer, mine, comm, &r[posted++]));
    DO(Waitall(posted, r, MPI_STATUSES_IGNORE));
    if (both) continue;
    if (b->sender) {
      DO(Recv(answer, 4, MPI_BYTE, peer, ANSWER, comm, MPI_STATUS_IGNORE));
    } else {
      DO(Send(answer, 4, MPI_BYTE, peer, ANSWER, comm));
    }
  }
  clock_gettime(CLOCK_MONOTONIC, &to);
  *seconds = (to.tv_sec - from.tv_sec) + 1e-9 * (to.tv_nsec - from.tv_nsec);
out:
  free(r);
  return rc;
}
#undef DO
