// What each rank must hold when a call ends: facts 1 and 2.
#include "schedule/simulation.hpp"
#include "schedule/text.hpp"

namespace pycomm {

std::string Simulation::name_of_input(Expressions::Id id) const {
  const auto input = expressions_.input_of(id);
  const auto segments = static_cast<std::int32_t>(segments_.size());
  return "chunk " + std::to_string(input.part / segments) + ", segment " +
         std::to_string(segments_[static_cast<std::size_t>(input.part % segments)]) + " of rank " +
         std::to_string(input.rank) + (input.call == 0 ? "" : " in call " + std::to_string(input.call));
}

// `value` is the sum of the part over all workers, each once, divided once.
void Simulation::check_sum(const Site& site, Expressions::Id value, std::int32_t part) {
  const std::int32_t call = rank_states_[static_cast<std::size_t>(site.rank)].call;
  const auto whole =
      static_cast<std::uint32_t>(part) * static_cast<std::uint32_t>(calls_) + static_cast<std::uint32_t>(call) + 1;
  if (value < complete_.size() && complete_[value] == whole) return;
  if (value == Expressions::kNone) refuse(schedule_, 1, site, "holds nothing at the end");
  if (expressions_.kind(value) != Expressions::Kind::scaled)
    refuse(schedule_, 1, site, "avg: the result was not divided by the number of contributors");
  ++walk_;
  std::int32_t met = 0;
  std::vector<Expressions::Id> open{expressions_.operands_of(value)[0]};
  while (!open.empty()) {
    const Expressions::Id id = open.back();
    open.pop_back();
    switch (expressions_.kind(id)) {
      case Expressions::Kind::scaled:
        refuse(schedule_, 1, site, "avg: divided more than once, or before the sum was complete");
      case Expressions::Kind::input: {
        const auto input = expressions_.input_of(id);
        std::int32_t& stamp = stamps_[static_cast<std::size_t>(input.rank)];
        if (input.call != call || input.part != part)
          refuse(schedule_, 1, site, "the result has " + name_of_input(id) + " in it");
        if (stamp == walk_) refuse(schedule_, 1, site, "the result has " + name_of_input(id) + " twice");
        stamp = walk_;
        ++met;
        break;
      }
      default:
        for (const Expressions::Id operand : expressions_.operands_of(id)) open.push_back(operand);
    }
  }
  if (met < schedule_.workers)
    for (std::int32_t rank = 0; rank < schedule_.workers; ++rank)
      if (stamps_[static_cast<std::size_t>(rank)] != walk_)
        refuse(schedule_, 1, site,
               "the result lacks rank " + std::to_string(rank) + "'s contribution: it has " + std::to_string(met) +
                   " of " + std::to_string(schedule_.workers));
  if (complete_.size() <= value) complete_.resize(expressions_.size(), 0);
  complete_[value] = whole;
}

void Simulation::check_copy(const Site& site, Expressions::Id value, std::int32_t from, std::int32_t part) {
  if (value == Expressions::kNone) refuse(schedule_, 1, site, "holds nothing at the end");
  const std::int32_t call = rank_states_[static_cast<std::size_t>(site.rank)].call;
  const Expressions::Id wanted = expressions_.input({call, from, part});
  if (value == wanted) return;
  const std::string found =
      expressions_.kind(value) == Expressions::Kind::input ? name_of_input(value) : std::string("a sum");
  refuse(schedule_, 1, site, "holds " + found + ", not " + name_of_input(wanted));
}

void Simulation::check_outcome(std::int32_t rank) {
  const RankState& state = rank_states_[static_cast<std::size_t>(rank)];
  const auto segments = static_cast<std::int32_t>(segments_.size());
  for (std::int32_t chunk = 0; chunk < state.layout.out_chunks(); ++chunk)
    for (std::int32_t segment = 0; segment < segments; ++segment) {
      const PlaceState& place = places_[state.first_place + static_cast<std::size_t>(part_number(chunk, segment))];
      const Site site{rank, place.writer < 0 ? 0 : place.writer, place.write_step,
                      segments_[static_cast<std::size_t>(segment)]};
      const Expressions::Id value = place.value;
      switch (schedule_.collective) {
        case Collective::allreduce:
        case Collective::reduce: check_sum(site, value, part_number(chunk, segment)); break;
        case Collective::reduce_scatter: check_sum(site, value, part_number(rank, segment)); continue;
        case Collective::allgather: check_copy(site, value, chunk, part_number(0, segment)); continue;
        case Collective::broadcast: check_copy(site, value, schedule_.root, part_number(chunk, segment)); continue;
        case Collective::alltoall: check_copy(site, value, chunk, part_number(rank, segment)); continue;
      }
      Expressions::Id& agreed =
          agreed_[static_cast<std::size_t>(state.call) * static_cast<std::size_t>(schedule_.out_chunks * segments) +
                  static_cast<std::size_t>(part_number(chunk, segment))];
      if (agreed == Expressions::kNone) agreed = value;
      if (agreed != value) refuse(schedule_, 2, site, "the sum was made in another order than on the other ranks");
    }
}

}  // namespace pycomm
