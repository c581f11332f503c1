// A status word in words.
#pragma once

#include <string>

#include "cuda/program.hpp"

namespace pycomm::device {

// "a message from rank 3 (lane 0, step 2, segment 1)"
inline std::string describe(std::uint64_t status) {
  const Waited waited = unpack_waited(status);
  const std::string peer = std::to_string(waited.peer);
  const std::string what = waited.reason == Waited::Reason::arrival ? "a message from rank " + peer
                           : waited.reason == Waited::Reason::room  ? "room in the queue to rank " + peer
                                                                    : "lane " + peer + " of this rank";
  return what + " (lane " + std::to_string(waited.lane) + ", step " + std::to_string(waited.step) + ", segment " +
         std::to_string(waited.segment) + ")";
}

}  // namespace pycomm::device
