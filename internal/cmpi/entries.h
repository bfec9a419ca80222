// Every MPI function that the shim calls, with the signature that the standard
// gives it: ENTRY(return type, name without MPI_, parameters). abi_test.go
// compiles this list against the mpi.h that is installed, so it cannot drift.
//
// OPTIONAL entries (MPI 4) may be missing; their pointer is then NULL.
#ifndef OPTIONAL
#define OPTIONAL ENTRY
#endif

ENTRY(int, Init_thread, (int *argc, char ***argv, int required, int *provided))
ENTRY(int, Initialized, (int *flag))
ENTRY(int, Finalized, (int *flag))
ENTRY(int, Query_thread, (int *provided))
ENTRY(int, Finalize, (void))
ENTRY(int, Abort, (MPI_Comm comm, int errorcode))
ENTRY(int, Get_library_version, (char *version, int *resultlen))
ENTRY(int, Get_version, (int *version, int *subversion))
ENTRY(int, Error_class, (int errorcode, int *errorclass))
ENTRY(int, Error_string, (int errorcode, char *string, int *resultlen))

ENTRY(int, Comm_rank, (MPI_Comm comm, int *rank))
ENTRY(int, Comm_size, (MPI_Comm comm, int *size))
ENTRY(int, Comm_dup, (MPI_Comm comm, MPI_Comm *newcomm))
ENTRY(int, Comm_idup, (MPI_Comm comm, MPI_Comm *newcomm, MPI_Request *request))
ENTRY(int, Comm_free, (MPI_Comm *comm))
ENTRY(int, Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm *newcomm))
ENTRY(int, Comm_split_type, (MPI_Comm comm, int split_type, int key, MPI_Info info, MPI_Comm *newcomm))
ENTRY(int, Comm_create_errhandler, (MPI_Comm_errhandler_function *function, MPI_Errhandler *errhandler))
ENTRY(int, Comm_set_errhandler, (MPI_Comm comm, MPI_Errhandler errhandler))
ENTRY(int, Comm_set_name, (MPI_Comm comm, const char *comm_name))
ENTRY(int, Comm_get_name, (MPI_Comm comm, char *comm_name, int *resultlen))
ENTRY(int, Comm_test_inter, (MPI_Comm comm, int *flag))
#if defined COMM_HANDLES_BY_C2F
ENTRY(MPI_Comm, Comm_f2c, (int comm))
ENTRY(int, Comm_c2f, (MPI_Comm comm))
#elif defined COMM_HANDLES_BY_TOINT
ENTRY(MPI_Comm, Comm_fromint, (int comm))
ENTRY(int, Comm_toint, (MPI_Comm comm))
#endif
ENTRY(int, Comm_get_attr, (MPI_Comm comm, int keyval, void *attribute_val, int *flag))
ENTRY(int, Comm_set_attr, (MPI_Comm comm, int keyval, void *attribute_val))
ENTRY(int, Comm_delete_attr, (MPI_Comm comm, int keyval))
ENTRY(int, Comm_create_keyval,
      (int (*copy)(MPI_Comm, int, void *, void *, void *, int *), int (*delete)(MPI_Comm, int, void *, void *),
       int *keyval, void *extra_state))
ENTRY(int, Comm_free_keyval, (int *keyval))
ENTRY(int, Allgather,
      (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount, MPI_Datatype recvtype,
       MPI_Comm comm))

ENTRY(int, Ibarrier, (MPI_Comm comm, MPI_Request *request))
ENTRY(int, Ibcast, (void *buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm, MPI_Request *request))
ENTRY(int, Ireduce,
      (const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op, int root, MPI_Comm comm,
       MPI_Request *request))
ENTRY(int, Iallreduce,
      (const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
       MPI_Request *request))
ENTRY(int, Iscan,
      (const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
       MPI_Request *request))
ENTRY(int, Iexscan,
      (const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
       MPI_Request *request))
ENTRY(int, Igather,
      (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount, MPI_Datatype recvtype,
       int root, MPI_Comm comm, MPI_Request *request))
ENTRY(int, Igatherv,
      (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, const int recvcounts[],
       const int displs[], MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Request *request))
ENTRY(int, Iallgather,
      (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount, MPI_Datatype recvtype,
       MPI_Comm comm, MPI_Request *request))
ENTRY(int, Iallgatherv,
      (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, const int recvcounts[],
       const int displs[], MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request))
ENTRY(int, Iscatter,
      (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount, MPI_Datatype recvtype,
       int root, MPI_Comm comm, MPI_Request *request))
ENTRY(int, Iscatterv,
      (const void *sendbuf, const int sendcounts[], const int displs[], MPI_Datatype sendtype, void *recvbuf,
       int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Request *request))
ENTRY(int, Ialltoall,
      (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount, MPI_Datatype recvtype,
       MPI_Comm comm, MPI_Request *request))
ENTRY(int, Ialltoallv,
      (const void *sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype, void *recvbuf,
       const int recvcounts[], const int rdispls[], MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request))

ENTRY(int, Isend,
      (const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Request *request))
ENTRY(int, Issend,
      (const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Request *request))
ENTRY(int, Irecv,
      (void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Request *request))
ENTRY(int, Iprobe, (int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status))
ENTRY(int, Improbe, (int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status))
ENTRY(int, Imrecv, (void *buf, int count, MPI_Datatype datatype, MPI_Message *message, MPI_Request *request))
ENTRY(int, Test, (MPI_Request * request, int *flag, MPI_Status *status))
ENTRY(int, Request_get_status, (MPI_Request request, int *flag, MPI_Status *status))
ENTRY(int, Testall, (int count, MPI_Request requests[], int *flag, MPI_Status statuses[]))
ENTRY(int, Testsome,
      (int incount, MPI_Request requests[], int *outcount, int indices[], MPI_Status statuses[]))
ENTRY(int, Get_elements_x, (const MPI_Status *status, MPI_Datatype datatype, MPI_Count *count))
ENTRY(int, Cancel, (MPI_Request * request))
ENTRY(int, Test_cancelled, (const MPI_Status *status, int *flag))
ENTRY(int, Type_contiguous, (int count, MPI_Datatype oldtype, MPI_Datatype *newtype))
ENTRY(int, Type_create_hindexed,
      (int count, const int blocklengths[], const MPI_Aint displacements[], MPI_Datatype oldtype,
       MPI_Datatype *newtype))
ENTRY(int, Type_create_struct,
      (int count, const int blocklengths[], const MPI_Aint displacements[], const MPI_Datatype types[],
       MPI_Datatype *newtype))
ENTRY(int, Type_commit, (MPI_Datatype * datatype))
ENTRY(int, Type_free, (MPI_Datatype * datatype))

OPTIONAL(int, Isend_c,
         (const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
          MPI_Request *request))
OPTIONAL(int, Issend_c,
         (const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
          MPI_Request *request))
OPTIONAL(int, Irecv_c,
         (void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
          MPI_Request *request))
OPTIONAL(int, Imrecv_c,
         (void *buf, MPI_Count count, MPI_Datatype datatype, MPI_Message *message, MPI_Request *request))
OPTIONAL(int, Igatherv_c,
         (const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf, const MPI_Count recvcounts[],
          const MPI_Aint displs[], MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Request *request))
OPTIONAL(int, Iallgatherv_c,
         (const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf, const MPI_Count recvcounts[],
          const MPI_Aint displs[], MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request))
OPTIONAL(int, Iscatterv_c,
         (const void *sendbuf, const MPI_Count sendcounts[], const MPI_Aint displs[], MPI_Datatype sendtype,
          void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Request *request))
OPTIONAL(int, Ialltoallv_c,
         (const void *sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[], MPI_Datatype sendtype,
          void *recvbuf, const MPI_Count recvcounts[], const MPI_Aint rdispls[], MPI_Datatype recvtype, MPI_Comm comm,
          MPI_Request *request))

// The C reference loops of bench.h.
ENTRY(int, Send, (const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm))
ENTRY(int, Recv,
      (void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Status *status))
ENTRY(int, Waitall, (int count, MPI_Request requests[], MPI_Status statuses[]))
ENTRY(int, Barrier, (MPI_Comm comm))
ENTRY(int, Bcast, (void *buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm))
ENTRY(int, Allreduce,
      (const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm))
ENTRY(int, Alltoall,
      (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount, MPI_Datatype recvtype,
       MPI_Comm comm))

#undef ENTRY
#undef OPTIONAL
