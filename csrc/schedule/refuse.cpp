#include "schedule/refuse.hpp"

#include <array>

#include "base/error.hpp"
#include "schedule/text.hpp"

namespace pycomm {

namespace {

constexpr std::array<std::string_view, 6> kFacts = {"malformed",
                                                    "fact 1 (each contribution counts exactly once)",
                                                    "fact 2 (all ranks hold the same expression)",
                                                    "fact 3 (no deadlock with one slot a queue)",
                                                    "fact 4 (nothing is written over a place in use)",
                                                    "fact 5 (no early landing)"};

// The chunk of the step, else of the nearest step before or after it that has one.
std::int32_t nearest_chunk(std::span<const Step> steps, std::int32_t step) {
  const auto count = static_cast<std::int32_t>(steps.size());
  for (std::int32_t distance = 0; distance < count; ++distance)
    for (const std::int32_t at : {step - distance, step + distance})
      if (at >= 0 && at < count && chunk_of(steps[static_cast<std::size_t>(at)]) >= 0)
        return chunk_of(steps[static_cast<std::size_t>(at)]);
  return 0;
}

}  // namespace

std::string text_of(const Schedule& schedule, const Site& site) {
  const Program& program = schedule.programs[static_cast<std::size_t>(site.rank)];
  std::string text = "rank " + std::to_string(site.rank) + ", lane " + std::to_string(site.lane) + ", step " +
                     std::to_string(site.step);
  std::int32_t chunk = 0;
  if (static_cast<std::size_t>(site.lane) < program.lanes.size()) {
    const auto steps = program.steps(program.lanes[static_cast<std::size_t>(site.lane)]);
    if (static_cast<std::size_t>(site.step) < steps.size())
      text += " (" + text_of(program, steps[static_cast<std::size_t>(site.step)]) + ")";
    else
      text += " (its end)";
    chunk = nearest_chunk(steps, site.step);
  }
  return text + ", segment " + std::to_string(site.segment) + ", chunk " + std::to_string(chunk);
}

void refuse(const Schedule& schedule, int fact, const Site& site, std::string_view what) {
  throw ScheduleError(std::string(kFacts[static_cast<std::size_t>(fact)]) + ": " + text_of(schedule, site) + ": " +
                      std::string(what));
}

}  // namespace pycomm
