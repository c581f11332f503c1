// How the verifier words a refusal: the fact, and where it is broken.
#pragma once

#include <string>
#include <string_view>

#include "schedule/schedule.hpp"

namespace pycomm {

// A step of a lane of a rank, in its iteration for `segment`.
struct Site {
  std::int32_t rank = 0, lane = 0, step = 0, segment = 0;
};

// "rank 1, lane 0, step 3 (send out[2] to rank 2), segment 0, chunk 2"; a wait or an after is about the chunk of the
// nearest step that has one.
std::string text_of(const Schedule& schedule, const Site& site);

// Raises ScheduleError: "fact 4 (nothing is written over a place in use): <site>: <what>". Fact 0: it is no schedule.
[[noreturn]] void refuse(const Schedule& schedule, int fact, const Site& site, std::string_view what);

}  // namespace pycomm
