// csrc/cuda/engine.cu compiled by the host compiler: the very file that nvcc compiles.
#define PYCOMM_EMULATED

#include "cuda/engine.cu"
