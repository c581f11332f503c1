// The only ways a kernel reaches memory that another block or device may read or write.
//
// Compiled by nvcc they are single PTX instructions; compiled by the host compiler (PYCOMM_EMULATED) they go to the
// emulator, whose memory is weaker than any GPU's. Source of their meaning: PTX ISA, "Memory Consistency Model".
//
//   load / store            weak: ordinary data. 1, 2, 4 or 8 bytes, or 16 as four scalars of 4 in no order
//   load_line / store_line  a line of 8 bytes, 4 data and 4 flag, never torn; relaxed
//   load_acquire, store_release   a flag that orders data: .sys for a peer's, .gpu for another block's of this device
//   fence_system            everything known before it is ordered before everything after it
//   claim                   compare and swap
#pragma once

#include <cstdint>

#ifdef PYCOMM_EMULATED
#include "cuda/emulator/shim.hpp"
#define PYCOMM_OUT_OF_LINE inline
#else
#include <cuda_runtime.h>
// Compiled once for all kernels of a file, where a call costs nothing beside the work: it halves the time of nvcc.
#define PYCOMM_OUT_OF_LINE inline __noinline__
#endif

namespace pycomm::device {

struct alignas(16) Pack {  // 16 bytes of elements
  std::uint32_t words[4];
};

struct Line {
  std::uint32_t data;
  std::uint32_t flag;
};

#ifdef PYCOMM_EMULATED

using emulator::barrier;
using emulator::barrier_or;
using emulator::block_count;
using emulator::block_index;
using emulator::claim;
using emulator::clock_ns;
using emulator::fence_system;
using emulator::load;
using emulator::load_acquire_device;
using emulator::load_acquire_system;
using emulator::pause;
using emulator::store;
using emulator::store_release_device;
using emulator::store_release_system;
using emulator::thread_count;
using emulator::thread_index;

inline Pack load_pack(const void* from) {
  const auto* words = static_cast<const std::uint32_t*>(from);
  return {{load(words), load(words + 1), load(words + 2), load(words + 3)}};
}
inline void store_pack(void* to, Pack value) {
  auto* words = static_cast<std::uint32_t*>(to);
  for (int i = 0; i < 4; ++i) store(words + i, value.words[i]);
}
inline Line load_line(const Line* from) {
  const std::uint64_t both = emulator::load_line(from);
  return {static_cast<std::uint32_t>(both), static_cast<std::uint32_t>(both >> 32)};
}
inline void store_two_lines(Line* to, Line first, Line second) {
  emulator::store_line(to, first.data | (std::uint64_t{first.flag} << 32));
  emulator::store_line(to + 1, second.data | (std::uint64_t{second.flag} << 32));
}

#else

__device__ inline unsigned thread_index() { return threadIdx.x; }
__device__ inline unsigned thread_count() { return blockDim.x; }
__device__ inline unsigned block_index() { return blockIdx.x; }
__device__ inline unsigned block_count() { return gridDim.x; }
__device__ inline void barrier() { __syncthreads(); }
__device__ inline bool barrier_or(bool vote) { return __syncthreads_or(vote) != 0; }
__device__ inline void pause() {}

__device__ inline std::uint64_t clock_ns() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

template <class T>
__device__ inline T load(const T* from) {
  return *from;
}
template <class T>
__device__ inline void store(T* to, T value) {
  *to = value;
}

__device__ inline Pack load_pack(const void* from) {
  Pack value;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.words[0]), "=r"(value.words[1]), "=r"(value.words[2]), "=r"(value.words[3])
               : "l"(from)
               : "memory");
  return value;
}
__device__ inline void store_pack(void* to, Pack value) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(value.words[0]), "r"(value.words[1]),
               "r"(value.words[2]), "r"(value.words[3])
               : "memory");
}

// A scalar access of 8 bytes is performed as one; the two scalars of a vector access in either order.
__device__ inline Line load_line(const Line* from) {
  std::uint64_t both;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(both) : "l"(from) : "memory");
  return {static_cast<std::uint32_t>(both), static_cast<std::uint32_t>(both >> 32)};
}
__device__ inline void store_two_lines(Line* to, Line first, Line second) {
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(to),
               "l"(first.data | (static_cast<std::uint64_t>(first.flag) << 32)),
               "l"(second.data | (static_cast<std::uint64_t>(second.flag) << 32))
               : "memory");
}

__device__ inline std::uint64_t load_acquire_system(const std::uint64_t* from) {
  std::uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}
__device__ inline void store_release_system(std::uint64_t* to, std::uint64_t value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}
__device__ inline std::uint64_t load_acquire_device(const std::uint64_t* from) {
  std::uint64_t value;
  asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}
__device__ inline void store_release_device(std::uint64_t* to, std::uint64_t value) {
  asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}
__device__ inline void fence_system() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }

__device__ inline std::uint64_t claim(std::uint64_t* at, std::uint64_t expected, std::uint64_t desired) {
  return atomicCAS_system(reinterpret_cast<unsigned long long*>(at), expected, desired);
}

#endif

}  // namespace pycomm::device
