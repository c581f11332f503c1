// What many seeds of one case came to.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace pycomm::emulator {

using Bytes = std::vector<std::uint8_t>;

struct Outcome {
  std::uint32_t seeds = 0;  // tried
  std::uint32_t failed = 0;
  std::uint64_t first_failed_seed = 0;
  std::string first_failure;  // what was wrong with it
};

// run(seed) returns what was wrong, or nothing. Stops at the first failure if told so.
template <class Run>
Outcome try_seeds(std::uint64_t first, std::uint32_t seeds, bool stop_at_failure, Run&& run) {
  Outcome outcome;
  for (std::uint32_t i = 0; i < seeds; ++i) {
    ++outcome.seeds;
    std::string failure = run(first + i);
    if (failure.empty()) continue;
    if (outcome.failed++ == 0) {
      outcome.first_failed_seed = first + i;
      outcome.first_failure = std::move(failure);
    }
    if (stop_at_failure) break;
  }
  return outcome;
}

}  // namespace pycomm::emulator
