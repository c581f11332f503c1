// What each lane knows of the others: vector clocks. Component d of a clock is how many steps of lane d are known to
// be over. A clock is shared by the lane and the messages that carry it, and copied when the lane learns more.
//
// Source: F. Mattern, "Virtual time and global states of distributed systems", 1988.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace pycomm {

class Clocks {
 public:
  using Ref = std::int32_t;
  static constexpr Ref kNothing = 0;  // knows nothing; never freed

  // width: lanes of all ranks; last_time: no time will be greater (2-byte clocks halve the work where they do).
  Clocks(std::size_t width, std::int64_t last_time) : width_(width), wide_(last_time > INT16_MAX) { allocate(); }

  std::int32_t get(Ref clock, std::size_t lane) const {
    const std::size_t at = static_cast<std::size_t>(clock) * width_ + lane;
    return wide_ ? wide_times_[at] : times_[at];
  }

  Ref share(Ref clock) {
    if (clock != kNothing) ++holders_[static_cast<std::size_t>(clock)];
    return clock;
  }

  void drop(Ref clock) {
    if (clock != kNothing && --holders_[static_cast<std::size_t>(clock)] == 0) free_.push_back(clock);
  }

  // `mine` and all that `theirs` knows, and that lane `lane` has done `time` steps. Takes over the hold on `mine`.
  Ref merge(Ref mine, Ref theirs, std::size_t lane, std::int32_t time) {
    if (get(mine, lane) >= time) return mine;  // then all that lane knew at that time is known already
    const bool alone = mine != kNothing && holders_[static_cast<std::size_t>(mine)] == 1;
    const Ref merged = alone ? mine : allocate();
    if (wide_)
      merge_into(wide_times_, merged, mine, theirs, lane, time);
    else
      merge_into(times_, merged, mine, theirs, lane, static_cast<std::int16_t>(time));
    if (!alone) drop(mine);
    return merged;
  }

 private:
  template <class Time>
  void merge_into(std::vector<Time>& times, Ref to, Ref mine, Ref theirs, std::size_t lane, Time time) {
    Time* result = &times[static_cast<std::size_t>(to) * width_];
    const Time* a = &times[static_cast<std::size_t>(mine) * width_];
    const Time* b = &times[static_cast<std::size_t>(theirs) * width_];
    if (theirs != kNothing)
      for (std::size_t k = 0; k < width_; ++k) result[k] = a[k] < b[k] ? b[k] : a[k];
    else if (to != mine)
      std::copy(a, a + width_, result);
    result[lane] = time;
  }

  Ref allocate() {
    if (!free_.empty()) {
      const Ref clock = free_.back();
      free_.pop_back();
      holders_[static_cast<std::size_t>(clock)] = 1;
      return clock;
    }
    holders_.push_back(1);
    if (wide_)
      wide_times_.resize(holders_.size() * width_);
    else
      times_.resize(holders_.size() * width_);
    return static_cast<Ref>(holders_.size()) - 1;
  }

  std::size_t width_;
  bool wide_;
  std::vector<std::int16_t> times_;
  std::vector<std::int32_t> wide_times_;
  std::vector<std::int32_t> holders_;
  std::vector<Ref> free_;
};

}  // namespace pycomm
