// The function pointers of the reduction, and one table of them for each instruction set. Callers use reduce.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pycomm {

// The kernels of one type and op. Pointers may have any alignment. An output may be exactly the same place as any
// operand; a partial overlap is not allowed. Rounding, NaN, zeros and wrapping follow reduce.hpp.
struct Kernels {
  // to[i] = a[i] ⊕ b[i], rounded to the element type (avg: the sum). `streaming` stores past the cache.
  // Reads 2, writes 1 × count elements.
  void (*reduce)(void* to, const void* a, const void* b, std::size_t count, bool streaming);

  // The operands (n >= 1) in order, accumulated in float32 (f16, bf16) or the type itself, rounded once, stored to
  // all `outputs` (>= 1) places in one pass, to the first `streamed` of them past the cache. contributors: 0, or for
  // sum and avg the number >= 1 that divides the rounded result, with the same bits as `scale` afterwards. Reads n,
  // writes outputs × count elements.
  void (*combine)(void* const* to, int outputs, const void* const* operands, int n, std::size_t count,
                  std::int64_t contributors, int streamed);

  // to[i] = to[i] / contributors (>= 1), the division of avg, whatever the op.
  void (*scale)(void* to, std::size_t count, std::int64_t contributors);
};

// to[i] = from[i] × factor in the other type: computed in float32 (float64 if either is), rounded once to the type of
// `to`; a NaN becomes the canonical one. Any alignment; no overlap.
using Convert = void (*)(void* to, const void* from, std::size_t count, double factor);

struct KernelTable {
  Kernels of[8][5];       // by DType and Op
  Convert convert[8][8];  // by DType to and from; null where there is none
};

// Constant data: nothing runs at load, so a table of an instruction set that the CPU lacks does no harm.
extern const KernelTable kPortableKernels;
extern const KernelTable kAvx2Kernels;
extern const KernelTable kAvx512Kernels;

}  // namespace pycomm
