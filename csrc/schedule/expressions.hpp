// What a place holds, as an expression over the ranks' inputs; equal expressions have equal numbers, so equal bits are
// one comparison. Addition is commutative and not associative; a combine of two operands is a sum, one of more is a
// node of its own (it rounds once), of which the first two commute.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace pycomm {

class Expressions {
 public:
  using Id = std::uint32_t;
  static constexpr Id kNone = 0;  // nothing was written

  enum class Kind : std::uint8_t { none, input, sum, combine, scaled };

  struct Input {
    std::int32_t call, rank;  // below 2^15
    std::int32_t part;        // which part of its buffer: the caller's numbering
    bool operator==(const Input&) const = default;
  };

  Expressions();

  Id input(const Input& input);
  Id sum(Id a, Id b);
  Id combine(std::span<const Id> operands);
  Id scaled(Id operand);

  Kind kind(Id id) const { return nodes_[id].kind; }
  Input input_of(Id id) const;
  // The operands of a sum, a combine or a scaled.
  std::span<const Id> operands_of(Id id) const { return std::span(words_).subspan(nodes_[id].first, nodes_[id].words); }
  std::size_t size() const { return nodes_.size(); }

 private:
  struct Node {
    Kind kind;
    std::uint32_t first, words;  // of words_
  };

  Id intern(Kind kind, std::span<const Id> words);
  void grow();

  std::vector<Node> nodes_;
  std::vector<Id> words_;
  std::vector<Id> table_;  // open addressing, a power of two
};

}  // namespace pycomm
