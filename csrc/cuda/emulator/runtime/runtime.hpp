// Emulated devices behind CUDA's runtime functions, so that the host code of csrc/cuda and its Python binding, compiled
// as they are, drive the kernels on the CPU. Streams are queues of the emulator's machine; whoever waits for one turns
// the machine, so kernels make progress while some host thread waits, and no other thread is needed.
//
// Stricter than CUDA in one thing: cudaMalloc, cudaFree, cudaMemset, cudaGraphUpload and cudaDeviceSynchronize may wait
// for every kernel of the device, and a kernel of one rank may wait for another rank, so while kernels are in flight
// they fail.
#pragma once

#include <cstdint>
#include <string>

namespace pycomm::emulator {

// From now on there are so many new devices of so many processors and of compute capability `major`.0, with nothing on
// them. 0 devices: as where no GPU is.
void emulate_devices(int devices, std::uint64_t seed, int processors, int major);
// How many bulk copies kernels have started on them.
std::uint64_t bulk_copies();

}  // namespace pycomm::emulator
