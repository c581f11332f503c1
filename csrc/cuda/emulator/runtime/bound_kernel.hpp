// A kernel with its arguments, as cudaLaunchKernel is given them, for the emulator to run.
#pragma once

#include <functional>
#include <memory>
#include <vector>

namespace pycomm::emulator {

// A copy of a table in device memory, from the given place on, in host memory.
using CopyTable = std::function<std::shared_ptr<std::vector<char>>(const void*)>;

// Empty if `kernel` is none of pycomm's. `argument` is the one struct that each of them takes.
std::function<void()> bind_kernel(const void* kernel, const void* argument, const CopyTable& copy);

}  // namespace pycomm::emulator
