#include "schedule/simulation.hpp"

#include <algorithm>
#include <utility>

namespace pycomm {

namespace {

bool does(const Lane& lane, std::int32_t segment) {
  return segment >= lane.first && (segment - lane.first) % lane.stride == 0;
}

std::size_t most_lanes(const Schedule& schedule) {
  std::size_t lanes = 1;
  for (const Program& program : schedule.programs) lanes = std::max(lanes, program.lanes.size());
  return lanes;
}

std::int64_t last_time(const Schedule& schedule, std::size_t segments, std::int32_t calls) {
  std::size_t longest = 0;
  for (const Program& program : schedule.programs)
    for (const auto& body : program.bodies) longest = std::max(longest, body.size());
  return static_cast<std::int64_t>(longest * segments) * calls;
}

template <class Predicate>
bool any_step(const Schedule& schedule, Predicate predicate) {
  for (const Program& program : schedule.programs)
    for (const auto& body : program.bodies)
      if (std::any_of(body.begin(), body.end(), predicate)) return true;
  return false;
}

}  // namespace

Simulation::Simulation(const Schedule& schedule, std::vector<std::int32_t> segments, std::int32_t calls)
    : schedule_(schedule),
      segments_(std::move(segments)),
      calls_(calls),
      lanes_(most_lanes(schedule)),
      queue_numbers_(static_cast<std::size_t>(schedule.ranks) * static_cast<std::size_t>(schedule.ranks) * lanes_, -1),
      expressions_(calls, schedule.ranks, schedule.chunks * static_cast<std::int32_t>(segments_.size())),
      clocks_(static_cast<std::size_t>(schedule.ranks) * lanes_, last_time(schedule, segments_.size(), calls)),
      landing_(any_step(schedule, [](const Step& step) { return step.landed; })),
      waiting_(any_step(schedule, [](const Step& step) { return step.action == Action::wait; })),
      track_reads_(landing_ || lanes_ > 1),
      stamps_(static_cast<std::size_t>(schedule.ranks), -1) {
  std::size_t places = 0;
  lane_states_.resize(static_cast<std::size_t>(schedule.ranks) * lanes_);
  for (std::int32_t rank = 0; rank < schedule.ranks; ++rank) {
    rank_states_.push_back({.call = -1, .first_place = places, .layout = Layout(schedule, rank)});
    places += static_cast<std::size_t>(rank_states_.back().layout.places()) * segments_.size();
    for (std::size_t l = 0; l < lanes_; ++l) {
      LaneState& lane = lane_states_[lane_index(rank, static_cast<std::int32_t>(l))];
      lane.rank = rank;
      lane.number = static_cast<std::int32_t>(l);
      if (lanes_ > 1) lane.after.assign(lanes_, 0);
      lane.done = true;
    }
    for (const auto& body : schedule.programs[static_cast<std::size_t>(rank)].bodies)
      for (const Step& step : body)
        if (step.action == Action::after) lane_states_[lane_index(rank, step.lane)].watched = true;
  }
  places_.resize(places);
  const Layout widest(schedule, schedule.root);
  agreed_.resize(static_cast<std::size_t>(calls) *
                     static_cast<std::size_t>(std::max(widest.out_chunks(), schedule.out_chunks)) * segments_.size(),
                 Expressions::kNone);
}

void Simulation::run() {
  for (std::int32_t rank = 0; rank < schedule_.ranks; ++rank) enter_call(rank);
  while (!ready_.empty()) {
    const std::size_t lane = ready_.back();
    ready_.pop_back();
    lane_states_[lane].queued = false;
    go_on(lane);
  }
  for (const RankState& rank : rank_states_)
    if (rank.call < calls_) refuse_deadlock();
  if (odd_extent_) refuse(schedule_, 0, odd_site_, odd_text_);
}

void Simulation::enter_call(std::int32_t rank) {
  RankState& state = rank_states_[static_cast<std::size_t>(rank)];
  ++state.call;
  if (state.call == calls_) return;
  const auto segments = static_cast<std::int32_t>(segments_.size());
  const auto index = [&](std::int32_t place, std::int32_t segment) {
    return state.first_place + static_cast<std::size_t>(place * segments + segment);
  };
  for (std::int32_t place = 0; place < state.layout.places(); ++place)
    for (std::int32_t segment = 0; segment < segments; ++segment) {
      PlaceState& written = places_[index(place, segment)];
      uses_.clear(written.reads);
      uses_.clear(written.holds);
      written = PlaceState{};
    }
  for (std::int32_t chunk = 0; chunk < state.layout.in_chunks(); ++chunk)
    for (std::int32_t segment = 0; segment < segments; ++segment)
      places_[index(state.layout.number({Buffer::in, chunk}), segment)].value =
          expressions_.input({state.call, rank, part_number(chunk, segment)});

  const Program& program = schedule_.programs[static_cast<std::size_t>(rank)];
  state.running = static_cast<std::int32_t>(program.lanes.size());
  for (std::int32_t l = 0; l < static_cast<std::int32_t>(program.lanes.size()); ++l) {
    LaneState& lane = lane_states_[lane_index(rank, l)];
    lane.segment = 0;
    lane.done = false;
    skip_segments_of_others(lane);
    wake(lane_index(rank, l));
  }
  if (state.running == 0) end_call_if_over(rank);
}

void Simulation::end_call_if_over(std::int32_t rank) {
  const RankState& state = rank_states_[static_cast<std::size_t>(rank)];
  if (state.running > 0 || state.untaken > 0 || state.call == calls_) return;
  check_outcome(rank);
  for (std::size_t l = 0; l < lanes_; ++l) {
    const LaneState& lane = lane_states_[lane_index(rank, static_cast<std::int32_t>(l))];
    if (!lane.watched) continue;
    std::erase_if(past_, [&](const auto& entry) {
      if (entry.first >> 40 != lane_index(rank, lane.number)) return false;
      clocks_.drop(entry.second.clock);
      return true;
    });
  }
  enter_call(rank);
}

void Simulation::skip_segments_of_others(LaneState& lane) const {
  const Lane& does_these = program_of(lane).lanes[static_cast<std::size_t>(lane.number)];
  while (static_cast<std::size_t>(lane.segment) < segments_.size() && !does(does_these, segment_of(lane)))
    ++lane.segment;
  lane.step = 0;
  lane.operand = 0;
}

void Simulation::wake(std::size_t lane) {
  LaneState& state = lane_states_[lane];
  state.waits_on = -1;
  if (state.queued || state.done) return;
  state.queued = true;
  ready_.push_back(lane);
}

void Simulation::go_on(std::size_t index) {
  LaneState& lane = lane_states_[index];
  if (lane.done) return;
  const auto steps = program_of(lane).steps(program_of(lane).lanes[static_cast<std::size_t>(lane.number)]);
  while (static_cast<std::size_t>(lane.segment) < segments_.size()) {
    while (static_cast<std::size_t>(lane.step) < steps.size()) {
      if (!do_step(lane, steps[static_cast<std::size_t>(lane.step)])) return;
      ++lane.step;
      lane.operand = 0;
    }
    ++lane.segment;
    skip_segments_of_others(lane);
  }
  lane.done = true;
  --rank_states_[static_cast<std::size_t>(lane.rank)].running;
  end_call_if_over(lane.rank);
}

bool Simulation::has_arrived(LaneState& lane, std::int32_t from) {
  const std::size_t index = queue_index(from, lane.rank, lane.number);
  if (queue_at(index).full) return true;
  lane.waits_on = static_cast<std::int64_t>(index);
  return false;
}

bool Simulation::all_arrived(LaneState& lane, const Step& step) {
  const auto operands = program_of(lane).operands_of(step);
  for (; lane.operand < step.operands; ++lane.operand)
    if (const auto peer = operands[static_cast<std::size_t>(lane.operand)].peer; peer >= 0 && !has_arrived(lane, peer))
      return false;
  return true;
}

// Whether the queue to the peer is empty: to send into it, or because all earlier sends have been taken.
bool Simulation::may_send(LaneState& lane, const Step& step) {
  const std::size_t index = queue_index(lane.rank, step.peer, lane.number);
  if (!queue_at(index).full) return true;
  lane.waits_on = static_cast<std::int64_t>(index);
  return false;
}

bool Simulation::past(LaneState& lane, const Step& step) {
  const std::size_t other = lane_index(lane.rank, step.lane);
  const auto found = past_.find(static_cast<std::uint64_t>(other) << 40 | static_cast<std::uint64_t>(step.step) << 16 |
                                static_cast<std::uint64_t>(lane.segment));
  if (found == past_.end()) {
    lane.waits_on = kAfter;
    return false;
  }
  lane.clock = clocks_.merge(lane.clock, found->second.clock, other, found->second.time);
  lane.round = std::max(lane.round, found->second.round);
  for (std::size_t l = 0; l < lanes_; ++l) lane.after[l] = std::max(lane.after[l], found->second.after[l]);
  std::int32_t& reached = lane.after[static_cast<std::size_t>(step.lane)];
  reached = std::max(reached, found->second.time);
  return true;
}

bool Simulation::do_step(LaneState& lane, const Step& step) {
  const auto over = [&] { ++lane.time; };
  switch (step.action) {
    case Action::send:
      if (!step.joined && !may_send(lane, step)) return false;
      over();
      send(lane, step);
      break;
    case Action::recv:
    case Action::recv_reduce:
      if (!has_arrived(lane, step.peer)) return false;
      over();
      receive(lane, step);
      break;
    case Action::combine:
      if (!all_arrived(lane, step)) return false;
      over();
      combine(lane, step);
      break;
    case Action::copy:
      over();
      write(lane, step.to, read(lane, step.from, step), step);
      break;
    case Action::reduce: {
      over();
      const auto a = read(lane, step.to, step), b = read(lane, step.from, step);
      write(lane, step.to, expressions_.sum(a, b), step);
      break;
    }
    case Action::scale:
      over();
      write(lane, step.to, expressions_.scaled(read(lane, step.to, step)), step);
      break;
    case Action::wait:
      if (!may_send(lane, step)) return false;
      over();
      if (Queue& queue = queue_at(queue_index(lane.rank, step.peer, lane.number)); queue.take_time > 0) {
        lane.clock = clocks_.merge(lane.clock, queue.take_clock, lane_index(step.peer, lane.number), queue.take_time);
        lane.round = std::max(lane.round, queue.take_round);
        clocks_.drop(queue.take_clock);  // known now
        queue.take_clock = Clocks::kNothing;
      }
      break;
    case Action::after:
      if (!past(lane, step)) return false;
      over();
      break;
  }
  if (landing_) remember_store(lane, step);
  if (!lane.watched) return true;
  const std::size_t mine = lane_index(lane.rank, lane.number);
  past_[static_cast<std::uint64_t>(mine) << 40 | static_cast<std::uint64_t>(lane.step) << 16 |
        static_cast<std::uint64_t>(lane.segment)] = {clocks_.share(lane.clock), lane.time, lane.round, lane.after};
  for (std::size_t l = 0; l < lanes_; ++l)
    if (const std::size_t other = lane_index(lane.rank, static_cast<std::int32_t>(l));
        lane_states_[other].waits_on == kAfter)
      wake(other);
  return true;
}

}  // namespace pycomm
