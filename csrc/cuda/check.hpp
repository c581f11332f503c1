// Every CUDA call is checked.
#pragma once

#include <cuda_runtime.h>

#include <new>
#include <string>

#include "base/error.hpp"

namespace pycomm::device {

// Raises DeviceError: "cudaMalloc of 64 bytes on device 3: out of memory".
inline void check(cudaError_t error, const std::string& what) {
  if (error != cudaSuccess) throw DeviceError(what + ": " + cudaGetErrorString(error));
}

// The device that later calls of this thread use, until the end of the scope.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    check(cudaGetDevice(&before_), "cudaGetDevice");
    check(cudaSetDevice(device), "cudaSetDevice(" + std::to_string(device) + ")");
  }
  // For destructors: after a fault every call fails, and there is nothing to be done about it.
  OnDevice(int device, std::nothrow_t) {
    cudaGetDevice(&before_);
    cudaSetDevice(device);
  }
  ~OnDevice() { cudaSetDevice(before_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_ = 0;
};

}  // namespace pycomm::device
