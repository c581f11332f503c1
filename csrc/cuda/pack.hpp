// The packing kernels: many tensors into one buffer and back in one launch, with a change of type and a factor. The CPU
// twin is csrc/pack, whose numbers these are: computed in float32 (float64 if either type is), rounded once, a NaN made
// canonical; with one type and factor 1 the bytes are copied.
#pragma once

#include <cstdint>

#include "base/dtype.hpp"

namespace pycomm::device {

struct PackTensor {
  char* data;
  std::int64_t begin;  // in the buffer, elements; not decreasing from tensor to tensor
  std::int64_t count;  // elements
};

struct PackArguments {
  const PackTensor* tensors;
  std::int32_t tensor_count;
  bool to_buffer;  // pack; else unpack
  char* buffer;
  std::int64_t count;  // elements of the buffer, gaps included; pack sets gaps to zero
  double factor;
};

inline constexpr int kPackThreads = 256;  // a block, at most

using PackKernel = void (*)(PackArguments);

// Grid: any number of blocks, each of which takes an equal part of the buffer, whatever the sizes of the tensors.
// Null where there is no conversion: there is one among float32, float16 and bfloat16, and between float64 and float32.
// With copies = true, and to == from, bytes are moved and the factor is not looked at.
PackKernel pack_kernel_of(DType to, DType from, bool copies);

// Blocks worth launching for `count` elements on a device of `processors`.
constexpr std::int64_t pack_blocks(std::int64_t count, int processors) {
  constexpr std::int64_t kElementsPerBlock = kPackThreads * 16;
  const std::int64_t most = static_cast<std::int64_t>(processors) * 8;
  const std::int64_t blocks = (count + kElementsPerBlock - 1) / kElementsPerBlock;
  return blocks < 1 ? 1 : blocks < most ? blocks : most;
}

}  // namespace pycomm::device
