// The kernels compiled by the host compiler: the very files that nvcc compiles.
#define PYCOMM_EMULATED

#include "cuda/engine.cu"
