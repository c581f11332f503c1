#include "algorithms/registry.hpp"

#include "base/error.hpp"

namespace pycomm {

Schedule build(std::string_view algorithm, const Shape&) {
  throw UsageError("unknown algorithm '" + std::string(algorithm) + "'");
}

}  // namespace pycomm
