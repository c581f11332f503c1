// Runs a packing kernel in the emulator under many seeds.
#pragma once

#include <cstdint>
#include <vector>

#include "base/dtype.hpp"
#include "cuda/emulator/outcome.hpp"

namespace pycomm::emulator {

struct PackCase {
  DType to = DType::f32;
  DType from = DType::f32;
  bool to_buffer = true;
  double factor = 1;
  std::int64_t count = 0;            // elements of the buffer
  std::vector<std::int64_t> begins;  // of each tensor in it
  std::vector<Bytes> inputs;         // pack: of each tensor; unpack: the buffer
  std::vector<Bytes> expected;       // pack: the buffer; unpack: of each tensor
  int shift = 0;                     // elements by which tensors and buffer miss an allocation's alignment
  std::uint32_t blocks = 3;
  std::uint32_t threads = 4;
};

Outcome try_pack(const PackCase& given, std::uint64_t first, std::uint32_t seeds);

}  // namespace pycomm::emulator
