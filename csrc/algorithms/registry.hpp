// The registry of algorithms: build() makes the schedule of any of them. An algorithm is one file and one row.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/schedule.hpp"
#include "schedule/shape.hpp"

namespace pycomm {

namespace algorithms {
class Builder;
}

struct OptionRow {
  std::string_view name;
  std::string_view summary;
  int otherwise;  // the value if it is not given; -1: a flag
};

struct Variant {
  Collective collective;
  void (*program)(algorithms::Builder&);  // what one rank does
};

struct AlgorithmRow {
  std::string_view name;
  std::string_view alias;    // "" if it has none
  std::string_view display;  // in tables and pictures
  std::string_view summary;
  std::string_view source;
  std::vector<Variant> variants;
  std::vector<OptionRow> options;
};

inline constexpr int kMaxRanks = 1024;           // up to so many every row is proved
inline constexpr int kMaxSimulatedRanks = 8192;  // and up to so many it is timed on a model of a network

std::span<const AlgorithmRow> registry();

// By name or alias; raises UsageError, listing the names, if there is none.
const AlgorithmRow& algorithm_row(std::string_view name);

// Why the algorithm cannot run on this shape ("ps: needs a worker"); nothing if it can.
std::optional<std::string> refusal(const AlgorithmRow& row, const Shape& shape);

// Options in the row's order, with defaults: "servers=2,dedicated". Raises UsageError for an option or a value that
// the row does not have.
std::string canonical_options(const AlgorithmRow& row, const Options& options);

// Raises UsageError for an unknown name or option, for more than `most_ranks`, and for a shape the algorithm does not
// apply to.
Schedule build(std::string_view algorithm, const Shape& shape, int most_ranks = kMaxRanks);

}  // namespace pycomm
