// Hopper's bulk copies, by the Tensor Memory Accelerator (TMA): named accessors as in accessors.cuh, for sm_90 and
// newer and for the emulator. Source of their meaning: PTX ISA, "Asynchronous copy" and "Async proxy".
//
//   tma_load      starts a copy from global memory to a stage of the block's dynamic shared memory
//   tma_loaded    whether the loads of a stage that were started in a phase, 0 or 1 in turn, are done
//   tma_store     starts a copy from a stage to global memory, this device's or a peer's
//   tma_wait_read until all stores of the thread but the last have read their stages
//   tma_wait      until all stores of the thread have been written
//   fence_generic_to_async  what the thread knows of memory, copies that it starts later know
//   fence_async_to_generic  what stores it has waited for have written, it knows: its next release tells of it
//
// A copy works in a proxy of its own, beside loads and stores, and in no order: so both fences, which are one
// instruction. PTX ISA has one of the second kind follow each completion by itself; neither the kernels nor the
// emulator count on that. Places and bytes are multiples of 16. All of a block's copies are started and waited for by
// one thread.
#pragma once

#include "cuda/accessors.cuh"

#if defined(PYCOMM_EMULATED) || (defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900)
#define PYCOMM_HAS_TMA
#endif

namespace pycomm::device {

struct Stage {  // where it lies in the block's dynamic shared memory, bytes from its beginning
  std::uint32_t data;
  std::uint32_t loaded;  // an mbarrier
};

#if defined(PYCOMM_EMULATED)

using emulator::fence_async_to_generic;
using emulator::fence_generic_to_async;
using emulator::tma_wait;
using emulator::tma_wait_read;

inline void tma_begin(Stage stage) { emulator::tma_begin(stage.loaded); }
inline void tma_load(Stage stage, const void* from, std::uint32_t bytes) {
  emulator::tma_load(stage.data, stage.loaded, from, bytes);
}
inline bool tma_loaded(Stage stage, std::uint32_t phase) { return emulator::tma_loaded(stage.loaded, phase); }
inline void tma_store(void* to, Stage stage, std::uint32_t bytes) { emulator::tma_store(to, stage.data, bytes); }

#elif defined(PYCOMM_HAS_TMA)

__device__ inline std::uint32_t shared_address(std::uint32_t offset) {
  extern __shared__ __align__(128) unsigned char stages[];
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(stages)) + offset;
}
__device__ inline std::uint64_t global_address(const void* place) {
  return static_cast<std::uint64_t>(__cvta_generic_to_global(place));
}

// Before the first use of a stage; then fence_generic_to_async, since copies signal the mbarrier.
__device__ inline void tma_begin(Stage stage) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(stage.loaded)) : "memory");
}
__device__ inline void tma_load(Stage stage, const void* from, std::uint32_t bytes) {
  const std::uint32_t loaded = shared_address(stage.loaded);
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(loaded), "r"(bytes) : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(stage.data)),
               "l"(global_address(from)), "r"(bytes), "r"(loaded)
               : "memory");
}
__device__ inline bool tma_loaded(Stage stage, std::uint32_t phase) {
  std::uint32_t done;
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
      "selp.u32 %0, 1, 0, done;\n"
      "}"
      : "=r"(done)
      : "r"(shared_address(stage.loaded)), "r"(phase)
      : "memory");
  return done != 0;
}
__device__ inline void tma_store(void* to, Stage stage, std::uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global_address(to)),
               "r"(shared_address(stage.data)), "r"(bytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
__device__ inline void tma_wait_read() { asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory"); }
__device__ inline void tma_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
__device__ inline void fence_generic_to_async() { asm volatile("fence.proxy.async;" ::: "memory"); }
__device__ inline void fence_async_to_generic() { asm volatile("fence.proxy.async;" ::: "memory"); }

#endif

}  // namespace pycomm::device
