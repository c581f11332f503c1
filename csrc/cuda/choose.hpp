// How a call is cut on a device: the form of its messages, their number, and how many lanes carry them.
#pragma once

#include <cstdint>

#include "algorithms/registry.hpp"
#include "cuda/plan.hpp"

namespace pycomm::device {

struct Limits {
  std::int64_t queue_bytes = std::int64_t{64} << 20;  // of all queues of a rank
  int lanes = 16;                                     // that segments are dealt to, at most; `tree` has twice as many
};

// The plan of one call. `shape` holds the collective, ranks, root, place and options; segments and lanes are chosen.
// Raises UsageError as build() does.
DevicePlan choose_device_plan(const std::string& algorithm, Shape shape, DType dtype, std::int64_t count,
                              const Limits& limits);

}  // namespace pycomm::device
