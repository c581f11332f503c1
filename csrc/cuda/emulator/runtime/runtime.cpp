// CUDA's calls over the emulated devices, those that pycomm makes.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/emulator/runtime/bound_kernel.hpp"
#include "cuda/emulator/runtime/cuda_runtime.h"
#include "cuda/emulator/runtime/world.hpp"

using namespace pycomm::emulator;  // NOLINT: CUDA's functions are in no namespace

struct CUstream_st : Stream {};
struct CUevent_st {
  std::uint64_t time_ns = 0;
};
struct CUgraph_st {
  std::vector<Launch> launches;
};
struct CUgraphExec_st {
  std::vector<Launch> launches;
};

namespace {

constexpr int kThreadsPerProcessor = 2048;
constexpr int kSharedBytesPerProcessor = 228 << 10, kSharedBytesReserved = 1 << 10;  // of compute capability 9.0
constexpr int kSharedBytesOfAnyKernel = 48 << 10;                                    // without asking for more
constexpr std::uint64_t kSwitchNs = 100;  // by the clock of events, so that a call is long enough to be a sample
constexpr std::uint64_t kTurns = 2000;    // switches before another host thread gets its turn

thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;

cudaError_t result(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

// Runs a call under the lock; a fault of the emulator is CUDA's launch failure, and stays.
template <class Call>
cudaError_t guarded(const Call& call) {
  Turn turn;
  World& world = turn.world();
  if (!world.fault.empty()) return result(cudaErrorLaunchFailure);
  try {
    return result(call(world));
  } catch (const Fault& fault) {
    world.fault = fault.what();
    return result(cudaErrorLaunchFailure);
  }
}

Stream& stream_of(World& world, cudaStream_t stream) {
  return stream == nullptr ? world.defaults.at(static_cast<std::size_t>(current_device)) : *stream;
}

// Work of the host's side, in the stream's order.
cudaError_t put_task(World& world, Stream& stream, std::function<void()> task) {
  if (stream.capturing) return cudaErrorStreamCaptureUnsupported;
  put(world, stream, {1, 1, 0, std::move(task)});
  return cudaSuccess;
}

}  // namespace

const char* cudaGetErrorString(cudaError_t error) {
  thread_local std::string text;
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorPeerAccessAlreadyEnabled: return "peer access is already enabled";
    case cudaErrorNotPermitted: return "not while kernels of the device are in flight: they may wait for this rank";
    case cudaErrorStreamCaptureUnsupported: return "operation not permitted when stream is capturing";
    case cudaErrorLaunchFailure: {
      Turn turn;
      text = "unspecified launch failure: " + turn.world().fault;
      return text.c_str();
    }
    default: return "unknown error";
  }
}

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  Turn turn;
  *count = turn.world().devices;
  return *count == 0 ? cudaErrorNoDevice : cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  return guarded([&](World& world) {
    if (device < 0 || device >= world.devices) return cudaErrorInvalidDevice;
    current_device = device;
    return cudaSuccess;
  });
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "emulated device");
  properties->uuid.bytes[0] = static_cast<char>(device + 1);
  Turn turn;
  properties->major = turn.world().major;
  properties->multiProcessorCount = turn.world().processors;
  properties->totalGlobalMem = std::size_t{4} << 30;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  Turn turn;
  *value = attribute == cudaDevAttrMultiProcessorCount ? turn.world().processors : turn.world().major;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* possible, int, int) {
  *possible = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  return guarded([&](World& world) {
    bool& enabled = world.peers[{current_device, peer}];
    return std::exchange(enabled, true) ? cudaErrorPeerAccessAlreadyEnabled : cudaSuccess;
  });
}
cudaError_t cudaDeviceSynchronize() {
  return guarded([](World& world) { return busy(world, current_device) ? cudaErrorNotPermitted : cudaSuccess; });
}

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  return guarded([&](World& world) {
    if (busy(world, current_device)) return cudaErrorNotPermitted;
    *data = world.machine.memory().allocate(current_device, bytes, "device memory");
    world.allocations[reinterpret_cast<std::uintptr_t>(*data)] = {bytes, current_device};
    return cudaSuccess;
  });
}
cudaError_t cudaFree(void* data) {
  return guarded([&](World& world) {
    const auto found = world.allocations.find(reinterpret_cast<std::uintptr_t>(data));
    if (found == world.allocations.end()) return cudaErrorInvalidValue;
    if (busy(world, found->second.device)) return cudaErrorNotPermitted;
    world.machine.memory().release(data);
    world.allocations.erase(found);
    return cudaSuccess;
  });
}
cudaError_t cudaMallocHost(void** data, std::size_t bytes) {
  *data = std::calloc(1, bytes);
  return *data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) {
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* data, int byte, std::size_t bytes) {
  return guarded([&](World& world) {
    if (busy(world, current_device)) return cudaErrorNotPermitted;
    world.machine.memory().fill(data, byte, bytes);
    return cudaSuccess;
  });
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  return guarded([&](World& world) {
    move_bytes(world, to, from, bytes);
    return cudaSuccess;
  });
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  return guarded([&](World& world) {
    return put_task(world, stream_of(world, stream), [=, &world] { move_bytes(world, to, from, bytes); });
  });
}
cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, std::size_t bytes, cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* place) {
  return guarded([&](World& world) {
    const int owner = owner_of(world, place);
    *attributes = {owner < 0 ? cudaMemoryTypeUnregistered : cudaMemoryTypeDevice, owner};
    return cudaSuccess;
  });
}
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* data) {
  *handle = {};
  std::memcpy(handle->reserved, &data, sizeof data);
  return cudaSuccess;
}
cudaError_t cudaIpcOpenMemHandle(void** data, cudaIpcMemHandle_t handle, unsigned) {
  std::memcpy(data, handle.reserved, sizeof *data);
  return guarded([&](World& world) { return owner_of(world, *data) >= 0 ? cudaSuccess : cudaErrorInvalidValue; });
}
cudaError_t cudaIpcCloseMemHandle(void*) { return cudaSuccess; }

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  Turn turn;
  *attributes = {1024, 10 * turn.world().major};
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int value) {
  return guarded([&](World& world) {
    if (value > kSharedBytesPerProcessor - kSharedBytesReserved) return cudaErrorInvalidValue;
    world.shared_bytes[{current_device, kernel}] = value;
    return cudaSuccess;
  });
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int threads,
                                                          std::size_t shared_bytes) {
  const int shared = static_cast<int>(shared_bytes) + kSharedBytesReserved;
  *blocks = std::min({16, kThreadsPerProcessor / threads, kSharedBytesPerProcessor / shared});
  return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void* kernel, dim3 blocks, dim3 threads, void** arguments, std::size_t shared_bytes,
                             cudaStream_t stream) {
  return guarded([&](World& world) {
    const auto asked = world.shared_bytes.find({current_device, kernel});
    const int most = asked == world.shared_bytes.end() ? 0 : asked->second;
    if (static_cast<int>(shared_bytes) > std::max(most, kSharedBytesOfAnyKernel)) return cudaErrorInvalidValue;
    auto bound = bind_kernel(kernel, arguments[0], [&](const void* table) { return host_copy(world, table); });
    if (!bound) return cudaErrorInvalidValue;
    const auto shared = static_cast<std::uint32_t>(shared_bytes);
    put(world, stream_of(world, stream), {blocks.x, threads.x, shared, std::move(bound)});
    return cudaSuccess;
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return guarded([&](World& world) {
    int queue = world.next_queue;
    if (world.free_queues.empty()) {
      ++world.next_queue;
    } else {
      queue = world.free_queues.back();
      world.free_queues.pop_back();
    }
    world.device_of_queue[queue] = current_device;
    *stream = std::make_unique<CUstream_st>(CUstream_st{{current_device, queue, false, {}}}).release();
    return cudaSuccess;
  });
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::unique_ptr<CUstream_st> owned(stream);
  return guarded([&](World& world) {
    if (world.machine.idle(owned->queue)) world.free_queues.push_back(owned->queue);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  for (;;) {
    bool done = false;
    const cudaError_t error = guarded([&](World& world) {
      Stream& waited = stream_of(world, stream);
      if (waited.capturing) return cudaErrorStreamCaptureUnsupported;
      if (!world.machine.idle(waited.queue)) world.machine.advance(kTurns);
      done = world.machine.idle(waited.queue);
      return cudaSuccess;
    });
    if (done || error != cudaSuccess) return error;
    do std::this_thread::yield();
    while (Turn::is_awaited());
  }
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  stream->capturing = true;
  stream->captured.clear();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  stream->capturing = false;
  *graph = std::make_unique<CUgraph_st>(CUgraph_st{std::move(stream->captured)}).release();
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  *executable = std::make_unique<CUgraphExec_st>(CUgraphExec_st{graph->launches}).release();
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
  return guarded([](World& world) { return busy(world, current_device) ? cudaErrorNotPermitted : cudaSuccess; });
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return guarded([&](World& world) {
    for (const Launch& launch : executable->launches) put(world, stream_of(world, stream), launch);
    return cudaSuccess;
  });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const std::unique_ptr<CUgraph_st> owned(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  const std::unique_ptr<CUgraphExec_st> owned(executable);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = std::make_unique<CUevent_st>().release();
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const std::unique_ptr<CUevent_st> owned(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return guarded([&](World& world) {
    return put_task(world, stream_of(world, stream),
                    [event, &world] { event->time_ns = world.machine.clock_ns() * kSwitchNs; });
  });
}
cudaError_t cudaEventElapsedTime(float* elapsed_ms, cudaEvent_t begin, cudaEvent_t end) {
  *elapsed_ms = static_cast<float>(static_cast<double>(end->time_ns - begin->time_ns) * 1e-6);
  return cudaSuccess;
}
