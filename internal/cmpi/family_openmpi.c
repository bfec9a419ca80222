#include "abi_openmpi.h"
#include "constants.h"

#define FAMILY m4g_openmpi
#define FAMILY_NAME "openmpi"
#define FAMILY_CONSTANTS(C, S, O) COMMON_CONSTANTS(C, S, O)
#include "family.h"
