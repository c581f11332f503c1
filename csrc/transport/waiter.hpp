// How a rank waits: it spins briefly, then yields its core, and now and then looks whether it waits in vain.
#pragma once

#include <cstdint>

#include "transport/shared_memory.hpp"

namespace pycomm {

class Waiter {
 public:
  Waiter(const SharedMemory& memory, std::uint64_t signature)
      : memory_(memory), signature_(signature), spins_(memory.oversubscribed() ? 0 : kSpins) {}

  // Called each time there is nothing to do. `describe` says what is waited for, should that be of interest. Raises
  // what SharedMemory::check_peers and the interrupt check raise, and TransportError past the time-out.
  template <class Describe>
  void idle(const Describe& describe) {
    if (++rounds_ <= spins_) {
      pause();
      return;
    }
    if (yield_and_look_due()) look(describe());
  }

  static void pause();  // between two looks at memory

  // Called when something was done.
  void progress() {
    rounds_ = 0;
    suspicious_ = false;
  }

 private:
  static constexpr std::uint32_t kSpins = 20'000;  // about half a millisecond

  bool yield_and_look_due();
  void look(const Waiting& waiting);

  const SharedMemory& memory_;
  std::uint64_t signature_;
  std::uint32_t spins_;
  std::uint32_t rounds_ = 0;
  std::int64_t since_ns_ = 0;  // of the waiting, once past spinning
  std::int64_t next_look_ns_ = 0;
  bool suspicious_ = false;  // the last look found that this rank waits in vain
};

}  // namespace pycomm
