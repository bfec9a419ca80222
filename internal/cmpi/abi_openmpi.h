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
typedef struct ompi_op_t *MPI_Op;
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
  PREDEFINED(MPI_INFO_NULL, MPI_Info, ompi_mpi_info_null)                                                              \
  PREDEFINED(MPI_INT8_T, MPI_Datatype, ompi_mpi_int8_t)                                                                \
  PREDEFINED(MPI_INT16_T, MPI_Datatype, ompi_mpi_int16_t)                                                              \
  PREDEFINED(MPI_INT32_T, MPI_Datatype, ompi_mpi_int32_t)                                                              \
  PREDEFINED(MPI_INT64_T, MPI_Datatype, ompi_mpi_int64_t)                                                              \
  PREDEFINED(MPI_UINT8_T, MPI_Datatype, ompi_mpi_uint8_t)                                                              \
  PREDEFINED(MPI_UINT16_T, MPI_Datatype, ompi_mpi_uint16_t)                                                            \
  PREDEFINED(MPI_UINT32_T, MPI_Datatype, ompi_mpi_uint32_t)                                                            \
  PREDEFINED(MPI_UINT64_T, MPI_Datatype, ompi_mpi_uint64_t)                                                            \
  PREDEFINED(MPI_FLOAT, MPI_Datatype, ompi_mpi_float)                                                                  \
  PREDEFINED(MPI_DOUBLE, MPI_Datatype, ompi_mpi_double)                                                                \
  PREDEFINED(MPI_C_FLOAT_COMPLEX, MPI_Datatype, ompi_mpi_c_float_complex)                                              \
  PREDEFINED(MPI_C_DOUBLE_COMPLEX, MPI_Datatype, ompi_mpi_c_double_complex)                                            \
  PREDEFINED(MPI_2INT, MPI_Datatype, ompi_mpi_2int)                                                                    \
  PREDEFINED(MPI_LONG_INT, MPI_Datatype, ompi_mpi_long_int)                                                            \
  PREDEFINED(MPI_FLOAT_INT, MPI_Datatype, ompi_mpi_float_int)                                                          \
  PREDEFINED(MPI_DOUBLE_INT, MPI_Datatype, ompi_mpi_double_int)                                                        \
  PREDEFINED(MPI_MAX, MPI_Op, ompi_mpi_op_max)                                                                         \
  PREDEFINED(MPI_MIN, MPI_Op, ompi_mpi_op_min)                                                                         \
  PREDEFINED(MPI_SUM, MPI_Op, ompi_mpi_op_sum)                                                                         \
  PREDEFINED(MPI_PROD, MPI_Op, ompi_mpi_op_prod)                                                                       \
  PREDEFINED(MPI_LAND, MPI_Op, ompi_mpi_op_land)                                                                       \
  PREDEFINED(MPI_BAND, MPI_Op, ompi_mpi_op_band)                                                                       \
  PREDEFINED(MPI_LOR, MPI_Op, ompi_mpi_op_lor)                                                                         \
  PREDEFINED(MPI_BOR, MPI_Op, ompi_mpi_op_bor)                                                                         \
  PREDEFINED(MPI_LXOR, MPI_Op, ompi_mpi_op_lxor)                                                                       \
  PREDEFINED(MPI_BXOR, MPI_Op, ompi_mpi_op_bxor)                                                                       \
  PREDEFINED(MPI_MINLOC, MPI_Op, ompi_mpi_op_minloc)                                                                   \
  PREDEFINED(MPI_MAXLOC, MPI_Op, ompi_mpi_op_maxloc)

#define MPI_COMM_WORLD predefined.MPI_COMM_WORLD_
#define MPI_COMM_SELF predefined.MPI_COMM_SELF_
#define MPI_COMM_NULL predefined.MPI_COMM_NULL_
#define MPI_BYTE predefined.MPI_BYTE_
#define MPI_REQUEST_NULL predefined.MPI_REQUEST_NULL_
#define MPI_MESSAGE_NULL predefined.MPI_MESSAGE_NULL_
#define MPI_MESSAGE_NO_PROC predefined.MPI_MESSAGE_NO_PROC_
#define MPI_ERRORS_RETURN predefined.MPI_ERRORS_RETURN_
#define MPI_INFO_NULL predefined.MPI_INFO_NULL_
#define MPI_INT8_T predefined.MPI_INT8_T_
#define MPI_INT16_T predefined.MPI_INT16_T_
#define MPI_INT32_T predefined.MPI_INT32_T_
#define MPI_INT64_T predefined.MPI_INT64_T_
#define MPI_UINT8_T predefined.MPI_UINT8_T_
#define MPI_UINT16_T predefined.MPI_UINT16_T_
#define MPI_UINT32_T predefined.MPI_UINT32_T_
#define MPI_UINT64_T predefined.MPI_UINT64_T_
#define MPI_FLOAT predefined.MPI_FLOAT_
#define MPI_DOUBLE predefined.MPI_DOUBLE_
#define MPI_C_FLOAT_COMPLEX predefined.MPI_C_FLOAT_COMPLEX_
#define MPI_C_DOUBLE_COMPLEX predefined.MPI_C_DOUBLE_COMPLEX_
#define MPI_2INT predefined.MPI_2INT_
#define MPI_LONG_INT predefined.MPI_LONG_INT_
#define MPI_FLOAT_INT predefined.MPI_FLOAT_INT_
#define MPI_DOUBLE_INT predefined.MPI_DOUBLE_INT_
#define MPI_MAX predefined.MPI_MAX_
#define MPI_MIN predefined.MPI_MIN_
#define MPI_SUM predefined.MPI_SUM_
#define MPI_PROD predefined.MPI_PROD_
#define MPI_LAND predefined.MPI_LAND_
#define MPI_BAND predefined.MPI_BAND_
#define MPI_LOR predefined.MPI_LOR_
#define MPI_BOR predefined.MPI_BOR_
#define MPI_LXOR predefined.MPI_LXOR_
#define MPI_BXOR predefined.MPI_BXOR_
#define MPI_MINLOC predefined.MPI_MINLOC_
#define MPI_MAXLOC predefined.MPI_MAXLOC_

// A handle becomes the int that stands for it in Fortran by MPI_Comm_c2f.
#define COMM_HANDLES_BY_C2F

#define MPI_BOTTOM ((void *)0)
#define MPI_IN_PLACE ((void *)1)
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
  MPI_MAX_OBJECT_NAME = 64,
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
