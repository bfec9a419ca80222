// The C loops that our own figures are measured against, over the same loaded
// MPI and in the same process. They follow the OSU micro-benchmarks: latency is
// blocking MPI_Send/MPI_Recv; bandwidth is a window of MPI_Isend against a
// window of posted MPI_Irecv, then a 4-byte answer. The collectives are the
// blocking ones, or the non-blocking ones and MPI_Waitall, on all ranks: MPI_Bcast from rank 0, MPI_Allreduce of doubles
// (MPI_SUM), MPI_Alltoall of as many bytes for each rank.

#define DO(call)                                                                                                       \
  do {                                                                                                                 \
    if ((rc = mpi.call) != MPI_SUCCESS) goto out;                                                                      \
  } while (0)

// frames_c moves one message of many buffers by the plan of b->mode: each side
// knows the lengths, and the datatype and the buffer to pack into are there.
static int frames_c(const m4g_bench *b, int sends, char *packed, MPI_Datatype type, MPI_Request *r) {
  enum { TAG = 1, HEADER = 4 };
  MPI_Comm comm = MPI_COMM_WORLD;
  int rc = MPI_SUCCESS, n = (int)b->size, peer = b->peer, total = n * b->frames;
  char *buf = sends ? b->sendbuf : b->recvbuf;
  int64_t header = n;
  switch (b->mode) {
  case M4G_BENCH_FRAMES_PACKED:
    if (!sends) DO(Recv(packed, total, MPI_BYTE, peer, TAG, comm, MPI_STATUS_IGNORE));
    for (int i = 0; i < b->frames; i++) {
      if (sends) memcpy(packed + (int64_t)i * n, buf + i * b->stride, n);
      else memcpy(buf + i * b->stride, packed + (int64_t)i * n, n);
    }
    if (sends) DO(Send(packed, total, MPI_BYTE, peer, TAG, comm));
    break;
  case M4G_BENCH_FRAMES_REQUESTS:
    if (sends) DO(Isend(&header, 8, MPI_BYTE, peer, HEADER, comm, &r[b->frames]));
    else DO(Recv(&header, 8, MPI_BYTE, peer, HEADER, comm, MPI_STATUS_IGNORE));
    for (int i = 0; i < b->frames; i++) {
      if (sends) DO(Isend(buf + i * b->stride, n, MPI_BYTE, peer, TAG, comm, &r[i]));
      else DO(Irecv(buf + i * b->stride, n, MPI_BYTE, peer, TAG, comm, &r[i]));
    }
    DO(Waitall(b->frames + sends, r, MPI_STATUSES_IGNORE));
    break;
  case M4G_BENCH_FRAMES_DATATYPE:
    if (sends) DO(Send(buf, 1, type, peer, TAG, comm));
    else DO(Recv(buf, 1, type, peer, TAG, comm, MPI_STATUS_IGNORE));
    break;
  default: // contiguous
    if (sends) DO(Send(buf, total, MPI_BYTE, peer, TAG, comm));
    else DO(Recv(buf, total, MPI_BYTE, peer, TAG, comm, MPI_STATUS_IGNORE));
  }
out:
  return rc;
}

static int bench_frames(const m4g_bench *b, double *seconds) {
  int rc = MPI_ERR_NO_MEM, *lengths = malloc(b->frames * sizeof *lengths);
  MPI_Aint *at = malloc(b->frames * sizeof *at);
  MPI_Request *r = malloc((b->frames + 1) * sizeof *r);
  char *packed = b->mode == M4G_BENCH_FRAMES_PACKED ? malloc(b->frames * b->size + 1) : malloc(1);
  struct timespec from, to;
  if (lengths == NULL || at == NULL || r == NULL || packed == NULL) goto out;
  for (int i = 0; i < b->frames; i++) {
    lengths[i] = (int)b->size;
    at[i] = i * b->stride;
  }
  MPI_Datatype type;
  DO(Type_create_hindexed(b->frames, lengths, at, MPI_BYTE, &type));
  DO(Type_commit(&type));
  clock_gettime(CLOCK_MONOTONIC, &from);
  for (int i = 0; i < b->iterations; i++) {
    if ((rc = frames_c(b, b->sender, packed, type, r)) != MPI_SUCCESS) goto out;
    if ((rc = frames_c(b, !b->sender, packed, type, r)) != MPI_SUCCESS) goto out;
  }
  clock_gettime(CLOCK_MONOTONIC, &to);
  *seconds = (to.tv_sec - from.tv_sec) + 1e-9 * (to.tv_nsec - from.tv_nsec);
  DO(Type_free(&type));
out:
  free(lengths);
  free(at);
  free(r);
  free(packed);
  return rc;
}

static int bench(const m4g_bench *b, double *seconds) {
  if (b->mode >= M4G_BENCH_FRAMES_PACKED) return bench_frames(b, seconds);
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
  for (int i = 0; b->mode == M4G_BENCH_IBCAST && i < b->iterations; i++) {
    DO(Ibcast(b->sendbuf, n, MPI_BYTE, 0, comm, r));
    DO(Waitall(1, r, MPI_STATUSES_IGNORE));
  }
  for (int i = 0; b->mode == M4G_BENCH_IALLREDUCE && i < b->iterations; i++) {
    DO(Iallreduce(b->sendbuf, b->recvbuf, n / 8, MPI_DOUBLE, MPI_SUM, comm, r));
    DO(Waitall(1, r, MPI_STATUSES_IGNORE));
  }
  for (int i = 0; b->mode == M4G_BENCH_IALLTOALL && i < b->iterations; i++) {
    DO(Ialltoall(b->sendbuf, n, MPI_BYTE, b->recvbuf, n, MPI_BYTE, comm, r));
    DO(Waitall(1, r, MPI_STATUSES_IGNORE));
  }
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
