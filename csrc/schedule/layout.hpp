// Which places a rank has, numbered: `out`, then the chunks of `in` that are not the memory of `out`, then `tmp`.
#pragma once

#include "schedule/schedule.hpp"

namespace pycomm {

class Layout {
 public:
  Layout(const Schedule& schedule, std::int32_t rank) : schedule_(schedule), rank_(rank) {
    const Program& program = schedule.programs[static_cast<std::size_t>(rank)];
    const bool elsewhere = rank != schedule.root;
    in_chunks_ = program.passes_buffers ? schedule.in_chunks : 0;
    out_chunks_ = program.passes_buffers ? schedule.out_chunks : 0;
    if (schedule.collective == Collective::broadcast && elsewhere) in_chunks_ = 0;
    if (schedule.collective == Collective::reduce && elsewhere) out_chunks_ = 0;
    tmp_chunks_ = program.tmp_chunks;
  }

  bool has(Place place) const {
    const std::int32_t chunks = place.buffer == Buffer::in    ? in_chunks_
                                : place.buffer == Buffer::out ? out_chunks_
                                                              : tmp_chunks_;
    return place.chunk >= 0 && place.chunk < chunks;
  }

  // The number of a place that the rank has; one number is one memory.
  std::int32_t number(Place place) const {
    if (place.buffer == Buffer::out) return place.chunk;
    if (place.buffer == Buffer::tmp) return out_chunks_ + in_chunks_ + place.chunk;
    if (schedule_.in_place) {
      const std::int32_t same = out_chunk_of_in(schedule_.collective, place.chunk, rank_);
      if (same >= 0 && same < out_chunks_) return same;
    }
    return out_chunks_ + place.chunk;
  }

  std::int32_t in_chunks() const { return in_chunks_; }
  std::int32_t out_chunks() const { return out_chunks_; }
  std::int32_t places() const { return out_chunks_ + in_chunks_ + tmp_chunks_; }

 private:
  const Schedule& schedule_;
  std::int32_t rank_;
  std::int32_t in_chunks_ = 0, out_chunks_ = 0, tmp_chunks_ = 0;
};

}  // namespace pycomm
