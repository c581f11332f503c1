// The timed loop under a scripted clock: what is inside a sample, and what is not.
#include <string>
#include <vector>

#include "base/error.hpp"
#include "check.hpp"
#include "timing/loop.hpp"

namespace pycomm::test {

namespace {

// Writes down what was done, and moves the clock by what it takes.
struct Scripted final : Runnable {
  Scripted(std::string& log, std::int64_t& now_ns, char name, std::int64_t takes_ns)
      : log_(log), now_ns_(now_ns), name_(name), takes_ns_(takes_ns) {}
  bool start() override {
    log_ += name_;
    now_ns_ += takes_ns_;
    return true;
  }
  void finish() override {}

 private:
  std::string& log_;
  std::int64_t& now_ns_;
  char name_;
  std::int64_t takes_ns_;
};

struct Outcome {
  std::string log;  // o: operation, b: barrier, t: the clock is read
  std::vector<std::int64_t> samples_ns;
};

Outcome time_scripted(bool barrier_each, std::size_t samples, std::int64_t batch) {
  Outcome outcome;
  outcome.samples_ns.resize(samples);
  std::int64_t now_ns = 1000;
  Scripted operation(outcome.log, now_ns, 'o', 7);
  Scripted barrier(outcome.log, now_ns, 'b', 500);
  time_loop(operation, barrier, barrier_each, outcome.samples_ns, batch, [&] {
    outcome.log += 't';
    return now_ns;
  });
  return outcome;
}

void check_outcome(bool barrier_each, std::size_t samples, std::int64_t batch, const std::string& log) {
  const Outcome outcome = time_scripted(barrier_each, samples, batch);
  CHECK(outcome.log == log, outcome.log << ", not " << log);
  for (const std::int64_t sample_ns : outcome.samples_ns) CHECK(sample_ns == 7 * batch, sample_ns);
}

void the_barrier_is_outside_every_sample() {
  check_outcome(true, 3, 1, "btotbtotbtot");
  check_outcome(true, 2, 4,
                "btoooot"
                "btoooot");
}

void without_the_policy_one_barrier_goes_before_the_first_sample() {
  check_outcome(false, 3, 2, "btoottoottoot");
  check_outcome(false, 0, 2, "");
}

void a_batch_of_none_is_refused() {
  std::string log;
  std::int64_t now_ns = 0;
  Scripted operation(log, now_ns, 'o', 1);
  std::vector<std::int64_t> samples_ns(1);
  CHECK_THROWS(UsageError, (time_loop(operation, operation, true, samples_ns, 0), 0), "batch is 0");
  CHECK(log.empty(), log);
}

void the_tick_is_the_smallest_step_above_zero() {
  const std::vector<std::int64_t> readings = {100, 100, 140, 140, 160, 230, 250};
  std::size_t next = 0;
  const auto clock = [&] { return readings[next++]; };
  CHECK(smallest_step_ns(static_cast<std::int64_t>(readings.size()), clock) == 20, "steps are 0, 40, 0, 20, 70, 20");
  CHECK(clock_tick_ns() > 0, clock_tick_ns());
}

}  // namespace

void add_timing_tests(std::vector<Test>& tests) {
  tests.push_back({"timing: the barrier is outside every sample", the_barrier_is_outside_every_sample});
  tests.push_back({"timing: without the policy one barrier goes before the first sample",
                   without_the_policy_one_barrier_goes_before_the_first_sample});
  tests.push_back({"timing: a batch of none is refused", a_batch_of_none_is_refused});
  tests.push_back({"timing: the tick is the smallest step above zero", the_tick_is_the_smallest_step_above_zero});
}

}  // namespace pycomm::test
