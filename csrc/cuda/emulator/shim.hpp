// What the host compiler needs to compile a .cu file: CUDA's keywords, and the accessors of accessors.cuh in terms of
// the emulator's machine.
#pragma once

#include <cstring>
#include <type_traits>

#include "cuda/emulator/machine.hpp"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

namespace pycomm::emulator {

inline unsigned thread_index() { return running().current().view.thread; }
inline unsigned thread_count() { return running().current().block->grid->threads; }
inline unsigned block_index() { return running().current().block->index; }
inline unsigned block_count() { return running().current().block->grid->blocks; }
inline void barrier() { running().barrier(0); }
inline bool barrier_or(bool vote) { return running().barrier(vote ? 1 : 0) != 0; }
inline void pause() { running().spin(); }
inline std::uint64_t clock_ns() { return running().clock_ns(); }

template <class T>
T load(const T* from) {
  const std::uint64_t bits = running().load(from, sizeof(T), Order::weak);
  T value;
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}
template <class T>
void store(T* to, std::type_identity_t<T> value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  running().store(to, sizeof(T), bits, Order::weak);
}

inline std::uint64_t load_line(const void* from) { return running().load(from, 8, Order::relaxed); }
inline void store_line(void* to, std::uint64_t value) { running().store_line(to, value); }

inline std::uint64_t load_acquire_system(const std::uint64_t* from) { return running().load(from, 8, Order::acquire); }
inline void store_release_system(std::uint64_t* to, std::uint64_t value) {
  running().store(to, 8, value, Order::release);
}
// The scope of the device alone: a fault where the place is another device's.
void check_own_device(const void* place);
inline std::uint64_t load_acquire_device(const std::uint64_t* from) {
  check_own_device(from);
  return load_acquire_system(from);
}
inline void store_release_device(std::uint64_t* to, std::uint64_t value) {
  check_own_device(to);
  store_release_system(to, value);
}
inline void fence_system() { running().fence(); }
inline void tma_begin(std::uint32_t barrier) { running().tma_begin(barrier); }
inline void tma_load(std::uint32_t to, std::uint32_t barrier, const void* from, std::uint32_t bytes) {
  running().tma_load(to, barrier, from, bytes);
}
inline bool tma_loaded(std::uint32_t barrier, std::uint32_t phase) { return running().tma_loaded(barrier, phase); }
inline void tma_store(void* to, std::uint32_t from, std::uint32_t bytes) { running().tma_store(to, from, bytes); }
inline void tma_wait_read() { running().tma_wait_read(); }
inline void tma_wait() { running().tma_wait(); }
inline void fence_generic_to_async() { running().fence_generic_to_async(); }
inline void fence_async_to_generic() { running().fence_async_to_generic(); }
inline std::uint64_t claim(std::uint64_t* at, std::uint64_t expected, std::uint64_t desired) {
  return running().compare_and_swap(at, 8, expected, desired);
}

}  // namespace pycomm::emulator
