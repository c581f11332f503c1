#include "cuda/emulator/pack_run.hpp"

#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "cuda/emulator/machine.hpp"
#include "cuda/pack.hpp"

namespace pycomm::emulator {

namespace {

std::string run_pack(Machine& machine, const PackCase& given, device::PackKernel kernel, std::uint64_t seed) {
  machine.reset(seed);
  Memory& memory = machine.memory();
  const DType tensor_type = given.to_buffer ? given.from : given.to,
              buffer_type = given.to_buffer ? given.to : given.from;
  const auto place = [&](std::size_t bytes, DType dtype, const std::string& name, const Bytes* contents) {
    const std::size_t shift = static_cast<std::size_t>(given.shift) * size_of(dtype);
    auto* made = static_cast<char*>(memory.allocate(0, bytes + shift, name)) + shift;
    if (contents != nullptr && !contents->empty()) memory.write(made, contents->data(), contents->size());
    return made;
  };
  std::vector<device::PackTensor> tensors;
  const std::vector<Bytes>& sides = given.to_buffer ? given.inputs : given.expected;
  for (std::size_t i = 0; i < given.begins.size(); ++i) {
    char* data = place(sides[i].size(), tensor_type, "tensor " + std::to_string(i),
                       given.to_buffer ? &given.inputs[i] : nullptr);
    const auto count = static_cast<std::int64_t>(sides[i].size() / size_of(tensor_type));
    tensors.push_back({data, given.begins[i], count});
  }
  char* buffer = place(static_cast<std::size_t>(given.count) * size_of(buffer_type), buffer_type, "the buffer",
                       given.to_buffer ? nullptr : &given.inputs[0]);
  const device::PackArguments arguments{
      tensors.data(), static_cast<std::int32_t>(tensors.size()), given.to_buffer, buffer, given.count, given.factor};
  machine.launch(0, given.blocks, given.threads, [=] { kernel(arguments); });
  try {
    machine.run();
    for (std::size_t i = 0; i < given.expected.size(); ++i) {
      Bytes found(given.expected[i].size());
      memory.read(found.data(), given.to_buffer ? buffer : tensors[i].data, found.size());
      const auto wrong = std::mismatch(found.begin(), found.end(), given.expected[i].begin()).first;
      if (wrong != found.end())
        return "output " + std::to_string(i) + ": element " +
               std::to_string(static_cast<std::size_t>(wrong - found.begin()) / size_of(given.to)) + " is wrong";
    }
  } catch (const Fault& fault) {
    return fault.what();
  }
  return {};
}

}  // namespace

Outcome try_pack(const PackCase& given, std::uint64_t first, std::uint32_t seeds) {
  const device::PackKernel kernel =
      device::pack_kernel_of(given.to, given.from, given.to == given.from && given.factor == 1);
  if (kernel == nullptr)
    throw UsageError("packing: no conversion from " + std::string(name_of(given.from)) + " to " +
                     std::string(name_of(given.to)));
  Machine machine(first);
  return try_seeds(first, seeds, true, [&](std::uint64_t seed) { return run_pack(machine, given, kernel, seed); });
}

}  // namespace pycomm::emulator
