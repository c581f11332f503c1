// Operations of one rank on a device, prepared once and launched many times; a launch may be captured in a CUDA graph,
// since all that changes from call to call lies in device memory.
//
//   EngineOperation operation(device, plan, rank, op, patience_s, sharing);
//   … exchange operation.arena() with the peers …
//   operation.connect(arenas);
//   operation.launch(in, out, stream);
//   … after the stream is synchronised: operation.failure()
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <string>
#include <vector>

#include "cuda/devices.hpp"
#include "cuda/plan.hpp"
#include "cuda/shot.hpp"

namespace pycomm::device {

// What both kinds have: memory that the peers reach, and a kernel whose blocks must all be resident together with those
// of the other ranks on the device.
class Operation {
 public:
  virtual ~Operation() = default;

  DeviceMemory& arena() { return arena_; }
  // `arenas`: every rank's, mapped for this device; its own too. Before the first launch.
  virtual void connect(const std::vector<char*>& arenas) = 0;
  virtual void launch(const void* in, void* out, cudaStream_t stream) = 0;
  // What the kernel gave up waiting for ("a message from rank 3 (lane 0, step 2, segment 1)"); empty if it did not.
  // Waits for the copy of one word.
  std::string failure() const;

 protected:
  Operation(int device, std::size_t arena_bytes, std::size_t status) : arena_(device, arena_bytes), status_(status) {}

  // Raises Unavailable if the blocks of `sharing` ranks cannot be resident together.
  void check_resident(const void* kernel, int blocks, int threads, int sharing) const;
  // Raises Unavailable if the kernel that this device runs was compiled without bulk copies.
  void require_tma(const void* kernel) const;
  void start(const void* kernel, int blocks, int threads, void* arguments, cudaStream_t stream) const;

  DeviceMemory arena_;
  std::size_t shared_bytes_ = 0;  // dynamic shared memory of a block

 private:
  std::size_t status_;
};

class EngineOperation : public Operation {
 public:
  // sharing: ranks on this device. tma: messages in bulk form are moved by bulk copies; raises Unavailable where the
  // device has none.
  EngineOperation(int device, DevicePlan plan, int rank, Op op, double patience_s, int sharing, bool tma);
  void connect(const std::vector<char*>& arenas) override;
  void launch(const void* in, void* out, cudaStream_t stream) override;
  const DevicePlan& plan() const { return plan_; }

 private:
  DevicePlan plan_;
  int rank_;
  int threads_;
  EngineArguments arguments_{};
  std::unique_ptr<DeviceMemory> tables_;
};

class ShotOperation : public Operation {
 public:
  ShotOperation(int device, ShotLayout layout, DType dtype, int rank, Op op, double patience_s, int sharing);
  void connect(const std::vector<char*>& arenas) override;
  void launch(const void* in, void* out, cudaStream_t stream) override;

 private:
  DType dtype_;
  int threads_;
  ShotArguments arguments_{};
  std::unique_ptr<DeviceMemory> inboxes_;
};

// Form and blocks, at most so many, that suit a buffer of so many bytes.
ShotLayout choose_shot(Shot shot, int ranks, std::int64_t bytes, int most_blocks);

}  // namespace pycomm::device
