// Proves an algorithm of the registry for one world: out of place and in place, any number of segments and lanes, as
// built and with landings (fuse.hpp).
#pragma once

#include <string_view>

#include "schedule/shape.hpp"
#include "schedule/verify.hpp"

namespace pycomm {

struct Proof {
  Facts facts;                 // of the largest schedule, out of place
  std::int32_t schedules = 0;  // proved: in place or not, with 1, 2, 3, 5 segments, on 1 lane or more
  std::int64_t landings = 0;   // messages stored by the combine that makes them, where buffers can be reached
  std::int32_t followed = 0;   // of them step by step; the others repeat the same steps for more segments
};

// shape.segments, shape.lanes and shape.in_place are not looked at. Raises ScheduleError; UsageError as build() does.
Proof prove(std::string_view algorithm, const Shape& shape);

}  // namespace pycomm
