// What a schedule costs, counted from its steps: nothing is run or timed here (simulate/ tells time).
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule.hpp"

namespace pycomm {

// A message of a schedule.
struct Message {
  std::int32_t from = 0, to = 0, lane = 0, segment = 0;
  Place source;             // of the sender
  std::int32_t chunk = 0;   // whose extent it has
  std::int32_t chunks = 1;  // of a run: from `chunk` on
  // From 1: after all messages its sender took before it, and after the one before on its queue.
  std::int32_t round = 0;
  bool adds = false;  // the receiver adds it to what it has
};

// All messages, by round, then sender, lane and in the order sent. Proves the schedule on the way: raises ScheduleError
// as verify() does.
std::vector<Message> messages_of(const Schedule& schedule);

struct Counts {
  std::int64_t steps = 0;     // of the rank with most, over all its lanes and segments
  std::int64_t messages = 0;  // sent or received by the rank with most
};

Counts counts_of(const Schedule& schedule);

struct Traffic {
  std::vector<std::int64_t> sent, received;  // bytes, by rank

  // The larger of sent and received, of the rank with most.
  std::int64_t busiest() const;
};

// `item_bytes`: of an element. Chunk borders lie on cache lines of 64 bytes, as in the engine.
Traffic traffic_of(const Schedule& schedule, std::int64_t count, std::int64_t item_bytes);

}  // namespace pycomm
