// Landing: where a rank sends on what it has just combined, and the peer only receives it into its `out`, the combine
// can store there itself, if the sender knows that every earlier use of that place is over. For buffers that peers can
// reach. The combine then reads every operand once and writes every output once: no byte crosses memory twice.
#pragma once

#include "schedule/schedule.hpp"

namespace pycomm {

// Marks such sends and their receives as landed. The schedule stays as it is otherwise; verify() proves the result.
void fuse_landings(Schedule& schedule);

}  // namespace pycomm
