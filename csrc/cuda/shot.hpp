// All-reduce in one kernel without a schedule, for small and middle sizes. The numbers are those of the schedules
// `mesh` and `direct`: each element is combined in rank order, rounded once, and then divided (avg).
//
//   one-shot: every rank stores all it has into the inbox of every other, and each combines for itself. One hop.
//   two-shot: every rank owns a part; parts go to their owners, results come back. Two hops, 2/p of the bytes.
//
// An inbox has two halves, used by calls in turn. A rank that stores for call n has finished call n − 1, so it has
// heard in call n − 1 from each rank it stores to, which therefore had finished call n − 2, the last to use this half.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.hpp"
#include "base/op.hpp"
#include "cuda/program.hpp"

namespace pycomm::device {

enum class Shot : std::uint8_t { one, two };

// All ranks launch the same grid: what a block stores, the block of the same number reads.
struct ShotLayout {
  Shot shot;
  Form form;
  std::int32_t ranks;
  std::int32_t blocks;
  std::int64_t bytes;  // of the buffer

  constexpr std::int64_t units() const { return (bytes + 15) / 16; }
  // Units of a part, the last of which may be shorter.
  constexpr std::int64_t part_units() const { return shot == Shot::one ? units() : (units() + ranks - 1) / ranks; }
  constexpr std::int64_t slot_bytes() const { return slot_bytes_of(form, part_units() * 16); }

  // Offsets in an inbox. `half` is 0 or 1, `hop` too; a slot and a flag a sender.
  constexpr std::int64_t slot(std::int64_t half, std::int64_t hop, std::int64_t from) const {
    return flags_end() + ((half * hops() + hop) * ranks + from) * slot_bytes();
  }
  constexpr std::int64_t flag(std::int64_t hop, std::int64_t from, std::int64_t block) const {
    return 128 * ((hop * ranks + from) * blocks + block);
  }
  constexpr std::int64_t calls() const { return flag(hops(), 0, 0); }  // a counter a block
  constexpr std::int64_t status() const { return calls() + 8 * blocks; }
  constexpr std::int64_t flags_end() const { return (status() + 8 + 255) / 256 * 256; }  // all of it begins as zero
  constexpr std::int64_t inbox_bytes() const { return slot(2, 0, 0); }                   // and this, in line form
  constexpr std::int64_t hops() const { return shot == Shot::one ? 1 : 2; }
};

struct ShotArguments {
  ShotLayout layout;
  char* const* inboxes;  // [rank], each mapped here
  const char* in;
  char* out;
  std::int32_t rank;
  Op op;
  std::uint64_t patience_ns;
};

inline constexpr int kShotThreads = 512;  // a block, at most

using ShotKernel = void (*)(ShotArguments);

// Grid: layout.blocks blocks, all resident together, of the same number of threads on every rank.
ShotKernel shot_kernel_of(Shot shot, DType dtype);

}  // namespace pycomm::device
