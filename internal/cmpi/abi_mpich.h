// The binary interface of the MPICH ABI initiative: MPICH 3.1 to 4, MVAPICH2,
// Intel MPI, Cray MPICH. Handles are ints with fixed values. abi_test.go
// compares every value with the mpi.h that is installed.
#include <stddef.h>
#include <stdint.h>

typedef int MPI_Comm;
typedef int MPI_Datatype;
typedef int MPI_Request;
typedef int MPI_Message;
typedef int MPI_Errhandler;
typedef int MPI_Info;
typedef int MPI_Op;
typedef void MPI_Comm_errhandler_function(MPI_Comm *, int *, ...);
typedef long MPI_Aint;
typedef long long MPI_Count;

typedef struct MPI_Status {
  int count_lo;
  int count_hi_and_cancelled;
  int MPI_SOURCE;
  int MPI_TAG;
  int MPI_ERROR;
} MPI_Status;

// What MPI_Get_elements_x says for MPI_BYTE, without the call; abi_test.go
// compares the two.
static inline int64_t status_bytes(const MPI_Status *s) {
  return (int64_t)(((uint64_t)(uint32_t)s->count_hi_and_cancelled >> 1) << 32 | (uint32_t)s->count_lo);
}

#define PREDEFINED_HANDLES(PREDEFINED)

enum {
  MPI_COMM_WORLD = 0x44000000,
  MPI_COMM_SELF = 0x44000001,
  MPI_COMM_NULL = 0x04000000,
  MPI_BYTE = 0x4c00010d,
  MPI_REQUEST_NULL = 0x2c000000,
  MPI_MESSAGE_NULL = 0x2c000000,
  MPI_MESSAGE_NO_PROC = 0x6c000000,
  MPI_ERRORS_RETURN = 0x54000001,
  MPI_INFO_NULL = 0x1c000000,

  MPI_INT8_T = 0x4c000137,
  MPI_INT16_T = 0x4c000238,
  MPI_INT32_T = 0x4c000439,
  MPI_INT64_T = 0x4c00083a,
  MPI_UINT8_T = 0x4c00013b,
  MPI_UINT16_T = 0x4c00023c,
  MPI_UINT32_T = 0x4c00043d,
  MPI_UINT64_T = 0x4c00083e,
  MPI_FLOAT = 0x4c00040a,
  MPI_DOUBLE = 0x4c00080b,
  MPI_C_FLOAT_COMPLEX = 0x4c000840,
  MPI_C_DOUBLE_COMPLEX = 0x4c001041,
  MPI_2INT = 0x4c000816,
  MPI_LONG_INT = (int)0x8c000002,
  MPI_FLOAT_INT = (int)0x8c000000,
  MPI_DOUBLE_INT = (int)0x8c000001,

  MPI_MAX = 0x58000001,
  MPI_MIN = 0x58000002,
  MPI_SUM = 0x58000003,
  MPI_PROD = 0x58000004,
  MPI_LAND = 0x58000005,
  MPI_BAND = 0x58000006,
  MPI_LOR = 0x58000007,
  MPI_BOR = 0x58000008,
  MPI_LXOR = 0x58000009,
  MPI_BXOR = 0x5800000a,
  MPI_MINLOC = 0x5800000b,
  MPI_MAXLOC = 0x5800000c,

  MPI_ANY_SOURCE = -2,
  MPI_PROC_NULL = -1,
  MPI_ANY_TAG = -1,
  MPI_UNDEFINED = -32766,
  MPI_TAG_UB = 0x64400001,
  MPI_COMM_TYPE_SHARED = 1,
  MPI_THREAD_SINGLE = 0,
  MPI_THREAD_FUNNELED = 1,
  MPI_THREAD_SERIALIZED = 2,
  MPI_THREAD_MULTIPLE = 3,
  MPI_MAX_OBJECT_NAME = 128,
  MPI_MAX_ERROR_STRING = 1024, // 512 in MPICH 4.0, 1024 in later ones
  MPI_MAX_LIBRARY_VERSION_STRING = 8192,

  MPI_SUCCESS = 0,
  MPI_ERR_BUFFER = 1,
  MPI_ERR_COUNT = 2,
  MPI_ERR_TYPE = 3,
  MPI_ERR_TAG = 4,
  MPI_ERR_COMM = 5,
  MPI_ERR_RANK = 6,
  MPI_ERR_ROOT = 7,
  MPI_ERR_GROUP = 8,
  MPI_ERR_OP = 9,
  MPI_ERR_ARG = 12,
  MPI_ERR_UNKNOWN = 13,
  MPI_ERR_TRUNCATE = 14,
  MPI_ERR_OTHER = 15,
  MPI_ERR_INTERN = 16,
  MPI_ERR_IN_STATUS = 17,
  MPI_ERR_PENDING = 18,
  MPI_ERR_REQUEST = 19,
  MPI_ERR_NO_MEM = 34,
  MPI_ERR_KEYVAL = 48,
};

#define MPI_BOTTOM ((void *)0)
#define MPI_IN_PLACE ((void *)-1)
#define MPI_STATUS_IGNORE ((MPI_Status *)1)
#define MPI_STATUSES_IGNORE ((MPI_Status *)1)
