// The harness of native_tests: a test is a function that calls CHECK; main.cpp lists them all.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace pycomm::test {

struct Test {
  std::string name;  // "layer: the fact it holds"
  void (*run)();
};

// Thrown by skip() to leave a test that this machine can't run; the reason is printed.
struct Skipped : std::runtime_error {
  using std::runtime_error::runtime_error;
};
[[noreturn]] inline void skip(const std::string& reason) { throw Skipped(reason); }

// Counts a failure of the running test and prints the first few. May be called from any thread.
void fail(const char* file, int line, const std::string& message);

// CHECK(condition, what << to << print): on failure the test goes on, and fails.
#define CHECK(condition, ...)                                     \
  do {                                                            \
    if (!(condition)) {                                           \
      std::ostringstream check_text;                              \
      check_text << #condition << ": " << __VA_ARGS__;            \
      ::pycomm::test::fail(__FILE__, __LINE__, check_text.str()); \
    }                                                             \
  } while (false)

// CHECK_THROWS(Type, expression, "part of the message")
#define CHECK_THROWS(Type, expression, part)                                                                 \
  do {                                                                                                       \
    std::string check_caught = "nothing was thrown";                                                         \
    try {                                                                                                    \
      static_cast<void>(expression);                                                                         \
    } catch (const Type& error) {                                                                            \
      check_caught = error.what();                                                                           \
    }                                                                                                        \
    CHECK(check_caught.find(part) != std::string::npos, "wanted \"" << part << "\", got: " << check_caught); \
  } while (false)

// One function a test file, called in main.cpp.
void add_engine_tests(std::vector<Test>& tests);
void add_reduce_tests(std::vector<Test>& tests);
void add_timing_tests(std::vector<Test>& tests);

}  // namespace pycomm::test
