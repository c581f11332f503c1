#include "cuda/choose.hpp"

#include <algorithm>

namespace pycomm::device {

namespace {

// A line carries half of what it moves, so bulk wins once moving takes longer than a fence and a flag (about 1 µs, in
// which a link of 400 GB/s with one block a lane moves some 16 KiB). Not measured yet: docs/gpu.md.
constexpr std::int64_t kLongestLine = 16 << 10;
constexpr std::int64_t kLargestMessage = 256 << 10;
constexpr std::int64_t kSmallestMessage = 16 << 10;
constexpr std::int64_t kPage = 4096;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::int64_t most_edges_in(const DevicePlan& plan) {
  std::size_t most = 1;
  for (const RankPlan& rank : plan.ranks) most = std::max(most, rank.in.size());
  return static_cast<std::int64_t>(most);
}

}  // namespace

DevicePlan choose_device_plan(const std::string& algorithm, Shape shape, DType dtype, std::int64_t count,
                              const Limits& limits) {
  shape.segments = 1;
  shape.lanes = 1;
  const Schedule whole = build(algorithm, shape);
  const std::int64_t whole_bytes =
      largest_message(whole, count, align_of(dtype)) * static_cast<std::int64_t>(size_of(dtype));
  if (whole_bytes <= kLongestLine) return make_device_plan(whole, dtype, count, Form::line);

  const std::int64_t lanes = std::clamp<std::int64_t>(whole_bytes / kSmallestMessage, 1, limits.lanes);
  std::int64_t message = std::clamp(ceil_div(whole_bytes, lanes), kSmallestMessage, kLargestMessage);
  for (;;) {
    shape.segments = static_cast<int>(ceil_div(whole_bytes, message));
    shape.lanes = static_cast<int>(std::min<std::int64_t>(lanes, shape.segments));
    DevicePlan plan = make_device_plan(build(algorithm, shape), dtype, count, Form::bulk);
    const std::int64_t queues = most_edges_in(plan) * slots_of(Form::bulk) * plan.slot_bytes;
    if (queues <= limits.queue_bytes || message <= kPage) return plan;
    message = std::max(kPage, message / 2);
  }
}

}  // namespace pycomm::device
