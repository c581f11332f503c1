// The kernels for CPUs with AVX2 and F16C; CMakeLists.txt gives this file their flags.
#define PYCOMM_VECTOR_BYTES 32
#define PYCOMM_KERNELS kAvx2Kernels
#include "reduce/kernels.inc.hpp"
