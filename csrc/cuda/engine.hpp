// The engine kernel's address, for who launches it: cuda/launch.hpp on a device, the emulator in tests.
#pragma once

#include "cuda/program.hpp"

namespace pycomm::device {

inline constexpr int kEngineThreads = 512;  // a block, at most

using EngineKernel = void (*)(EngineArguments);

// Grid: one block a lane, any number of threads up to kEngineThreads. All blocks must be resident together.
EngineKernel engine_kernel_of(DType dtype);

}  // namespace pycomm::device
