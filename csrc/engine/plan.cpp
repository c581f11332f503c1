#include "engine/plan.hpp"

#include <algorithm>

#include "schedule/fuse.hpp"

namespace pycomm {

namespace {

// A symmetric buffer is read in place, so its messages are cut only to let hops overlap.
constexpr std::int64_t kPostedMessage = 512 << 10;
constexpr int kMostLanes = 4;
constexpr std::int64_t kAlign = 64;  // bytes: a cache line

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

bool reduces(Collective collective) {
  return collective == Collective::allreduce || collective == Collective::reduce_scatter ||
         collective == Collective::reduce;
}

std::int64_t align_of(const Call& call) { return kAlign / static_cast<std::int64_t>(size_of(call.dtype)); }

}  // namespace

Extent Plan::extent(std::int32_t chunk, std::int32_t segment) const {
  return extent_of(schedule, call.count, align_of(call), chunk, segment);
}

std::int64_t Plan::tmp_stride() const {
  const std::int64_t align = align_of(call);
  const Extent first = part_of({0, call.count}, schedule.chunks, 0, equal_blocks(call.collective) ? 1 : align);
  return ceil_div(first.count, align) * align;
}

std::string Plan::signature() const {
  std::string text{name_of(call.collective)};
  text += " of " + std::to_string(call.count) + " " + std::string(name_of(call.dtype)) + " by " + call.algorithm;
  for (const auto& [key, value] : call.options) text += (":" + key + "=") + std::to_string(value);
  if (reduces(call.collective)) text += ", op " + std::string(name_of(call.op));
  if (has_root(call.collective)) text += ", root " + std::to_string(call.root);
  // A dedicated server passes no buffers, so it does not know how its workers pass theirs.
  if (schedule.workers == schedule.ranks) {
    // Where the result of a reduce goes concerns its root alone: the others have no output, and do the same either way.
    if (call.collective != Collective::reduce) text += call.in_place ? ", in place" : ", out of place";
    text += call.symmetric ? ", symmetric buffers" : ", ordinary buffers";
  }
  return text + " (" + std::to_string(schedule.segments) + " segments)";
}

Plan make_plan(const Call& call, int ranks, std::size_t slot_bytes) {
  Shape shape;
  shape.collective = call.collective;
  shape.ranks = ranks;
  shape.in_place = call.in_place;
  shape.root = call.root;
  shape.options = call.options;
  Plan plan{call, build(call.algorithm, shape), 1};
  const auto item = static_cast<std::int64_t>(size_of(call.dtype));
  const std::int64_t most = call.symmetric ? kPostedMessage : static_cast<std::int64_t>(slot_bytes);
  const auto message = [&] { return largest_message(plan.schedule, call.count, align_of(call)) * item; };
  for (std::int64_t segments = ceil_div(message(), most); message() > most; ++segments) {  // borders may add to a run
    shape.segments = static_cast<int>(segments);
    shape.lanes = static_cast<int>(std::min<std::int64_t>(segments, kMostLanes));
    plan.schedule = build(call.algorithm, shape);
    plan.lanes = shape.lanes;
  }
  if (call.symmetric) fuse_landings(plan.schedule);
  return plan;
}

}  // namespace pycomm
