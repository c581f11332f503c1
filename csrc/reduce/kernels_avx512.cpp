// The kernels for CPUs with AVX-512 F, BW, VL and DQ; CMakeLists.txt gives this file their flags.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // false alarms inside GCC 12's own avx512fintrin.h (bug 105593)
#define PYCOMM_VECTOR_BYTES 64
#define PYCOMM_KERNELS kAvx512Kernels
#include "reduce/kernels.inc.hpp"
