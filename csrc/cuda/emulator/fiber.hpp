// A fiber: a stack of its own and the place where it stopped. One emulated CUDA thread is one fiber.
#pragma once

#include <cstddef>
#include <memory>

namespace pycomm::emulator {

class Fiber {
 public:
  static constexpr std::size_t kStackBytes = 48 * 1024;

  Fiber() = default;
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Arms the fiber: the next resume() calls entry(argument), which must never return (it ends in suspend()). The stack
  // is kept from one use to the next.
  void start(void (*entry)(void*), void* argument);

  void resume();   // from the scheduler: runs the fiber until it calls suspend()
  void suspend();  // from the fiber: goes back to the caller of resume()

 private:
  std::unique_ptr<std::byte[]> stack_;
  void* fiber_ = nullptr;      // the fiber's saved stack pointer
  void* scheduler_ = nullptr;  // the scheduler's saved stack pointer, while the fiber runs
  void (*entry_)(void*) = nullptr;
  void* argument_ = nullptr;

  [[noreturn]] static void enter(Fiber* self);
};

}  // namespace pycomm::emulator
