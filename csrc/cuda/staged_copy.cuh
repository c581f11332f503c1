// A message moved by Hopper's bulk copies: one thread has them carry it piece by piece into stages of shared memory and
// on to where it goes, some pieces on their way in while others are on their way out.
#pragma once

#include "cuda/program.hpp"
#include "cuda/tma.cuh"
#include "cuda/units.cuh"

namespace pycomm::device {

class StagedCopy {
 public:
  // stage_bytes: of a piece; 0: nothing is moved so.
  __device__ explicit StagedCopy(std::int32_t stage_bytes) : stage_bytes_(stage_bytes) {
#ifdef PYCOMM_HAS_TMA
    if (stage_bytes == 0 || thread_index() != 0) return;
    for (std::uint32_t i = 0; i < kStages; ++i) tma_begin(stage(i));
    fence_generic_to_async();
#endif
  }

  // Called by all threads, between barriers. Moves the whole units of a message that fills a stage, if both places are
  // aligned; returns how many units it has moved. To the calling thread 0 it is done, and for others after the barrier.
  __device__ std::int64_t move(const char* from, char* to, std::int64_t bytes) {
#ifdef PYCOMM_HAS_TMA
    const auto places = reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(to);
    if (stage_bytes_ == 0 || bytes < stage_bytes_ || places % kUnitBytes != 0) return 0;
    const std::int64_t units = bytes / kUnitBytes;
    if (thread_index() == 0) carry(from, to, units * kUnitBytes);
    return units;
#else
    return 0;
#endif
  }

 private:
#ifdef PYCOMM_HAS_TMA
  __device__ Stage stage(std::uint32_t number) const {
    const std::uint32_t index = number % kStages, bytes = static_cast<std::uint32_t>(stage_bytes_);
    return {index * bytes, kStages * bytes + index * kMbarrierBytes};
  }

  __device__ PYCOMM_OUT_OF_LINE void carry(const char* from, char* to, std::int64_t bytes) {
    const std::int64_t pieces = (bytes + stage_bytes_ - 1) / stage_bytes_;
    const auto number_of = [&](std::int64_t piece) { return loads_ + static_cast<std::uint32_t>(piece); };
    const auto size_of_piece = [&](std::int64_t piece) {
      const std::int64_t left = bytes - piece * stage_bytes_;
      return static_cast<std::uint32_t>(left < stage_bytes_ ? left : stage_bytes_);
    };
    const auto load_piece = [&](std::int64_t piece) {
      tma_load(stage(number_of(piece)), from + piece * stage_bytes_, size_of_piece(piece));
    };
    // The source was written, and the target's old contents were read, by loads and stores.
    fence_generic_to_async();
    for (std::int64_t piece = 0; piece < kStages && piece < pieces; ++piece) load_piece(piece);
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      const std::uint32_t number = number_of(piece);
      while (!tma_loaded(stage(number), number / kStages % 2)) pause();
      tma_store(to + piece * stage_bytes_, stage(number), size_of_piece(piece));
      const std::int64_t next = piece - 1 + kStages;  // goes where the piece before this one was
      if (piece == 0 || next >= pieces) continue;
      tma_wait_read();
      load_piece(next);
    }
    tma_wait();
    fence_async_to_generic();
    loads_ += static_cast<std::uint32_t>(pieces);
  }

  std::uint32_t loads_ = 0;  // since the kernel began, for the phases; thread 0's
#endif
  std::int32_t stage_bytes_;
};

}  // namespace pycomm::device
