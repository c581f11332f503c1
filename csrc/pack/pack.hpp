// Gathers many tensors into one buffer and puts them back, with a change of type and a factor, in one call: the CPU
// twin of the packing kernels. A tensor is never split and a buffer has one type, as the tensors have.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/dtype.hpp"
#include "reduce/reduce.hpp"

namespace pycomm {

// Where each tensor lies in a buffer, planned once.
class Packer {
 public:
  // counts: elements of each tensor. alignment_bytes: a power of two, at least the size of a buffer element, to which
  // each tensor's place is rounded up; 0: side by side. Raises UsageError for a type pair without conversion (those of
  // `converter`; integers keep their type) and for another alignment.
  Packer(std::vector<std::size_t> counts, DType tensor_dtype, DType buffer_dtype, std::size_t alignment_bytes);

  DType tensor_dtype() const { return tensor_dtype_; }
  DType buffer_dtype() const { return buffer_dtype_; }
  const std::vector<std::size_t>& counts() const { return counts_; }
  const std::vector<std::size_t>& offsets() const { return offsets_; }  // elements
  std::size_t count() const { return count_; }                          // elements of the buffer, gaps included

  // buffer = tensors × factor, the gaps zero. Computed in float32 (float64 if either type is), rounded once; with one
  // type and factor 1 the bytes are copied. Raises UsageError if an integer type is given a factor other than 1.
  // Reads and writes each element once.
  void pack(void* buffer, std::span<const void* const> tensors, double factor) const;

  // tensors = buffer × factor, as for pack.
  void unpack(std::span<void* const> tensors, const void* buffer, double factor) const;

 private:
  void require(std::size_t tensors, double factor) const;

  std::vector<std::size_t> counts_, offsets_;
  DType tensor_dtype_, buffer_dtype_;
  std::size_t count_ = 0;
  Convert to_buffer_ = nullptr, to_tensor_ = nullptr;
};

}  // namespace pycomm
