#include "cuda/timing.hpp"

#include <memory>

#include "base/clock.hpp"
#include "cuda/check.hpp"

namespace pycomm::device {

Stream::Stream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate"); }
Stream::~Stream() { cudaStreamDestroy(stream_); }

namespace {

class Event {
 public:
  Event() { check(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

class Graph {
 public:
  Graph(cudaStream_t stream, std::size_t batch, const std::function<void(cudaStream_t)>& launch) {
    cudaGraph_t captured = nullptr;
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    for (std::size_t i = 0; i < batch; ++i) launch(stream);
    check(cudaStreamEndCapture(stream, &captured), "cudaStreamEndCapture");
    const cudaError_t made = cudaGraphInstantiate(&graph_, captured, 0);
    cudaGraphDestroy(captured);
    check(made, "cudaGraphInstantiate");
    check(cudaGraphUpload(graph_, stream), "cudaGraphUpload");
    check(cudaStreamSynchronize(stream), "cudaGraphUpload");
  }
  ~Graph() { cudaGraphExecDestroy(graph_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void launch(cudaStream_t stream) const { check(cudaGraphLaunch(graph_, stream), "cudaGraphLaunch"); }

 private:
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace

StreamTimes time_stream(int device, cudaStream_t stream, const Sampling& sampling,
                        const std::function<void(cudaStream_t)>& launch) {
  const OnDevice on(device);
  const Event begin, end;
  std::unique_ptr<Graph> captured;
  if (sampling.graph) captured = std::make_unique<Graph>(stream, sampling.batch, launch);
  StreamTimes times;
  for (std::size_t sample = 0; sample < sampling.samples; ++sample) {
    if (sampling.barrier && (sample == 0 || sampling.barrier_each)) sampling.barrier();
    const std::int64_t start_ns = now_ns();
    check(cudaEventRecord(begin, stream), "cudaEventRecord");
    if (captured)
      captured->launch(stream);
    else
      for (std::size_t i = 0; i < sampling.batch; ++i) launch(stream);
    check(cudaEventRecord(end, stream), "cudaEventRecord");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    times.host_ns.push_back(now_ns() - start_ns);
    float elapsed_ms = 0;
    check(cudaEventElapsedTime(&elapsed_ms, begin, end), "cudaEventElapsedTime");
    times.event_ns.push_back(static_cast<std::int64_t>(static_cast<double>(elapsed_ms) * 1e6));
  }
  return times;
}

}  // namespace pycomm::device
