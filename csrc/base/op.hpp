// The reduction operators. `avg` is `sum` followed by one division by the number of contributors.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/error.hpp"

namespace pycomm {

enum class Op : std::uint8_t { sum, prod, min, max, avg };

inline constexpr std::array kOps = {Op::sum, Op::prod, Op::min, Op::max, Op::avg};

constexpr std::string_view name_of(Op op) {
  constexpr std::array<std::string_view, 5> names = {"sum", "prod", "min", "max", "avg"};
  return names[static_cast<std::size_t>(op)];
}

// Raises UsageError for a name that is not one of kOps.
inline Op op_from(std::string_view name) {
  for (Op op : kOps)
    if (name_of(op) == name) return op;
  throw UsageError("unknown op '" + std::string(name) + "': one of sum, prod, min, max, avg");
}

}  // namespace pycomm
