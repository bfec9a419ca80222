#include "abi_mpich.h"
#include "constants.h"

#define FAMILY m4g_mpich
#define FAMILY_NAME "mpich"
#define FAMILY_CONSTANTS(C, S, O)                                                                                      \
  COMMON_CONSTANTS(C, S, O)                                                                                            \
  C(MPI_COMM_WORLD) C(MPI_COMM_SELF) C(MPI_COMM_NULL) C(MPI_BYTE) C(MPI_REQUEST_NULL) C(MPI_MESSAGE_NULL)              \
  C(MPI_MESSAGE_NO_PROC) C(MPI_ERRORS_RETURN) C(MPI_INFO_NULL)
#include "family.h"
