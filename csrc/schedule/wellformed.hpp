// What must hold of a schedule before it can be followed at all.
#pragma once

#include <vector>

#include "schedule/schedule.hpp"

namespace pycomm {

// Every rank, lane, step and place that is named exists; nothing writes `in`. Raises ScheduleError.
void check_well_formed(const Schedule& schedule);

// One segment of each kind if the segments are independent (see verify.hpp), else all of them.
std::vector<std::int32_t> segments_to_follow(const Schedule& schedule);

// Whether segment `a` of one schedule and segment `b` of the other are the same steps on every rank.
bool same_segment(const Schedule& one, std::int32_t a, const Schedule& other, std::int32_t b);

}  // namespace pycomm
