// The kernels for what every CPU of the target has (SSE2 on x86-64).
#define PYCOMM_VECTOR_BYTES 16
#define PYCOMM_KERNELS kPortableKernels
#include "reduce/kernels.inc.hpp"
