#include "timing/loop.hpp"

#include <string>

#include "base/clock.hpp"
#include "base/error.hpp"

namespace pycomm {

void time_loop(Runnable& operation, Runnable& barrier, bool barrier_each, std::span<std::int64_t> samples_ns,
               std::int64_t batch) {
  if (batch < 1) throw UsageError("time_loop: batch is " + std::to_string(batch) + ", needs at least 1");
  time_loop(operation, barrier, barrier_each, samples_ns, batch, now_ns);
}

std::int64_t clock_tick_ns() { return smallest_step_ns(10'000, now_ns); }

}  // namespace pycomm
