// csrc/cuda/pack.cu compiled by the host compiler.
#define PYCOMM_EMULATED

#include "cuda/pack.cu"
