// Steps and places as people read them: "send out[2] to rank 3".
#pragma once

#include <string>

#include "schedule/schedule.hpp"

namespace pycomm {

std::string text_of(Place place);
std::string text_of(const Program& program, const Step& step);

// The chunk a step is about: the one whose extent it has, else of the place it names; -1 for wait and after.
std::int32_t chunk_of(const Step& step);

}  // namespace pycomm
