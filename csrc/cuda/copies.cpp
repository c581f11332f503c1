#include "cuda/copies.hpp"

#include <vector>

#include "cuda/check.hpp"
#include "cuda/devices.hpp"

namespace pycomm::device {

namespace {

class HostMemory {
 public:
  HostMemory(std::size_t bytes, bool pinned) {
    if (!pinned) {
      pageable_.assign(bytes, 1);  // touched, so that no copy waits for its pages
      data_ = pageable_.data();
      return;
    }
    check(cudaMallocHost(&pinned_, bytes), "cudaMallocHost of " + std::to_string(bytes) + " bytes");
    data_ = pinned_;
  }
  ~HostMemory() {
    if (pinned_ != nullptr) cudaFreeHost(pinned_);
  }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  void* data() const { return data_; }

 private:
  std::vector<char> pageable_;
  void* pinned_ = nullptr;
  void* data_ = nullptr;
};

}  // namespace

CopyKind copy_kind_from(const std::string& name) {
  if (name == "h2d") return CopyKind::host_to_device;
  if (name == "d2h") return CopyKind::device_to_host;
  if (name == "d2d") return CopyKind::device_to_device;
  if (name == "p2p") return CopyKind::peer_to_peer;
  throw UsageError("unknown copy '" + name + "': one of h2d, d2h, d2d, p2p");
}

StreamTimes time_copies(const CopyCase& given, std::size_t samples, std::size_t batch) {
  const bool p2p = given.kind == CopyKind::peer_to_peer;
  if (p2p) enable_peer_access(given.device, given.peer);
  const DeviceMemory here(given.device, given.bytes);
  const DeviceMemory there(p2p ? given.peer : given.device, given.bytes);
  const OnDevice on(given.device);
  const HostMemory host(given.bytes, given.pinned);
  const auto launch = [&](cudaStream_t stream) {
    switch (given.kind) {
      case CopyKind::host_to_device:
        check(cudaMemcpyAsync(here.data(), host.data(), given.bytes, cudaMemcpyHostToDevice, stream), "copy h2d");
        break;
      case CopyKind::device_to_host:
        check(cudaMemcpyAsync(host.data(), here.data(), given.bytes, cudaMemcpyDeviceToHost, stream), "copy d2h");
        break;
      case CopyKind::device_to_device:
        check(cudaMemcpyAsync(there.data(), here.data(), given.bytes, cudaMemcpyDeviceToDevice, stream), "copy d2d");
        break;
      case CopyKind::peer_to_peer:
        check(cudaMemcpyPeerAsync(there.data(), given.peer, here.data(), given.device, given.bytes, stream),
              "copy p2p");
        break;
    }
  };
  const Stream stream;
  return time_stream(given.device, stream, {.samples = samples, .batch = batch}, launch);
}

}  // namespace pycomm::device
