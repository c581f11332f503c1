// Copies between host and devices, for `pycomm bench copy`.
#pragma once

#include <cstddef>
#include <string>

#include "cuda/timing.hpp"

namespace pycomm::device {

enum class CopyKind { host_to_device, device_to_host, device_to_device, peer_to_peer };

// Raises UsageError for another name: "h2d", "d2h", "d2d", "p2p".
CopyKind copy_kind_from(const std::string& name);

struct CopyCase {
  CopyKind kind;
  int device;          // the copy's stream is its
  int peer = 0;        // p2p: where the bytes go
  bool pinned = true;  // host memory that the device reaches by itself
  std::size_t bytes = 0;
};

StreamTimes time_copies(const CopyCase& given, std::size_t samples, std::size_t batch);

}  // namespace pycomm::device
