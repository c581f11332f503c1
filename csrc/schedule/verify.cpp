#include "schedule/verify.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "schedule/simulation.hpp"
#include "schedule/wellformed.hpp"

namespace pycomm {

namespace {

std::int64_t segments_of(const Schedule& schedule, const Lane& lane) {
  return lane.first < schedule.segments ? (schedule.segments - 1 - lane.first) / lane.stride + 1 : 0;
}

std::vector<std::int32_t> all_segments(const Schedule& schedule) {
  std::vector<std::int32_t> segments(static_cast<std::size_t>(schedule.segments));
  std::iota(segments.begin(), segments.end(), 0);
  return segments;
}

}  // namespace

Facts verify(const Schedule& schedule, Depth depth) {
  check_well_formed(schedule);
  std::vector<std::int32_t> segments = all_segments(schedule);
  const bool independent = depth == Depth::kinds && edges_balance(schedule);
  if (independent) segments = kinds_of_segments(schedule);

  Facts facts{.followed = static_cast<std::int32_t>(segments.size())};
  for (const Program& program : schedule.programs)
    for (const Lane& lane : program.lanes) {
      const auto times = segments_of(schedule, lane);
      facts.steps += times * static_cast<std::int64_t>(program.steps(lane).size());
      for (const Step& step : program.steps(lane))
        if (step.action == Action::send && !step.joined) {
          facts.messages += times;
          facts.landings += step.landed ? times : 0;
        }
    }
  facts.calls = independent && facts.steps / schedule.segments * facts.followed > kStepsForTwoCalls ? 1 : 2;
  Simulation simulation(schedule, std::move(segments), facts.calls);
  simulation.run();
  facts.depth = simulation.depth();
  facts.expressions = static_cast<std::int64_t>(simulation.expressions());
  return facts;
}

std::vector<Message> messages_of(const Schedule& schedule) {
  check_well_formed(schedule);
  std::vector<std::int32_t> segments(static_cast<std::size_t>(schedule.segments));
  std::iota(segments.begin(), segments.end(), 0);
  Simulation simulation(schedule, std::move(segments), 1);
  simulation.record();
  simulation.run();
  std::vector<Message> messages = std::move(simulation.messages());
  std::stable_sort(messages.begin(), messages.end(), [](const Message& a, const Message& b) {
    return std::tie(a.round, a.from, a.lane) < std::tie(b.round, b.from, b.lane);
  });
  return messages;
}

}  // namespace pycomm
