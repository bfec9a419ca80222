#include "abi_mpiabi.h"
#include "constants.h"

#define FAMILY m4g_mpiabi
#define FAMILY_NAME "mpiabi"
#define FAMILY_CONSTANTS(C, S, O)                                                                                      \
  COMMON_CONSTANTS(C, S, O)                                                                                            \
  C(MPI_COMM_WORLD) C(MPI_COMM_SELF) C(MPI_COMM_NULL) C(MPI_REQUEST_NULL) C(MPI_MESSAGE_NULL) C(MPI_MESSAGE_NO_PROC)   \
  C(MPI_ERRORS_RETURN) C(MPI_INFO_NULL)                                                                                \
  C(MPI_BYTE) C(MPI_INT8_T) C(MPI_UINT8_T) C(MPI_INT16_T) C(MPI_UINT16_T) C(MPI_INT32_T) C(MPI_UINT32_T)               \
  C(MPI_INT64_T) C(MPI_UINT64_T) C(MPI_FLOAT) C(MPI_DOUBLE) C(MPI_C_FLOAT_COMPLEX) C(MPI_C_DOUBLE_COMPLEX)             \
  C(MPI_2INT) C(MPI_FLOAT_INT) C(MPI_DOUBLE_INT) C(MPI_LONG_INT)                                                       \
  C(MPI_MAX) C(MPI_MIN) C(MPI_SUM) C(MPI_PROD) C(MPI_LAND) C(MPI_BAND) C(MPI_LOR) C(MPI_BOR) C(MPI_LXOR) C(MPI_BXOR)   \
  C(MPI_MINLOC) C(MPI_MAXLOC)
#include "family.h"

static int64_t status_bytes(const MPI_Status *s) {
  MPI_Count n = 0;
  mpi.Get_elements_x(s, MPI_BYTE, &n);
  return n;
}
