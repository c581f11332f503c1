#include "pack/pack.hpp"

#include <cstring>
#include <string>
#include <utility>

namespace pycomm {

namespace {

std::size_t rounded_up(std::size_t value, std::size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// Copying beats converting when nothing changes.
void transfer(void* to, const void* from, std::size_t count, Convert convert, bool copies, std::size_t element_bytes,
              double factor) {
  if (count == 0) return;
  if (copies)
    std::memcpy(to, from, count * element_bytes);
  else
    convert(to, from, count, factor);
}

}  // namespace

Packer::Packer(std::vector<std::size_t> counts, DType tensor_dtype, DType buffer_dtype, std::size_t alignment_bytes)
    : counts_(std::move(counts)), tensor_dtype_(tensor_dtype), buffer_dtype_(buffer_dtype) {
  to_buffer_ = converter(buffer_dtype, tensor_dtype);
  to_tensor_ = converter(tensor_dtype, buffer_dtype);
  if (to_buffer_ == nullptr && tensor_dtype != buffer_dtype)
    throw UsageError("packing: no conversion from " + std::string(name_of(tensor_dtype)) + " to " +
                     std::string(name_of(buffer_dtype)) +
                     "; there is one among float32, float16 and bfloat16, and between float64 and float32");
  const std::size_t element_bytes = size_of(buffer_dtype);
  if (alignment_bytes == 0) alignment_bytes = element_bytes;
  if ((alignment_bytes & (alignment_bytes - 1)) != 0 || alignment_bytes < element_bytes)
    throw UsageError("packing: alignment: found " + std::to_string(alignment_bytes) +
                     " bytes, wanted a power of two of at least " + std::to_string(element_bytes));
  const std::size_t alignment = alignment_bytes / element_bytes;
  for (std::size_t elements : counts_) {
    count_ = rounded_up(count_, alignment);
    offsets_.push_back(count_);
    count_ += elements;
  }
}

void Packer::require(std::size_t tensors, double factor) const {
  if (tensors != counts_.size())
    throw UsageError("packing: found " + std::to_string(tensors) + " tensors, wanted " +
                     std::to_string(counts_.size()));
  if (to_buffer_ == nullptr && factor != 1)
    throw UsageError("packing: " + std::string(name_of(tensor_dtype_)) + " takes no factor but 1");
}

void Packer::pack(void* buffer, std::span<const void* const> tensors, double factor) const {
  require(tensors.size(), factor);
  const std::size_t element_bytes = size_of(buffer_dtype_);
  const bool copies = tensor_dtype_ == buffer_dtype_ && factor == 1;
  auto* bytes = static_cast<std::byte*>(buffer);
  std::size_t end = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (offsets_[i] > end) std::memset(bytes + end * element_bytes, 0, (offsets_[i] - end) * element_bytes);
    transfer(bytes + offsets_[i] * element_bytes, tensors[i], counts_[i], to_buffer_, copies, element_bytes, factor);
    end = offsets_[i] + counts_[i];
  }
}

void Packer::unpack(std::span<void* const> tensors, const void* buffer, double factor) const {
  require(tensors.size(), factor);
  const std::size_t element_bytes = size_of(buffer_dtype_);
  const bool copies = tensor_dtype_ == buffer_dtype_ && factor == 1;
  const auto* bytes = static_cast<const std::byte*>(buffer);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    transfer(tensors[i], bytes + offsets_[i] * element_bytes, counts_[i], to_tensor_, copies, element_bytes, factor);
}

}  // namespace pycomm
