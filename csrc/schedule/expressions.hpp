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

  // Part `part` (the user's numbering) of what rank `rank` passed to call `call`.
  struct Input {
    std::int32_t call, rank, part;
  };

  Expressions(std::int32_t calls, std::int32_t ranks, std::int32_t parts);

  Id input(const Input& input) const {
    return 1 + (static_cast<Id>(input.call) * ranks_ + static_cast<Id>(input.rank)) * parts_ +
           static_cast<Id>(input.part);
  }
  Id sum(Id a, Id b);
  Id combine(std::span<const Id> operands);
  Id scaled(Id operand);

  Kind kind(Id id) const {
    return id == kNone ? Kind::none : id <= inputs_ ? Kind::input : nodes_[id - inputs_ - 1].kind;
  }
  Input input_of(Id id) const;
  // The operands of a sum, a combine or a scaled.
  std::span<const Id> operands_of(Id id) const {
    const Node& node = nodes_[id - inputs_ - 1];
    return std::span(words_).subspan(node.first, node.words);
  }
  std::size_t size() const { return nodes_.size() + inputs_ + 1; }

 private:
  struct Node {
    Kind kind;
    std::uint32_t first, words;  // of words_
  };

  Id intern(Kind kind, std::span<const Id> words);
  void grow();

  Id ranks_, parts_, inputs_;  // the inputs are numbered 1 … inputs_ and stored nowhere
  std::vector<Node> nodes_;
  std::vector<Id> words_;
  std::vector<Id> table_;  // open addressing, a power of two
};

}  // namespace pycomm
