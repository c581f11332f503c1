// Runs the one-shot and two-shot kernels in the emulator, several calls one after the other, under many seeds.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/emulator/machine.hpp"
#include "cuda/emulator/outcome.hpp"
#include "cuda/shot.hpp"

namespace pycomm::emulator {

struct ShotCase {
  device::ShotLayout layout{};
  DType dtype = DType::f32;
  Op op = Op::sum;
  bool in_place = false;
  std::vector<std::vector<Bytes>> inputs;    // [call][rank]
  std::vector<std::vector<Bytes>> expected;  // [call][rank]
  int shift = 0;                             // elements by which buffers miss the alignment of an allocation
  std::uint32_t threads = 4;
  std::uint64_t first_call = 0;  // as if so many calls had been made before
  std::uint64_t patience = 10'000'000;
  int silent_rank = -1;
};

Outcome try_shot(const ShotCase& given, std::uint64_t first, std::uint32_t seeds, Mutation mutation,
                 bool stop_at_failure);

}  // namespace pycomm::emulator
