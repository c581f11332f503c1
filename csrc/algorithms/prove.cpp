#include "algorithms/prove.hpp"

#include <array>
#include <utility>

#include "algorithms/registry.hpp"
#include "schedule/fuse.hpp"
#include "schedule/wellformed.hpp"

namespace pycomm {

namespace {

// Segments and lanes beside one of each: as many lanes as segments, in turn on one lane, fewer lanes than segments.
constexpr std::array<std::pair<int, int>, 3> kRepeats = {{{2, 2}, {3, 1}, {5, 4}}};

// Ranks land only within a host, where they reach one another's buffers; this is more than hosts have ranks.
constexpr int kLandingRanks = 128;

// Every segment of `schedule` is the one segment of `proved`, so that its proof holds here.
bool repeats(const Schedule& schedule, const Schedule& proved) {
  if (!edges_balance(schedule)) return false;
  for (const std::int32_t segment : kinds_of_segments(schedule))
    if (!same_segment(schedule, segment, proved, 0)) return false;
  return true;
}

}  // namespace

Proof prove(std::string_view algorithm, const Shape& shape) {
  Proof proof;
  for (const bool in_place : {false, true}) {
    Shape one = shape;
    one.in_place = in_place;
    one.segments = one.lanes = 1;
    const Schedule proved = build(algorithm, one);
    const Facts facts = verify(proved);
    const bool balanced = edges_balance(proved);
    ++proof.schedules;
    ++proof.followed;
    if (!in_place) proof.facts = facts;
    if (shape.ranks <= kLandingRanks) {
      Schedule landing = proved;
      fuse_landings(landing);
      if (const Facts fused = verify(landing); fused.landings > 0) {
        ++proof.schedules;
        ++proof.followed;
        proof.landings += fused.landings;
      }
    }
    for (const auto& [segments, lanes] : kRepeats) {
      Shape more = one;
      more.segments = segments;
      more.lanes = lanes;
      const Schedule schedule = build(algorithm, more);
      ++proof.schedules;
      if (balanced && repeats(schedule, proved)) continue;
      verify(schedule);
      ++proof.followed;
    }
  }
  return proof;
}

}  // namespace pycomm
