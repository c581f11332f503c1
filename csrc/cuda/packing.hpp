// Packing on a device: the table of tensors lies in device memory, and is sent again only when they move.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <vector>

#include "cuda/devices.hpp"
#include "cuda/pack.hpp"

namespace pycomm::device {

class DevicePacker {
 public:
  // begins, counts: of each tensor in the buffer; count: of the buffer. Elements. Raises UsageError for a type pair
  // without conversion.
  DevicePacker(int device, std::vector<std::int64_t> begins, std::vector<std::int64_t> counts, std::int64_t count,
               DType tensor_dtype, DType buffer_dtype);

  // Not to be captured in a graph when `tensors` differ from the last call's.
  void pack(void* buffer, const std::vector<std::uintptr_t>& tensors, double factor, cudaStream_t stream) {
    launch(buffer, tensors, factor, true, stream);
  }
  void unpack(void* buffer, const std::vector<std::uintptr_t>& tensors, double factor, cudaStream_t stream) {
    launch(buffer, tensors, factor, false, stream);
  }

 private:
  void launch(void* buffer, const std::vector<std::uintptr_t>& tensors, double factor, bool to_buffer,
              cudaStream_t stream);

  int device_;
  int processors_ = 1;
  std::vector<std::int64_t> begins_, counts_;
  std::int64_t count_;
  DType tensor_dtype_, buffer_dtype_;
  std::vector<std::uintptr_t> sent_;
  std::unique_ptr<DeviceMemory> table_;
};

}  // namespace pycomm::device
