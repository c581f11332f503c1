#include "schedule/builder.hpp"

#include <algorithm>
#include <string>

namespace pycomm::algorithms {

int Builder::option(std::string_view name, int otherwise) const {
  const auto found = shape_.options.find(std::string(name));
  return found == shape_.options.end() ? otherwise : found->second;
}

int Builder::push(const Step& step) {
  program_.bodies.back().push_back(step);
  return static_cast<int>(program_.bodies.back().size()) - 1;
}

int Builder::extent(Spot spot) {
  if (spot.place.buffer != Buffer::tmp) return -1;
  program_.tmp_chunks = std::max(program_.tmp_chunks, spot.place.chunk + 1);
  return spot.chunk;
}

int Builder::send(Spot from, int peer) {
  return push({.action = Action::send, .from = from.place, .chunk = extent(from), .peer = peer});
}

int Builder::recv(Spot to, int peer) {
  return push({.action = Action::recv, .to = to.place, .chunk = extent(to), .peer = peer});
}

int Builder::recv_reduce(Spot to, int peer) {
  return push({.action = Action::recv_reduce, .to = to.place, .chunk = extent(to), .peer = peer});
}

void Builder::join_last(int count) {
  longest_run_ = std::max(longest_run_, count);
  auto& steps = program_.bodies.back();
  for (std::size_t k = steps.size() - static_cast<std::size_t>(count) + 1; k < steps.size(); ++k)
    steps[k].joined = true;
}

void Builder::send(Run from, int peer) {
  for (int k = 0; k < from.count; ++k) send(from[k], peer);
  join_last(from.count);
}

void Builder::recv(Run to, int peer) {
  for (int k = 0; k < to.count; ++k) recv(to[k], peer);
  join_last(to.count);
}

void Builder::combine(Run to, Run mine, int peer) {
  for (int k = 0; k < to.count; ++k) combine(to[k], {own(mine[k]), message(peer)});
  join_last(to.count);
}

int Builder::copy(Spot to, Spot from) {
  if (same_memory(to.place, from.place, shape_.collective, shape_.in_place, rank_)) return -1;
  return push({.action = Action::copy, .to = to.place, .from = from.place, .chunk = extent(to)});
}

int Builder::reduce(Spot to, Spot from) {
  return push({.action = Action::reduce, .to = to.place, .from = from.place, .chunk = extent(to)});
}

void Builder::combine_all(Spot to, Spot mine) {
  std::vector<Operand> operands;
  for (int worker = 0; worker < workers_; ++worker) operands.push_back(worker == rank_ ? own(mine) : message(worker));
  combine(to, operands);
  scale(to);
}

int Builder::combine(Spot to, std::span<const Operand> operands) {
  if (operands.size() == 1) {
    if (operands[0].peer >= 0) return recv(to, operands[0].peer);
    return copy(to, {operands[0].place, to.chunk});
  }
  const auto first = static_cast<std::int32_t>(program_.operands.size());
  program_.operands.insert(program_.operands.end(), operands.begin(), operands.end());
  return push({.action = Action::combine,
               .to = to.place,
               .chunk = extent(to),
               .first_operand = first,
               .operands = static_cast<std::int32_t>(operands.size())});
}

int Builder::scale(Spot spot) { return push({.action = Action::scale, .to = spot.place, .chunk = extent(spot)}); }

int Builder::wait(int peer) { return push({.action = Action::wait, .peer = peer}); }

int Builder::after(int lane, int step) { return push({.action = Action::after, .lane = lane, .step = step}); }

}  // namespace pycomm::algorithms
