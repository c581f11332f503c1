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

// `samples` samples of `batch` launches each, on a stream of its own of `device`. before() runs before each sample,
// when the stream is empty (a barrier among ranks). graph: the batch is captured once and launched as one CUDA graph.
StreamTimes time_stream(int device, std::size_t samples, std::size_t batch, bool graph,
                        const std::function<void(cudaStream_t)>& launch, const std::function<void()>& before);

}  // namespace pycomm::device
