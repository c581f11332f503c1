#include "transport/waiter.hpp"

#include <sched.h>

#include "base/clock.hpp"
#include "base/error.hpp"

namespace pycomm {

namespace {

constexpr std::int64_t kLookEvery_ns = 5'000'000;

}  // namespace

void Waiter::pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

bool Waiter::yield_and_look_due() {
  const std::int64_t now = now_ns();
  if (rounds_ == spins_ + 1) {
    since_ns_ = now;
    next_look_ns_ = now + kLookEvery_ns;
  }
  sched_yield();
  if (now < next_look_ns_) return false;
  next_look_ns_ = now + kLookEvery_ns;
  return true;
}

void Waiter::look(const Waiting& waiting) {
  memory_.show_life();
  try {
    memory_.check_peers(waiting, signature_);
    suspicious_ = false;
  } catch (const TransportError&) {
    // A peer may have done its part just before it ended, after this rank last looked for it. So what is waited for is
    // looked at once more, before the next round comes here.
    if (suspicious_) throw;
    suspicious_ = true;
    next_look_ns_ = 0;
    return;
  }
  const auto& config = memory_.config();
  if (config.check_interrupt) config.check_interrupt();
  if (static_cast<double>(now_ns() - since_ns_) * 1e-9 > config.timeout_s) memory_.raise_timeout(waiting);
}

}  // namespace pycomm
