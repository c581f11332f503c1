// csrc/cuda/shot.cu compiled by the host compiler.
#define PYCOMM_EMULATED

#include "cuda/shot.cu"
