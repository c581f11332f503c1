// What a step does to the places, the queues and what its lane knows.
#include <algorithm>

#include "schedule/simulation.hpp"
#include "schedule/text.hpp"

namespace pycomm {

Simulation::Queue& Simulation::queue_at(std::size_t index) {
  std::int32_t& number = queue_numbers_[index];
  if (number < 0) {
    number = static_cast<std::int32_t>(queues_.size());
    queues_.emplace_back();
  }
  return queues_[static_cast<std::size_t>(number)];
}

PlaceState& Simulation::place_at(const LaneState& lane, Place place) {
  const RankState& rank = rank_states_[static_cast<std::size_t>(lane.rank)];
  const auto number = static_cast<std::size_t>(rank.layout.number(place));
  return places_[rank.first_place + number * segments_.size() + static_cast<std::size_t>(lane.segment)];
}

// The last write of a place must be the lane's own, or of a lane that it was made to come after.
void Simulation::need_over(const LaneState& lane, const PlaceState& place, const char* doing) {
  if (place.writer < 0 || place.writer == lane.number) return;
  if (lane.after[static_cast<std::size_t>(place.writer)] >= place.write_time) return;
  refuse(schedule_, 4, site_of(lane),
         std::string(doing) + " what lane " + std::to_string(place.writer) + ", step " +
             std::to_string(place.write_step) + " of this rank writes, with no `after` that orders the two");
}

Expressions::Id Simulation::read(LaneState& lane, Place from, const Step& step) {
  PlaceState& place = place_at(lane, from);
  need_over(lane, place, "reads");
  if (place.value == Expressions::kNone)
    refuse(schedule_, 1, site_of(lane), "reads " + text_of(from) + ", which nothing was written to");
  if (from.buffer != Buffer::tmp && step.action != Action::send && from.chunk != chunk_of(step) && !odd_extent_ &&
      schedule_.in_chunks == schedule_.out_chunks) {
    odd_extent_ = true;
    odd_site_ = site_of(lane);
    odd_text_ = "reads " + text_of(from) + " in a step of chunk " + std::to_string(chunk_of(step)) +
                ", which may have another size";
  }
  if (!track_reads_ || step.action == Action::send) return place.value;
  for (std::uint32_t use = place.reads; use != 0; use = uses_[use].next)
    if (uses_[use].by_lane == lane.number) {
      uses_[use].time = lane.time;
      uses_[use].step = lane.step;
      return place.value;
    }
  uses_.push(place.reads, {.lane = static_cast<std::int32_t>(lane_index(lane.rank, lane.number)),
                           .time = lane.time,
                           .step = lane.step,
                           .by_lane = lane.number});
  return place.value;
}

void Simulation::write(LaneState& lane, Place to, Expressions::Id value, const Step&) {
  PlaceState& place = place_at(lane, to);
  need_over(lane, place, "writes");
  for (std::uint32_t use = place.reads; use != 0; use = uses_[use].next)
    if (const Use& read = uses_[use];
        read.by_lane != lane.number && clocks_.get(lane.clock, static_cast<std::size_t>(read.lane)) < read.time)
      refuse(schedule_, 4, site_of(lane),
             "writes over what lane " + std::to_string(read.by_lane) + ", step " + std::to_string(read.step) +
                 " of this rank may still read");
  for (std::uint32_t use = place.holds; use != 0; use = uses_[use].next)
    if (const Use& hold = uses_[use];
        hold.time < 0 || clocks_.get(lane.clock, static_cast<std::size_t>(hold.lane)) < hold.time)
      refuse(schedule_, 4, site_of(lane),
             "writes over " + text_of(to) + ", which the send of lane " + std::to_string(hold.by_lane) + ", step " +
                 std::to_string(hold.step) + " holds until rank " +
                 std::to_string(static_cast<std::size_t>(hold.lane) / lanes_) + " has taken it");
  uses_.clear(place.reads);
  uses_.clear(place.holds);
  place.value = value;
  place.writer = lane.number;
  place.write_time = lane.time;
  place.write_step = lane.step;
}

void Simulation::send(LaneState& lane, const Step& step) {
  const Expressions::Id value = read(lane, step.from, step);
  PlaceState& place = place_at(lane, step.from);
  const std::size_t index = queue_index(lane.rank, step.peer, lane.number);
  Queue& queue = queue_at(index);
  Item item{.value = value,
            .clock = clocks_.share(lane.clock),
            .sent_time = lane.time,
            .hold = uses_.push(place.holds, {.lane = static_cast<std::int32_t>(lane_index(step.peer, lane.number)),
                                             .time = -1,
                                             .step = lane.step,
                                             .by_lane = lane.number}),
            .extent = chunk_of(step),
            .joined = step.joined,
            .landed = step.landed};
  if (step.landed) {
    if (!lane.stores || lane.stored != step.from)
      refuse(schedule_, 5, site_of(lane),
             "says that " + text_of(step.from) + " was stored at the peer, but no combine just before made it");
    item.store_clock = clocks_.share(lane.store_clock);
    item.store_time = lane.store_time;
  }
  if (!step.joined) queue.round = std::max(queue.round, lane.round) + 1;
  if (rank_states_[static_cast<std::size_t>(lane.rank)].call == 0) depth_ = std::max(depth_, queue.round);
  if (recording_) {
    if (step.joined) {
      ++messages_[queue.message].chunks;
    } else {
      queue.message = messages_.size();
      messages_.push_back({.from = lane.rank,
                           .to = step.peer,
                           .lane = lane.number,
                           .segment = segment_of(lane),
                           .source = step.from,
                           .chunk = item.extent,
                           .round = queue.round});
    }
    item.message = queue.message;
  }
  if (queue.full)
    behind_[index].push_back(item);
  else
    queue.item = item;
  queue.full = true;
  ++rank_states_[static_cast<std::size_t>(lane.rank)].untaken;
  const std::size_t receiver = lane_index(step.peer, lane.number);
  if (lane_states_[receiver].waits_on == static_cast<std::int64_t>(index)) wake(receiver);
}

// The message is read and what its sender knew is known; it stays in its queue until end_take().
Expressions::Id Simulation::take(LaneState& lane, std::int32_t from, const Step& step) {
  const Queue& queue = queue_at(queue_index(from, lane.rank, lane.number));
  const Item& item = queue.item;
  lane.clock = clocks_.merge(lane.clock, item.clock, lane_index(from, lane.number), item.sent_time);
  lane.round = std::max(lane.round, queue.round);
  if (item.joined != step.joined)
    refuse(schedule_, 0, site_of(lane), "one end joins the message to the one before, the other does not");
  if (recording_) messages_[item.message].adds = step.action != Action::recv;
  if (item.extent != chunk_of(step) && !odd_extent_ && schedule_.in_chunks == schedule_.out_chunks &&
      schedule_.collective != Collective::alltoall) {
    odd_extent_ = true;
    odd_site_ = site_of(lane);
    odd_text_ = "takes a message of chunk " + std::to_string(item.extent) + " from rank " + std::to_string(from) +
                ", which may have another size";
  }
  return item.value;
}

void Simulation::end_take(LaneState& lane, std::int32_t from) {
  const std::size_t index = queue_index(from, lane.rank, lane.number);
  Queue& queue = queue_at(index);
  uses_[queue.item.hold].time = lane.time;
  clocks_.drop(queue.item.clock);
  clocks_.drop(queue.item.store_clock);
  clocks_.drop(queue.take_clock);
  queue.take_clock = waiting_ ? clocks_.share(lane.clock) : Clocks::kNothing;
  queue.take_time = lane.time;
  queue.take_round = lane.round;
  if (const auto rest = behind_.find(index); rest != behind_.end()) {
    queue.item = rest->second.front();
    rest->second.pop_front();
    if (rest->second.empty()) behind_.erase(rest);
  } else {
    queue.full = false;
  }
  RankState& sender = rank_states_[static_cast<std::size_t>(from)];
  --sender.untaken;
  const std::size_t sending = lane_index(from, lane.number);
  if (lane_states_[sending].waits_on == static_cast<std::int64_t>(index)) wake(sending);
  end_call_if_over(from);
}

// A combine stores at the peers of the landed sends that follow it, its division and other sends of the same place.
void Simulation::remember_store(LaneState& lane, const Step& step) {
  const bool same = (step.action == Action::scale && step.to == lane.stored) ||
                    (step.action == Action::send && step.from == lane.stored);
  if (lane.stores && same) return;
  clocks_.drop(lane.store_clock);
  lane.store_clock = Clocks::kNothing;
  lane.stores = step.action == Action::combine;
  if (!lane.stores) return;
  lane.stored = step.to;
  lane.store_clock = clocks_.share(lane.clock);
  lane.store_time = lane.time;
}

// A landed message was stored by the combine: by then its rank must have known all uses of the place to be over.
void Simulation::check_landing(LaneState& lane, const Step& step, const Item& item) {
  const PlaceState& place = place_at(lane, step.to);
  const std::string stores = "rank " + std::to_string(step.peer) + " may store into " + text_of(step.to) + " while ";
  const auto known = [&](std::int32_t of, std::int32_t time) {
    if (static_cast<std::size_t>(of) == lane_index(step.peer, lane.number)) return item.store_time >= time;
    return clocks_.get(item.store_clock, static_cast<std::size_t>(of)) >= time;
  };
  const auto here = [&](std::int32_t l) { return static_cast<std::int32_t>(lane_index(lane.rank, l)); };
  if (place.writer >= 0 && !known(here(place.writer), place.write_time))
    refuse(schedule_, 5, site_of(lane),
           stores + "lane " + std::to_string(place.writer) + ", step " + std::to_string(place.write_step) +
               " of this rank has yet to write it");
  for (std::uint32_t use = place.reads; use != 0; use = uses_[use].next)
    if (const Use& read = uses_[use]; !known(read.lane, read.time))
      refuse(schedule_, 5, site_of(lane),
             stores + "lane " + std::to_string(read.by_lane) + ", step " + std::to_string(read.step) +
                 " of this rank has yet to read it");
  for (std::uint32_t use = place.holds; use != 0; use = uses_[use].next)
    if (const Use& hold = uses_[use]; hold.time < 0 || !known(hold.lane, hold.time))
      refuse(schedule_, 5, site_of(lane),
             stores + "the send of lane " + std::to_string(hold.by_lane) + ", step " + std::to_string(hold.step) +
                 " of this rank holds it");
}

void Simulation::receive(LaneState& lane, const Step& step) {
  const Item& item = queue_at(queue_index(step.peer, lane.rank, lane.number)).item;
  if (step.landed != item.landed)
    refuse(schedule_, 5, site_of(lane), "one end of the message says that it landed, the other does not");
  if (step.landed) check_landing(lane, step, item);
  Expressions::Id value = take(lane, step.peer, step);
  if (step.action == Action::recv_reduce) value = expressions_.sum(read(lane, step.to, step), value);
  write(lane, step.to, value, step);
  end_take(lane, step.peer);
}

void Simulation::combine(LaneState& lane, const Step& step) {
  const auto operands = program_of(lane).operands_of(step);
  for (const Operand& operand : operands)
    if (operand.peer >= 0 && queue_at(queue_index(operand.peer, lane.rank, lane.number)).item.landed)
      refuse(schedule_, 5, site_of(lane), "one end of the message says that it landed, the other does not");
  operand_values_.clear();
  for (const Operand& operand : operands)
    operand_values_.push_back(operand.peer < 0 ? read(lane, operand.place, step) : take(lane, operand.peer, step));
  write(lane, step.to, expressions_.combine(operand_values_), step);
  for (const Operand& operand : operands)
    if (operand.peer >= 0) end_take(lane, operand.peer);
}

}  // namespace pycomm
