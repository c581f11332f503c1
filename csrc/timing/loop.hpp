// The timed loop: nothing between two readings of the clock but the calls that are measured.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "engine/runnable.hpp"

namespace pycomm {

template <typename Clock>
concept NanosecondClock = requires(Clock clock) {
  { clock() } -> std::convertible_to<std::int64_t>;
};

// Fills samples_ns, one sample for `batch` calls of `operation` in a row: the nanoseconds they took together; the
// caller divides. With barrier_each every sample begins as this rank leaves `barrier`, which is outside the sample;
// without, one barrier goes before the first sample. `clock` is read twice a sample.
template <NanosecondClock Clock>
void time_loop(Runnable& operation, Runnable& barrier, bool barrier_each, std::span<std::int64_t> samples_ns,
               std::int64_t batch, Clock&& clock) {
  if (!barrier_each && !samples_ns.empty()) barrier.run();
  for (std::int64_t& sample_ns : samples_ns) {
    if (barrier_each) barrier.run();
    const std::int64_t start_ns = clock();
    for (std::int64_t call = 0; call < batch; ++call) operation.run();
    sample_ns = clock() - start_ns;
  }
}

// The same under CLOCK_MONOTONIC. Raises UsageError when batch < 1.
void time_loop(Runnable& operation, Runnable& barrier, bool barrier_each, std::span<std::int64_t> samples_ns,
               std::int64_t batch);

// The smallest step above zero that `clock` shows in `readings` readings one after another: no duration below it can
// be told from zero. With a fine clock it is what one reading costs.
template <NanosecondClock Clock>
std::int64_t smallest_step_ns(std::int64_t readings, Clock&& clock) {
  std::int64_t smallest_ns = std::numeric_limits<std::int64_t>::max();
  std::int64_t last_ns = clock();
  for (std::int64_t reading = 1; reading < readings; ++reading) {
    const std::int64_t now_ns = clock();
    if (now_ns > last_ns && now_ns - last_ns < smallest_ns) smallest_ns = now_ns - last_ns;
    last_ns = now_ns;
  }
  return smallest_ns;
}

// The tick of CLOCK_MONOTONIC on this machine, in nanoseconds.
std::int64_t clock_tick_ns();

}  // namespace pycomm
