#include "cuda/operation.hpp"

#include <algorithm>
#include <cstring>

#include "cuda/check.hpp"
#include "cuda/engine.hpp"
#include "cuda/status.hpp"

namespace pycomm::device {

namespace {

constexpr std::int64_t kUnit = 16;  // bytes a thread moves at a time
constexpr int kWarp = 32;
// What a bulk copy carries at a time, four of them under way a block: 64 KiB last a microsecond at 64 GB/s. Not
// measured yet: docs/gpu.md.
constexpr std::int32_t kStageBytes = 16 << 10;

std::uint64_t nanoseconds(double seconds) { return static_cast<std::uint64_t>(seconds * 1e9); }

// Threads for so many units a block: whole warps, no more than can work.
int threads_for(std::int64_t units, int most) {
  const std::int64_t warps = (units + kWarp - 1) / kWarp;
  return static_cast<int>(std::clamp<std::int64_t>(warps * kWarp, kWarp, most));
}

// Several tables, one after the other, in one piece of device memory.
class Upload {
 public:
  template <class T>
  std::size_t add(const std::vector<T>& table) {
    bytes_.resize((bytes_.size() + 15) / 16 * 16);
    const std::size_t begin = bytes_.size();
    bytes_.resize(begin + table.size() * sizeof(T));
    if (!table.empty()) std::memcpy(bytes_.data() + begin, table.data(), table.size() * sizeof(T));
    return begin;
  }
  std::unique_ptr<DeviceMemory> send(int device) const {
    auto memory = std::make_unique<DeviceMemory>(device, bytes_.size());
    const OnDevice on(device);
    check(cudaMemcpy(memory->data(), bytes_.data(), bytes_.size(), cudaMemcpyHostToDevice), "copy of tables");
    return memory;
  }

 private:
  std::vector<char> bytes_;
};

}  // namespace

std::string Operation::failure() const {
  const OnDevice on(arena_.device());
  std::uint64_t status = 0;
  check(cudaMemcpy(&status, arena_.data() + status_, sizeof status, cudaMemcpyDeviceToHost), "copy of the status");
  return status == 0 ? std::string{} : describe(status);
}

void Operation::check_resident(const void* kernel, int blocks, int threads, int sharing) const {
  const OnDevice on(arena_.device());
  // A kernel is loaded when it is first asked about, which may wait for all others of the device: before any is started
  // that waits for a peer (CUDA programming guide, "Lazy Loading", on kernels that run side by side).
  cudaFuncAttributes loaded{};
  check(cudaFuncGetAttributes(&loaded, kernel), "loading of the kernel");
  // What a block may have without asking is less than the stages of bulk copies take.
  if (shared_bytes_ > 0)
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes_)),
          "shared memory");
  int each = 0, processors = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, threads, shared_bytes_), "occupancy");
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, arena_.device()), "processors");
  if (blocks * sharing > each * processors)
    throw Unavailable("device " + std::to_string(arena_.device()) + ": " + std::to_string(blocks) + " lanes × " +
                      std::to_string(sharing) + " ranks cannot be resident together, at most " +
                      std::to_string(each * processors) + " blocks of " + std::to_string(threads) + " threads can");
}

void Operation::require_tma(const void* kernel) const {
  const OnDevice on(arena_.device());
  cudaFuncAttributes loaded{};
  check(cudaFuncGetAttributes(&loaded, kernel), "loading of the kernel");
  if (loaded.ptxVersion < 90)
    throw Unavailable("device " + std::to_string(arena_.device()) + " runs the kernel for sm_" +
                      std::to_string(loaded.ptxVersion) + ", and bulk copies need sm_90: unset PYCOMM_TMA");
}

void Operation::start(const void* kernel, int blocks, int threads, void* arguments, cudaStream_t stream) const {
  const OnDevice on(arena_.device());
  void* list[] = {arguments};
  check(cudaLaunchKernel(kernel, dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads)), list,
                         shared_bytes_, stream),
        "launch");
}

EngineOperation::EngineOperation(int device, DevicePlan plan, int rank, Op op, double patience_s, int sharing, bool tma)
    : Operation(device, plan.ranks[static_cast<std::size_t>(rank)].arena.bytes,
                plan.ranks[static_cast<std::size_t>(rank)].arena.status),
      plan_(std::move(plan)),
      rank_(rank) {
  const std::int64_t message = plan_.form == Form::line ? plan_.slot_bytes / 2 : plan_.slot_bytes;
  threads_ = threads_for(message / kUnit, kEngineThreads);
  arguments_ = arguments_of(plan_, rank, arena_.data());
  arguments_.op = op;
  arguments_.patience_ns = nanoseconds(patience_s);
  const auto* kernel = reinterpret_cast<const void*>(engine_kernel_of(plan_.dtype));
  if (tma) require_tma(kernel);
  if (tma && plan_.form == Form::bulk) {
    arguments_.stage_bytes = kStageBytes;
    shared_bytes_ = stage_memory_bytes(kStageBytes);
  }
  const auto lanes = static_cast<int>(plan_.ranks[static_cast<std::size_t>(rank)].lanes.size());
  check_resident(kernel, lanes, threads_, sharing);
}

void EngineOperation::connect(const std::vector<char*>& arenas) {
  const RankPlan& mine = plan_.ranks[static_cast<std::size_t>(rank_)];
  const BoundEdges edges = bind_edges(plan_, rank_, arenas);
  Upload upload;
  const std::size_t steps = upload.add(mine.steps), sources = upload.add(mine.sources), lanes = upload.add(mine.lanes);
  const std::size_t in = upload.add(edges.in), out = upload.add(edges.out);
  tables_ = upload.send(arena_.device());
  const char* base = tables_->data();
  arguments_.steps = reinterpret_cast<const DeviceStep*>(base + steps);
  arguments_.sources = reinterpret_cast<const Source*>(base + sources);
  arguments_.lanes = reinterpret_cast<const DeviceLane*>(base + lanes);
  arguments_.edges_in = reinterpret_cast<const Edge*>(base + in);
  arguments_.edges_out = reinterpret_cast<const Edge*>(base + out);
}

void EngineOperation::launch(const void* in, void* out, cudaStream_t stream) {
  if (!tables_) throw UsageError("launch before connect");
  EngineArguments arguments = arguments_;
  arguments.in = static_cast<const char*>(in);
  arguments.out = static_cast<char*>(out);
  const auto lanes = static_cast<int>(plan_.ranks[static_cast<std::size_t>(rank_)].lanes.size());
  start(reinterpret_cast<const void*>(engine_kernel_of(plan_.dtype)), lanes, threads_, &arguments, stream);
}

ShotOperation::ShotOperation(int device, ShotLayout layout, DType dtype, int rank, Op op, double patience_s,
                             int sharing)
    : Operation(device, static_cast<std::size_t>(layout.inbox_bytes()), static_cast<std::size_t>(layout.status())),
      dtype_(dtype),
      threads_(threads_for((layout.part_units() + layout.blocks - 1) / layout.blocks, kShotThreads)) {
  arguments_.layout = layout;
  arguments_.rank = rank;
  arguments_.op = op;
  arguments_.patience_ns = nanoseconds(patience_s);
  check_resident(reinterpret_cast<const void*>(shot_kernel_of(layout.shot, dtype)), layout.blocks, threads_, sharing);
}

void ShotOperation::connect(const std::vector<char*>& arenas) {
  Upload upload;
  upload.add(arenas);
  inboxes_ = upload.send(arena_.device());
  arguments_.inboxes = reinterpret_cast<char* const*>(inboxes_->data());
}

void ShotOperation::launch(const void* in, void* out, cudaStream_t stream) {
  if (!inboxes_) throw UsageError("launch before connect");
  ShotArguments arguments = arguments_;
  arguments.in = static_cast<const char*>(in);
  arguments.out = static_cast<char*>(out);
  start(reinterpret_cast<const void*>(shot_kernel_of(arguments.layout.shot, dtype_)), arguments.layout.blocks, threads_,
        &arguments, stream);
}

ShotLayout choose_shot(Shot shot, int ranks, std::int64_t bytes, int most_blocks) {
  constexpr std::int64_t kLongestLine = 256 << 10;  // as in choose.cpp: not measured yet
  ShotLayout layout{shot, bytes <= kLongestLine ? Form::line : Form::bulk, ranks, 1, bytes};
  const std::int64_t blocks = (layout.part_units() + kShotThreads - 1) / kShotThreads;
  layout.blocks = static_cast<std::int32_t>(std::clamp<std::int64_t>(blocks, 1, most_blocks));
  return layout;
}

}  // namespace pycomm::device
