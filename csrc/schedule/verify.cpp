#include "schedule/verify.hpp"

#include <numeric>

#include "schedule/simulation.hpp"
#include "schedule/wellformed.hpp"

namespace pycomm {

namespace {

constexpr std::int32_t kCalls = 2;  // back to back

std::int64_t segments_of(const Schedule& schedule, const Lane& lane) {
  return lane.first < schedule.segments ? (schedule.segments - 1 - lane.first) / lane.stride + 1 : 0;
}

}  // namespace

Facts verify(const Schedule& schedule, Depth depth) {
  check_well_formed(schedule);
  std::vector<std::int32_t> segments(static_cast<std::size_t>(schedule.segments));
  std::iota(segments.begin(), segments.end(), 0);
  if (depth == Depth::kinds) segments = segments_to_follow(schedule);

  Facts facts{.followed = static_cast<std::int32_t>(segments.size())};
  for (const Program& program : schedule.programs)
    for (const Lane& lane : program.lanes) {
      const auto times = segments_of(schedule, lane);
      facts.steps += times * static_cast<std::int64_t>(program.steps(lane).size());
      for (const Step& step : program.steps(lane))
        if (step.action == Action::send) facts.messages += times;
    }
  Simulation simulation(schedule, std::move(segments), kCalls);
  simulation.run();
  facts.expressions = static_cast<std::int64_t>(simulation.expressions());
  return facts;
}

}  // namespace pycomm
