// What must hold of a schedule before it can be followed at all.
#pragma once

#include <vector>

#include "schedule/schedule.hpp"

namespace pycomm {

// Every rank, lane, step and place that is named exists; nothing writes `in`. Raises ScheduleError.
void check_well_formed(const Schedule& schedule);

// Whether every lane number has the same segments on all ranks and, on every edge, as many sends as receives: then
// segments are independent (see verify.hpp).
bool edges_balance(const Schedule& schedule);

// One segment of each kind.
std::vector<std::int32_t> kinds_of_segments(const Schedule& schedule);

// Whether segment `a` of one schedule and segment `b` of the other are the same steps on every rank.
bool same_segment(const Schedule& one, std::int32_t a, const Schedule& other, std::int32_t b);

}  // namespace pycomm
