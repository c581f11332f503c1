#include "schedule/expressions.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace pycomm {

namespace {

std::size_t hash_of(Expressions::Kind kind, std::span<const Expressions::Id> words) {
  std::uint64_t hash = static_cast<std::uint64_t>(kind) + 0x9e3779b97f4a7c15;
  for (const std::uint32_t word : words) {
    hash = (hash ^ word) * 0xff51afd7ed558ccd;
    hash ^= hash >> 32;
  }
  return static_cast<std::size_t>(hash);
}

}  // namespace

Expressions::Expressions(std::int32_t calls, std::int32_t ranks, std::int32_t parts)
    : ranks_(static_cast<Id>(ranks)),
      parts_(static_cast<Id>(parts)),
      inputs_(static_cast<Id>(calls) * ranks_ * parts_),
      table_(1024, kNone) {}

Expressions::Id Expressions::intern(Kind kind, std::span<const Id> words) {
  const std::size_t mask = table_.size() - 1;
  std::size_t at = hash_of(kind, words) & mask;
  for (; table_[at] != kNone; at = (at + 1) & mask) {
    const Node& node = nodes_[table_[at] - inputs_ - 1];
    if (node.kind == kind && node.words == words.size() &&
        std::equal(words.begin(), words.end(), words_.begin() + node.first))
      return table_[at];
  }
  const Id id = static_cast<Id>(size());
  nodes_.push_back({kind, static_cast<std::uint32_t>(words_.size()), static_cast<std::uint32_t>(words.size())});
  words_.insert(words_.end(), words.begin(), words.end());
  table_[at] = id;
  if (nodes_.size() * 2 > table_.size()) grow();
  return id;
}

void Expressions::grow() {
  table_.assign(table_.size() * 2, kNone);
  const std::size_t mask = table_.size() - 1;
  for (Id id = inputs_ + 1; id < size(); ++id) {
    std::size_t at = hash_of(kind(id), operands_of(id)) & mask;
    while (table_[at] != kNone) at = (at + 1) & mask;
    table_[at] = id;
  }
}

Expressions::Input Expressions::input_of(Id id) const {
  const Id index = id - 1;
  return {static_cast<std::int32_t>(index / parts_ / ranks_), static_cast<std::int32_t>(index / parts_ % ranks_),
          static_cast<std::int32_t>(index % parts_)};
}

Expressions::Id Expressions::sum(Id a, Id b) {
  return intern(Kind::sum, std::array<Id, 2>{std::min(a, b), std::max(a, b)});
}

Expressions::Id Expressions::combine(std::span<const Id> operands) {
  if (operands.size() == 2) return sum(operands[0], operands[1]);
  std::vector<Id> ordered(operands.begin(), operands.end());
  if (ordered[0] > ordered[1]) std::swap(ordered[0], ordered[1]);
  return intern(Kind::combine, ordered);
}

Expressions::Id Expressions::scaled(Id operand) { return intern(Kind::scaled, std::array<Id, 1>{operand}); }

}  // namespace pycomm
