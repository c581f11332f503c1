// Runs a schedule in the emulator: every rank a device of its own, several calls one after the other, under many seeds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/emulator/machine.hpp"
#include "cuda/emulator/outcome.hpp"
#include "cuda/plan.hpp"

namespace pycomm::emulator {

struct EngineCase {
  device::DevicePlan plan;
  Op op = Op::sum;
  std::vector<std::vector<Bytes>> inputs;  // [call][rank]: `in`; in place, of the larger buffer: `out` before the call
  std::vector<std::vector<Bytes>> expected;  // [call][rank]: `out` after it; empty: not looked at
  int shift = 0;                             // elements by which buffers miss the alignment of an allocation
  std::uint32_t threads = 4;                 // a block
  std::int32_t stage_bytes = 0;              // of the bulk copies that move messages; 0: none do
  std::uint64_t first_call = 0;              // as if so many calls had been made before
  std::uint64_t patience = 10'000'000;       // switches
  int silent_rank = -1;                      // a rank that never enters the call; -1: none
};

// One seed. Returns what was wrong, or nothing.
std::string run_engine(Machine& machine, const EngineCase& given, std::uint64_t seed, Mutation mutation);

// `seeds` seeds from `first`; stops at the first failure if told so.
Outcome try_engine(const EngineCase& given, std::uint64_t first, std::uint32_t seeds, Mutation mutation,
                   bool stop_at_failure);

}  // namespace pycomm::emulator
