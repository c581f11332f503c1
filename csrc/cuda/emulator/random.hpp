// The numbers that choose an interleaving: the same seed gives the same run on every machine (splitmix64).
#pragma once

#include <cstdint>

namespace pycomm::emulator {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  std::uint32_t below(std::size_t bound) {  // in [0, bound), bound below 2^32
    return static_cast<std::uint32_t>(((next() >> 32) * bound) >> 32);
  }
  bool one_in(std::uint32_t n) { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

}  // namespace pycomm::emulator
