// Nobody can go on: who waits for whom. Fact 3.
#include "schedule/simulation.hpp"
#include "schedule/text.hpp"

namespace pycomm {

Simulation::Wait Simulation::wait_of(std::size_t index) const {
  const LaneState& lane = lane_states_[index];
  if (lane.done) {  // the rank waits at its end for its sends to be taken
    for (std::int32_t to = 0; to < schedule_.ranks; ++to)
      for (std::int32_t l = 0; l < static_cast<std::int32_t>(lanes_); ++l) {
        const std::int32_t number = queue_numbers_[queue_index(lane.rank, to, l)];
        if (number >= 0 && queues_[static_cast<std::size_t>(number)].full)
          return {static_cast<std::int64_t>(lane_index(to, l)),
                  "has done all its steps and waits for rank " + std::to_string(to) + " to take a message"};
      }
    for (std::int32_t l = 0; l < static_cast<std::int32_t>(lanes_); ++l)
      if (!lane_states_[lane_index(lane.rank, l)].done)
        return {static_cast<std::int64_t>(lane_index(lane.rank, l)),
                "has done all its steps and waits for lane " + std::to_string(l)};
    return {-1, "has ended"};
  }
  const auto steps = program_of(lane).steps(program_of(lane).lanes[static_cast<std::size_t>(lane.number)]);
  const Step& step = steps[static_cast<std::size_t>(lane.step)];
  if (step.action == Action::after)
    return {static_cast<std::int64_t>(lane_index(lane.rank, step.lane)),
            "waits for step " + std::to_string(step.step) + " of lane " + std::to_string(step.lane)};
  std::int32_t peer = step.peer;
  if (step.action == Action::combine)
    peer = program_of(lane).operands_of(step)[static_cast<std::size_t>(lane.operand)].peer;
  const bool receives = step.action != Action::send && step.action != Action::wait;
  const std::string who = "rank " + std::to_string(peer);
  return {static_cast<std::int64_t>(lane_index(peer, lane.number)),
          receives ? "waits for a message of " + who : "waits for " + who + " to take a message"};
}

void Simulation::refuse_deadlock() {
  std::size_t start = 0;  // a lane that has steps left, if any has
  while (start + 1 < lane_states_.size() && lane_states_[start].done) ++start;
  if (lane_states_[start].done) {
    start = 0;
    while (wait_of(start).lane < 0) ++start;
  }
  std::vector<std::size_t> chain{start};
  std::vector<std::int32_t> met(lane_states_.size(), -1);
  met[start] = 0;
  const auto told = [&](std::size_t index) {
    const LaneState& lane = lane_states_[index];
    const auto who = "rank " + std::to_string(lane.rank);
    if (lane.done) return who + " " + wait_of(index).text;
    return text_of(schedule_, site_of(lane)) + ", " + wait_of(index).text;
  };
  const auto site = [&](std::size_t index) {
    const LaneState& lane = lane_states_[index];
    if (!lane.done) return site_of(lane);
    return Site{.rank = lane.rank, .lane = lane.number, .step = lane.step, .segment = 0};
  };
  for (;;) {
    const Wait wait = wait_of(chain.back());
    const bool ends = wait.lane < 0 || (lane_states_[static_cast<std::size_t>(wait.lane)].done &&
                                        wait_of(static_cast<std::size_t>(wait.lane)).lane < 0);
    if (ends) {
      const std::size_t last = chain.back();
      refuse(schedule_, 3, site(last), wait.text + ", which has ended");
    }
    const auto next = static_cast<std::size_t>(wait.lane);
    if (met[next] >= 0) {
      std::string text = "a circle of waiting:";
      for (auto k = static_cast<std::size_t>(met[next]); k < chain.size(); ++k) text += "\n  " + told(chain[k]);
      refuse(schedule_, 3, site(next), text);
    }
    met[next] = static_cast<std::int32_t>(chain.size());
    chain.push_back(next);
  }
}

}  // namespace pycomm
