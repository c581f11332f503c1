// The places of all ranks while a schedule is followed: what each holds, and who may still be using it.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/clocks.hpp"
#include "schedule/expressions.hpp"

namespace pycomm {

// One use of a place by a lane: a read, or a send that holds it.
struct Use {
  std::uint32_t next = 0;    // in the place's list
  std::int32_t lane = 0;     // the lane that must be known to be past `time`: the reader, or the taker of the send
  std::int32_t time = -1;    // -1: not yet taken
  std::int32_t step = 0;     // of the reader or sender, for messages
  std::int32_t by_lane = 0;  // the reading or sending lane
};

struct PlaceState {
  Expressions::Id value = Expressions::kNone;
  std::int32_t writer = -1;  // the lane of the last write in this call; -1: the caller's
  std::int32_t write_time = 0;
  std::int32_t write_step = 0;
  std::uint32_t reads = 0;  // lists of uses since the last write
  std::uint32_t holds = 0;
};

// Uses in lists, with those that are over taken back.
class Uses {
 public:
  Uses() : uses_(1) {}
  Use& operator[](std::uint32_t index) { return uses_[index]; }

  std::uint32_t push(std::uint32_t& list, const Use& use) {
    std::uint32_t index = free_;
    if (index != 0) {
      free_ = uses_[index].next;
      uses_[index] = use;
    } else {
      index = static_cast<std::uint32_t>(uses_.size());
      uses_.push_back(use);
    }
    uses_[index].next = list;
    return list = index;
  }

  void clear(std::uint32_t& list) {
    while (list != 0) {
      const std::uint32_t next = uses_[list].next;
      uses_[list].next = free_;
      free_ = list;
      list = next;
    }
  }

 private:
  std::vector<Use> uses_;  // [0] is not used
  std::uint32_t free_ = 0;
};

}  // namespace pycomm
