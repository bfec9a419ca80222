// What abi_test.go compares with the installed mpi.h: C a constant, S the size
// of a type, O the offset of a field of MPI_Status.
#define COMMON_CONSTANTS(C, S, O)                                                                                      \
  C(MPI_ANY_SOURCE) C(MPI_PROC_NULL) C(MPI_ANY_TAG) C(MPI_UNDEFINED) C(MPI_TAG_UB) C(MPI_COMM_TYPE_SHARED)             \
  C(MPI_THREAD_SINGLE) C(MPI_THREAD_FUNNELED) C(MPI_THREAD_SERIALIZED) C(MPI_THREAD_MULTIPLE) C(MPI_SUCCESS)           \
  C(MPI_ERR_BUFFER) C(MPI_ERR_COUNT) C(MPI_ERR_TYPE) C(MPI_ERR_TAG) C(MPI_ERR_COMM) C(MPI_ERR_RANK)                    \
  C(MPI_ERR_REQUEST) C(MPI_ERR_ROOT) C(MPI_ERR_GROUP) C(MPI_ERR_OP) C(MPI_ERR_ARG) C(MPI_ERR_UNKNOWN)                  \
  C(MPI_ERR_TRUNCATE) C(MPI_ERR_OTHER) C(MPI_ERR_INTERN) C(MPI_ERR_IN_STATUS) C(MPI_ERR_PENDING)                       \
  C(MPI_ERR_NO_MEM) C(MPI_ERR_KEYVAL)                                                                                  \
  C(MPI_MAX_ERROR_STRING) C(MPI_MAX_LIBRARY_VERSION_STRING) C(MPI_MAX_OBJECT_NAME) C(MPI_IN_PLACE) C(MPI_BOTTOM)       \
  C(MPI_STATUS_IGNORE) C(MPI_STATUSES_IGNORE)                                                                          \
  S(MPI_Comm) S(MPI_Datatype) S(MPI_Request) S(MPI_Message) S(MPI_Errhandler) S(MPI_Info) S(MPI_Op)                    \
  S(MPI_Aint) S(MPI_Count)                                                                                             \
  S(MPI_Status) O(MPI_SOURCE) O(MPI_TAG) O(MPI_ERROR)
