// native_tests [PART...]: runs the tests whose names contain any PART, or all. Exit status 1 if one failed.
#include <atomic>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "check.hpp"

namespace pycomm::test {

namespace {

std::atomic<int>& failures_of_running_test() {
  static std::atomic<int> failures{0};
  return failures;
}

std::vector<Test> all_tests() {
  std::vector<Test> tests;
  add_engine_tests(tests);
  add_reduce_tests(tests);
  add_timing_tests(tests);
  return tests;
}

bool is_wanted(const Test& test, int count, char** parts) {
  for (int i = 0; i < count; ++i)
    if (test.name.find(parts[i]) != std::string::npos) return true;
  return count == 0;
}

enum class Outcome { passed, failed, skipped };

Outcome run(const Test& test) {
  failures_of_running_test() = 0;
  try {
    test.run();
  } catch (const Skipped& reason) {
    std::printf("skipped  %s: %s\n", test.name.c_str(), reason.what());
    return Outcome::skipped;
  } catch (const std::exception& error) {
    fail("uncaught exception", 0, error.what());
  }
  const bool passed = failures_of_running_test() == 0;
  std::printf("%s  %s\n", passed ? "passed " : "FAILED ", test.name.c_str());
  std::fflush(stdout);
  return passed ? Outcome::passed : Outcome::failed;
}

}  // namespace

void fail(const char* file, int line, const std::string& message) {
  constexpr int kPrinted = 10;
  if (failures_of_running_test()++ < kPrinted) std::fprintf(stderr, "%s:%d: %s\n", file, line, message.c_str());
}

}  // namespace pycomm::test

int main(int argc, char** argv) {
  using namespace pycomm::test;
  int counts[3] = {};
  for (const Test& test : all_tests())
    if (is_wanted(test, argc - 1, argv + 1)) ++counts[static_cast<int>(run(test))];
  std::printf("%d passed, %d failed, %d skipped\n", counts[0], counts[1], counts[2]);
  return counts[1] != 0 || counts[0] + counts[2] == 0 ? 1 : 0;
}
