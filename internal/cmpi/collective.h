// Collective operations, in their non-blocking form. Their arguments lie in
// op->scratch; broadcasts and reductions of more elements than an int
// counts come in pieces.

static MPI_Datatype to_type(int type) {
  switch (type) {
#define CASE(name)                                                                                                     \
  case M4G_TYPE_##name: return MPI_##name;
    M4G_TYPES(CASE)
#undef CASE
  }
  return MPI_BYTE;
}

static MPI_Op to_op(int op) {
  switch (op) {
#define CASE(name)                                                                                                     \
  case M4G_OP_##name: return MPI_##name;
    M4G_OPS(CASE)
#undef CASE
  }
  return MPI_SUM;
}

static inline void *pointer(uint64_t address) { return (void *)(uintptr_t)address; }

static int post_reduction(const m4g_op *o, const m4g_coll *c, MPI_Request *r) {
  const void *send = c->in_place ? MPI_IN_PLACE : pointer(o->addr);
  void *recv = pointer(c->recv);
  int n = (int)c->count;
  MPI_Datatype type = to_type(c->type);
  MPI_Op op = to_op(c->op);
  MPI_Comm comm = to_comm(o->comm);
  switch (o->kind) {
  case M4G_REDUCE: return mpi.Ireduce(send, recv, n, type, op, c->root, comm, r);
  case M4G_ALLREDUCE: return mpi.Iallreduce(send, recv, n, type, op, comm, r);
  case M4G_SCAN: return mpi.Iscan(send, recv, n, type, op, comm, r);
  }
  return mpi.Iexscan(send, recv, n, type, op, comm, r);
}

// post_even is for operations in which every rank has as many elements.
static int post_even(const m4g_op *o, const m4g_coll *c, MPI_Request *r) {
  int rc, n = (int)c->count, large = c->count > INT_MAX, in_place = c->in_place;
  void *send = pointer(o->addr), *recv = pointer(c->recv);
  MPI_Datatype type = to_type(c->type);
  MPI_Comm comm = to_comm(o->comm);
  if (large) {
    rc = large_type(c->count * c->size, &type);
    if (rc != MPI_SUCCESS) return rc;
    n = 1;
  }
  if (in_place && o->kind == M4G_SCATTER) recv = MPI_IN_PLACE;
  else if (in_place) send = MPI_IN_PLACE;
  switch (o->kind) {
  case M4G_BCAST: rc = mpi.Ibcast(send, n, type, c->root, comm, r); break;
  case M4G_GATHER: rc = mpi.Igather(send, n, type, recv, n, type, c->root, comm, r); break;
  case M4G_ALLGATHER: rc = mpi.Iallgather(send, n, type, recv, n, type, comm, r); break;
  case M4G_SCATTER: rc = mpi.Iscatter(send, n, type, recv, n, type, c->root, comm, r); break;
  default: rc = mpi.Ialltoall(send, n, type, recv, n, type, comm, r); break;
  }
  if (large) mpi.Type_free(&type);
  return rc;
}

// post_uneven is for the operations with counts of their own for each rank.
static int post_uneven(const m4g_op *o, const m4g_coll *c, MPI_Request *r) {
  void *send = pointer(o->addr), *recv = pointer(c->recv);
  MPI_Datatype type = to_type(c->type);
  MPI_Comm comm = to_comm(o->comm);
  if (c->in_place && o->kind == M4G_SCATTERV) recv = MPI_IN_PLACE;
  else if (c->in_place) send = MPI_IN_PLACE;
  if (c->wide) {
    const MPI_Count *sendcounts = pointer(c->sendcounts), *recvcounts = pointer(c->recvcounts);
    const MPI_Aint *sdispls = pointer(c->sdispls), *rdispls = pointer(c->rdispls);
    switch (o->kind) {
    case M4G_GATHERV: return mpi.Igatherv_c(send, c->count, type, recv, recvcounts, rdispls, type, c->root, comm, r);
    case M4G_ALLGATHERV: return mpi.Iallgatherv_c(send, c->count, type, recv, recvcounts, rdispls, type, comm, r);
    case M4G_SCATTERV: return mpi.Iscatterv_c(send, sendcounts, sdispls, type, recv, c->count, type, c->root, comm, r);
    }
    return mpi.Ialltoallv_c(send, sendcounts, sdispls, type, recv, recvcounts, rdispls, type, comm, r);
  }
  const int *sendcounts = pointer(c->sendcounts), *recvcounts = pointer(c->recvcounts);
  const int *sdispls = pointer(c->sdispls), *rdispls = pointer(c->rdispls);
  int n = (int)c->count;
  switch (o->kind) {
  case M4G_GATHERV: return mpi.Igatherv(send, n, type, recv, recvcounts, rdispls, type, c->root, comm, r);
  case M4G_ALLGATHERV: return mpi.Iallgatherv(send, n, type, recv, recvcounts, rdispls, type, comm, r);
  case M4G_SCATTERV: return mpi.Iscatterv(send, sendcounts, sdispls, type, recv, n, type, c->root, comm, r);
  }
  return mpi.Ialltoallv(send, sendcounts, sdispls, type, recv, recvcounts, rdispls, type, comm, r);
}

static int wide(void) {
  return mpi.Igatherv_c != NULL && mpi.Iallgatherv_c != NULL && mpi.Iscatterv_c != NULL && mpi.Ialltoallv_c != NULL;
}

static int post_collective(const m4g_op *o, MPI_Request *r) {
  const m4g_coll *c = (const m4g_coll *)o->scratch;
  switch (o->kind) {
  case M4G_REDUCE:
  case M4G_ALLREDUCE:
  case M4G_SCAN:
  case M4G_EXSCAN: return post_reduction(o, c, r);
  case M4G_GATHERV:
  case M4G_ALLGATHERV:
  case M4G_SCATTERV:
  case M4G_ALLTOALLV: return post_uneven(o, c, r);
  }
  return post_even(o, c, r);
}
