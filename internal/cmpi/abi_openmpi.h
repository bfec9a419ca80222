// The binary interface of Open MPI 3 to 5: handles are pointers, and predefined
// handles are the addresses of exported symbols. abi_test.go compares every
// value with the mpi.h that is installed.
#include <stddef.h>
#include <stdint.h>

typedef struct ompi_communicator_t *MPI_Comm;
typedef struct ompi_datatype_t *MPI_Datatype;
typedef struct ompi_request_t *MPI_Request;
typedef struct ompi_message_t *MPI_Message;
typedef struct ompi_errhandler_t *MPI_Errhandler;
typedef struct ompi_info_t *MPI_Info;
typedef void MPI_Comm_errhandler_function(MPI_Comm *, int *, ...);
typedef ptrdiff_t MPI_Aint;
typedef long long MPI_Count;

typedef struct ompi_status_public_t {
  int MPI_SOURCE;
  int MPI_TAG;
  int MPI_ERROR;
  int _cancelled;
  size_t _ucount;
} MPI_Status;

// What MPI_Get_elements_x says for MPI_BYTE, without the call; abi_test.go
// compares the two.
static inline int64_t status_bytes(const MPI_Status *s) { return (int64_t)s->_ucount; }

// Predefined handles: PREDEFINED(name, type, exported symbol).
#define PREDEFINED_HANDLES(PREDEFINED)                                                                                 \
  PREDEFINED(MPI_COMM_WORLD, MPI_Comm, ompi_mpi_comm_world)                                                            \
  PREDEFINED(MPI_COMM_SELF, MPI_Comm, ompi_mpi_comm_self)                                                              \
  PREDEFINED(MPI_COMM_NULL, MPI_Comm, ompi_mpi_comm_null)                                                              \
  PREDEFINED(MPI_BYTE, MPI_Datatype, ompi_mpi_byte)                                                                    \
  PREDEFINED(MPI_REQUEST_NULL, MPI_Request, ompi_request_null)                                                         \
  PREDEFINED(MPI_MESSAGE_NULL, MPI_Message, ompi_message_null)                                                         \
  PREDEFINED(MPI_MESSAGE_NO_PROC, MPI_Message, ompi_message_no_proc)                                                   \
  PREDEFINED(MPI_ERRORS_RETURN, MPI_Errhandler, ompi_mpi_errors_return)                                                \
  PREDEFINED(MPI_INFO_NULL, MPI_Info, ompi_mpi_info_null)

#define MPI_COMM_WORLD predefined.MPI_COMM_WORLD_
#define MPI_COMM_SELF predefined.MPI_COMM_SELF_
#define MPI_COMM_NULL predefined.MPI_COMM_NULL_
#define MPI_BYTE predefined.MPI_BYTE_
#define MPI_REQUEST_NULL predefined.MPI_REQUEST_NULL_
#define MPI_MESSAGE_NULL predefined.MPI_MESSAGE_NULL_
#define MPI_MESSAGE_NO_PROC predefined.MPI_MESSAGE_NO_PROC_
#define MPI_ERRORS_RETURN predefined.MPI_ERRORS_RETURN_
#define MPI_INFO_NULL predefined.MPI_INFO_NULL_

#define MPI_STATUS_IGNORE ((MPI_Status *)0)
#define MPI_STATUSES_IGNORE ((MPI_Status *)0)

enum {
  MPI_ANY_SOURCE = -1,
  MPI_PROC_NULL = -2,
  MPI_ANY_TAG = -1,
  MPI_UNDEFINED = -32766,
  MPI_TAG_UB = 0,
  MPI_COMM_TYPE_SHARED = 0,
  MPI_THREAD_SINGLE = 0,
  MPI_THREAD_FUNNELED = 1,
  MPI_THREAD_SERIALIZED = 2,
  MPI_THREAD_MULTIPLE = 3,
  MPI_MAX_ERROR_STRING = 256,
  MPI_MAX_LIBRARY_VERSION_STRING = 256,

  MPI_SUCCESS = 0,
  MPI_ERR_BUFFER = 1,
  MPI_ERR_COUNT = 2,
  MPI_ERR_TYPE = 3,
  MPI_ERR_TAG = 4,
  MPI_ERR_COMM = 5,
  MPI_ERR_RANK = 6,
  MPI_ERR_REQUEST = 7,
  MPI_ERR_ROOT = 8,
  MPI_ERR_GROUP = 9,
  MPI_ERR_OP = 10,
  MPI_ERR_ARG = 13,
  MPI_ERR_UNKNOWN = 14,
  MPI_ERR_TRUNCATE = 15,
  MPI_ERR_OTHER = 16,
  MPI_ERR_INTERN = 17,
  MPI_ERR_IN_STATUS = 18,
  MPI_ERR_PENDING = 19,
  MPI_ERR_KEYVAL = 36,
  MPI_ERR_NO_MEM = 39,
};
