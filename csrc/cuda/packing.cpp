#include "cuda/packing.hpp"

#include "cuda/check.hpp"

namespace pycomm::device {

DevicePacker::DevicePacker(int device, std::vector<std::int64_t> begins, std::vector<std::int64_t> counts,
                           std::int64_t count, DType tensor_dtype, DType buffer_dtype)
    : device_(device),
      begins_(std::move(begins)),
      counts_(std::move(counts)),
      count_(count),
      tensor_dtype_(tensor_dtype),
      buffer_dtype_(buffer_dtype) {
  if (tensor_dtype != buffer_dtype && pack_kernel_of(buffer_dtype, tensor_dtype, false) == nullptr)
    throw UsageError("packing: no conversion from " + std::string(name_of(tensor_dtype)) + " to " +
                     std::string(name_of(buffer_dtype)));
  check(cudaDeviceGetAttribute(&processors_, cudaDevAttrMultiProcessorCount, device), "processors");
  table_ = std::make_unique<DeviceMemory>(device, begins_.size() * sizeof(PackTensor));
}

void DevicePacker::launch(void* buffer, const std::vector<std::uintptr_t>& tensors, double factor, bool to_buffer,
                          cudaStream_t stream) {
  if (tensors.size() != begins_.size())
    throw UsageError("packing: found " + std::to_string(tensors.size()) + " tensors, wanted " +
                     std::to_string(begins_.size()));
  const DType to = to_buffer ? buffer_dtype_ : tensor_dtype_, from = to_buffer ? tensor_dtype_ : buffer_dtype_;
  const PackKernel kernel = pack_kernel_of(to, from, to == from && factor == 1);
  if (kernel == nullptr) throw UsageError("packing: " + std::string(name_of(to)) + " takes no factor but 1");
  const OnDevice on(device_);
  if (tensors != sent_) {
    std::vector<PackTensor> table;
    for (std::size_t i = 0; i < tensors.size(); ++i)
      table.push_back({reinterpret_cast<char*>(tensors[i]), begins_[i], counts_[i]});
    // From pageable memory: the call returns once the table has been taken.
    check(cudaMemcpyAsync(table_->data(), table.data(), table.size() * sizeof(PackTensor), cudaMemcpyHostToDevice,
                          stream),
          "copy of the tensors' table");
    check(cudaStreamSynchronize(stream), "copy of the tensors' table");
    sent_ = tensors;
  }
  PackArguments arguments{reinterpret_cast<const PackTensor*>(table_->data()),
                          static_cast<std::int32_t>(tensors.size()),
                          to_buffer,
                          static_cast<char*>(buffer),
                          count_,
                          factor};
  void* list[] = {&arguments};
  const auto blocks = static_cast<unsigned>(pack_blocks(count_, processors_));
  check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(blocks), dim3(kPackThreads), list, 0, stream),
        "launch of a packing kernel");
}

}  // namespace pycomm::device
