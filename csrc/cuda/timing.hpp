// Times what is put on a stream, by events on the stream and by the host's clock.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace pycomm::device {

// A stream of the device that is current when it is made; it waits for no default stream. Raises DeviceError.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

struct StreamTimes {
  // A sample each: from the first launch's beginning to the last one's end, on the device; and from before the first
  // launch until the stream is empty, by the host's clock.
  std::vector<std::int64_t> event_ns;
  std::vector<std::int64_t> host_ns;
};

struct Sampling {
  std::size_t samples = 1;
  std::size_t batch = 1;               // launches a sample
  bool graph = false;                  // the batch is captured once and launched as one CUDA graph
  std::function<void()> barrier = {};  // among ranks, while this one has nothing in flight; empty: none
  bool barrier_each = true;            // before each sample; else before the first alone
};

// Times `launch` on a stream of `device`. Whatever may wait for other kernels of the device (making events, a graph,
// and sending it there) is over before the first barrier: a rank that shares the device waits in a kernel soon after.
StreamTimes time_stream(int device, cudaStream_t stream, const Sampling& sampling,
                        const std::function<void(cudaStream_t)>& launch);

}  // namespace pycomm::device
