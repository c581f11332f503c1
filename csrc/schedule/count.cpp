#include "schedule/count.hpp"

#include <algorithm>

#include "schedule/text.hpp"

namespace pycomm {

namespace {

constexpr std::int64_t kCacheLine = 64;  // bytes

std::int64_t times_of(const Schedule& schedule, const Lane& lane) {
  return lane.first < schedule.segments ? (schedule.segments - 1 - lane.first) / lane.stride + 1 : 0;
}

}  // namespace

std::int64_t Traffic::busiest() const {
  std::int64_t most = 0;
  for (std::size_t rank = 0; rank < sent.size(); ++rank) most = std::max({most, sent[rank], received[rank]});
  return most;
}

Traffic traffic_of(const Schedule& schedule, std::int64_t count, std::int64_t item_bytes) {
  const std::int64_t align = std::max<std::int64_t>(1, kCacheLine / item_bytes);
  const auto ranks = static_cast<std::size_t>(schedule.ranks);
  Traffic traffic{std::vector<std::int64_t>(ranks, 0), std::vector<std::int64_t>(ranks, 0)};
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const Program& program = schedule.programs[rank];
    for (const Lane& lane : program.lanes)
      for (const Step& step : program.steps(lane)) {
        if (step.action != Action::send) continue;
        for (std::int32_t segment = lane.first; segment < schedule.segments; segment += lane.stride) {
          const auto bytes = extent_of(schedule, count, align, chunk_of(step), segment).count * item_bytes;
          traffic.sent[rank] += bytes;
          traffic.received[static_cast<std::size_t>(step.peer)] += bytes;
        }
      }
  }
  return traffic;
}

Counts counts_of(const Schedule& schedule) {
  Counts counts;
  const auto ranks = static_cast<std::size_t>(schedule.ranks);
  std::vector<std::int64_t> sent(ranks, 0), received(ranks, 0);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const Program& program = schedule.programs[rank];
    std::int64_t steps = 0;
    for (const Lane& lane : program.lanes) {
      const std::int64_t times = times_of(schedule, lane);
      steps += times * static_cast<std::int64_t>(program.steps(lane).size());
      for (const Step& step : program.steps(lane))
        if (step.action == Action::send && !step.joined) {
          sent[rank] += times;
          received[static_cast<std::size_t>(step.peer)] += times;
        }
    }
    counts.steps = std::max(counts.steps, steps);
  }
  for (std::size_t rank = 0; rank < ranks; ++rank)
    counts.messages = std::max({counts.messages, sent[rank], received[rank]});
  return counts;
}

}  // namespace pycomm
