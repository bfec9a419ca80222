// Calls that make, name and free communicators. They block, some until every
// rank of the communicator makes them.

// describe_comm fills in what the Go side needs to know of a new communicator.
static void describe_comm(m4g_comm *c, MPI_Comm comm) {
  c->handle = 0;
  if (comm == MPI_COMM_NULL) return;
  c->failed = "MPI_Comm_rank";
  if ((c->rc = mpi.Comm_rank(comm, &c->rank)) != MPI_SUCCESS) return;
  c->failed = "MPI_Comm_size";
  if ((c->rc = mpi.Comm_size(comm, &c->size)) != MPI_SUCCESS) return;
  c->handle = from_comm(comm);
}

static void split(m4g_comm *c, uint64_t from, int how, int color, int key) {
  MPI_Comm comm = MPI_COMM_NULL;
  if (color < 0) color = MPI_UNDEFINED;
  if (how == M4G_SPLIT_SHARED) {
    c->failed = "MPI_Comm_split_type";
    c->rc = mpi.Comm_split_type(to_comm(from), MPI_COMM_TYPE_SHARED, key, MPI_INFO_NULL, &comm);
  } else {
    c->failed = "MPI_Comm_split";
    c->rc = mpi.Comm_split(to_comm(from), color, key, &comm);
  }
  if (c->rc != MPI_SUCCESS) return;
  if (comm != MPI_COMM_NULL) {
    c->failed = "MPI_Comm_set_errhandler";
    if ((c->rc = mpi.Comm_set_errhandler(comm, errors_return)) != MPI_SUCCESS) return;
  }
  describe_comm(c, comm);
}

#if defined COMM_HANDLES_BY_C2F
static MPI_Comm f2c(int handle) { return mpi.Comm_f2c(handle); }
static int to_fortran(uint64_t comm) { return mpi.Comm_c2f(to_comm(comm)); }
#elif defined COMM_HANDLES_BY_TOINT
static MPI_Comm f2c(int handle) { return mpi.Comm_fromint(handle); }
static int to_fortran(uint64_t comm) { return mpi.Comm_toint(to_comm(comm)); }
#else // it is that int
static MPI_Comm f2c(int handle) { return (MPI_Comm)handle; }
static int to_fortran(uint64_t comm) { return (int)to_comm(comm); }
#endif

static void from_fortran(m4g_comm *c, int handle) {
  MPI_Comm comm = f2c(handle);
  int inter = 0;
  c->failed = "MPI_Comm_f2c";
  c->rc = MPI_ERR_COMM;
  if ((uintptr_t)comm == 0 || comm == MPI_COMM_NULL) return;
  c->failed = "MPI_Comm_test_inter";
  if ((c->rc = mpi.Comm_test_inter(comm, &inter)) != MPI_SUCCESS) return;
  if (inter) {
    c->failed = "an intercommunicator is not supported";
    c->rc = MPI_ERR_COMM;
    return;
  }
  describe_comm(c, comm);
}

static int comm_free(uint64_t handle) {
  MPI_Comm comm = to_comm(handle);
  return mpi.Comm_free(&comm);
}

static int set_name(uint64_t comm, const char *name) {
  char cut[MPI_MAX_OBJECT_NAME] = "";
  strncpy(cut, name, sizeof cut - 1);
  return mpi.Comm_set_name(to_comm(comm), cut);
}

static int get_name(uint64_t comm, char *name, int size) {
  char full[MPI_MAX_OBJECT_NAME + 1] = "";
  int n = 0, rc = mpi.Comm_get_name(to_comm(comm), full, &n);
  strncpy(name, full, size - 1);
  name[size - 1] = 0;
  return rc;
}
