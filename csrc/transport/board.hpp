// The first pages of a region: what a rank tells all its peers. Every field is written by the owner alone.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pycomm {

inline constexpr std::size_t kCacheLine = 64;
inline constexpr int kLanes = 8;           // lanes of a schedule over shared memory
inline constexpr int kBarrierRounds = 16;  // ranks up to 2^16

enum class RankState : std::uint32_t { running, departed, failed };

// The call a rank has entered last. `number` is stored last (release) and read first (acquire).
struct alignas(kCacheLine) Entry {
  std::atomic<std::uint64_t> number{0};
  std::atomic<std::uint64_t> signature{0};
  std::atomic<std::uint64_t> in{0};  // offsets of the buffers; 0 where peers cannot reach them
  std::atomic<std::uint64_t> out{0};
};

struct alignas(kCacheLine) BarrierRound {
  std::atomic<std::uint64_t> epoch{0};
};

struct alignas(kCacheLine) Board {
  Entry entry;
  BarrierRound barrier[kBarrierRounds];
  std::atomic<RankState> state{RankState::running};
  std::atomic<std::int64_t> sign_of_life_ns{0};  // when it last looked round while waiting for a peer
  char failure[1024];                            // why, if failed
  char call[512];                                // the signature of the call entered last, in words
  // Behind the board: std::atomic<std::uint64_t> queues[ranks][kLanes], the offset of the queue to each rank.

  std::atomic<std::uint64_t>* queues() { return reinterpret_cast<std::atomic<std::uint64_t>*>(this + 1); }
  static constexpr std::size_t bytes(int ranks) {
    return sizeof(Board) + static_cast<std::size_t>(ranks) * kLanes * sizeof(std::atomic<std::uint64_t>);
  }
};

}  // namespace pycomm
