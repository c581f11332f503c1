// Proves a schedule right without running it. The five facts:
//
//   1  each contribution counts exactly once (and avg divides once, the complete sum)
//   2  all ranks hold the same expression, so their results are equal bit for bit
//   3  no deadlock with one slot a queue
//   4  nothing is written over a place that a send still holds, or that another lane may be using; what one lane wrote
//      another lane of the rank touches only `after` it: a message may carry its data and order nothing else
//   5  no early landing: a peer stores ahead of the receive only where it knows every earlier use to be over
//
// It follows the expression that each segment of each chunk holds on each rank, and what each lane can know of the
// others (vector clocks), through two calls back to back with the caller writing `in` and `out` between them. A send
// holds its place until the peer's receive step is over, a queue has one slot, and what one lane cannot know to be over
// is taken to be still going on, so what passes is right in every order in which the ranks may run.
//
// Segments. Where every lane number has, on all ranks, the same segments and per segment as many sends as receives
// on every edge, segment k of a sender meets segment k of the receiver; each segment uses places of its own; and
// running the segments one after another is one of the possible orders. A network of queues with one reader and one
// writer each either completes in every order or in none, so a schedule is right if one segment of each kind is. That
// condition is checked; where it does not hold all segments are followed. By the same argument the second call begins
// on each rank where the first began; past kStepsForTwoCalls one call is followed.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule.hpp"

namespace pycomm {

struct Facts {
  std::int64_t steps = 0;        // of all ranks, lanes and segments
  std::int64_t messages = 0;     // the same
  std::int64_t landings = 0;     // of the messages, those marked landed
  std::int64_t expressions = 0;  // different ones that were met
  std::int32_t followed = 0;     // segments that were followed; the others are of the same kinds
  std::int32_t calls = 0;        // that were followed
  std::int32_t depth = 0;        // the longest chain of messages within one segment, or all that were followed
};

inline constexpr std::int64_t kStepsForTwoCalls = 1 << 21;

enum class Depth : std::uint8_t {
  kinds,  // one segment of each kind where segments are independent
  all,    // every segment, and two calls
};

// Raises ScheduleError naming the fact, rank, lane, step, segment and chunk.
Facts verify(const Schedule& schedule, Depth depth = Depth::kinds);

}  // namespace pycomm
