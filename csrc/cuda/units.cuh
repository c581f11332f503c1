// A message as units of 16 bytes: unit u belongs to thread u mod threads. A place in a buffer may begin at any element,
// so a unit of it is reached at once where it is aligned, in words or elements where not; slots are always aligned.
#pragma once

#include "cuda/accessors.cuh"
#include "cuda/number.cuh"
#include "cuda/program.hpp"

namespace pycomm::device {

inline constexpr std::int64_t kUnitBytes = 16;

template <class T>
__device__ inline Pack load_elements(const char* from, int bytes) {
  constexpr int size = static_cast<int>(sizeof(T));
  T elements[16 / size] = {};
#pragma unroll
  for (int i = 0; i < 16 / size; ++i)
    if (i * size < bytes) elements[i] = load(reinterpret_cast<const T*>(from) + i);
  return bits_as<Pack>(elements);
}

template <class T>
__device__ inline void store_elements(char* to, int bytes, Pack value) {
  constexpr int size = static_cast<int>(sizeof(T));
  T elements[16 / size];
  memcpy(elements, &value, sizeof value);
#pragma unroll
  for (int i = 0; i < 16 / size; ++i)
    if (i * size < bytes) store(reinterpret_cast<T*>(to) + i, elements[i]);
}

__device__ PYCOMM_OUT_OF_LINE Pack load_part(const char* from, int bytes, int item) {
  if (bytes % 4 == 0 && reinterpret_cast<std::uintptr_t>(from) % 4 == 0)
    return load_elements<std::uint32_t>(from, bytes);
  if (item == 2) return load_elements<std::uint16_t>(from, bytes);
  return load_elements<std::uint8_t>(from, bytes);
}

// `bytes` of a unit, 16 but at the end of a message; `item`: bytes an element, which the place is a multiple of.
__device__ inline Pack load_unit(const char* from, int bytes, int item) {
  if (bytes == 16 && reinterpret_cast<std::uintptr_t>(from) % 16 == 0) return load_pack(from);
  return load_part(from, bytes, item);
}

__device__ PYCOMM_OUT_OF_LINE void store_part(char* to, int bytes, int item, Pack value) {
  if (bytes % 4 == 0 && reinterpret_cast<std::uintptr_t>(to) % 4 == 0)
    return store_elements<std::uint32_t>(to, bytes, value);
  if (item == 2) return store_elements<std::uint16_t>(to, bytes, value);
  store_elements<std::uint8_t>(to, bytes, value);
}

__device__ inline void store_unit(char* to, int bytes, int item, Pack value) {
  if (bytes == 16 && reinterpret_cast<std::uintptr_t>(to) % 16 == 0) return store_pack(to, value);
  store_part(to, bytes, item, value);
}

__device__ inline int bytes_of_unit(std::int64_t unit, std::int64_t message_bytes) {
  const std::int64_t left = message_bytes - unit * kUnitBytes;
  return left < kUnitBytes ? static_cast<int>(left) : static_cast<int>(kUnitBytes);
}

__device__ inline void store_lines(char* slot, std::int64_t unit, Pack value, std::uint32_t flag) {
  auto* lines = reinterpret_cast<Line*>(slot) + 4 * unit;
  store_two_lines(lines, {value.words[0], flag}, {value.words[1], flag});
  store_two_lines(lines + 2, {value.words[2], flag}, {value.words[3], flag});
}

// How long a wait may last. The clock is read once in a number of turns only: it is slow.
class Patience {
 public:
  __device__ explicit Patience(std::uint64_t limit_ns) : limit_ns_(limit_ns) {}

  // Called in every turn of a loop that waits; false when the time is over.
  __device__ bool more() {
    pause();
    if (++turns_ % kTurnsPerLook != 1) return true;
    const std::uint64_t now = clock_ns();
    if (begin_ns_ == 0) begin_ns_ = now;
    return now - begin_ns_ < limit_ns_;
  }

 private:
#ifdef PYCOMM_EMULATED
  static constexpr std::uint32_t kTurnsPerLook = 2;
#else
  static constexpr std::uint32_t kTurnsPerLook = 512;
#endif
  std::uint64_t limit_ns_;
  std::uint64_t begin_ns_ = 0;
  std::uint32_t turns_ = 0;
};

// Waits for the four lines of a unit to carry `flag`; false when the time is over.
__device__ inline bool load_lines(const char* slot, std::int64_t unit, std::uint32_t flag, std::uint64_t patience_ns,
                                  Pack& value) {
  const auto* lines = reinterpret_cast<const Line*>(slot) + 4 * unit;
  Patience patience(patience_ns);
  for (;;) {
    bool here = true;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Line line = load_line(lines + i);
      value.words[i] = line.data;
      here = here && line.flag == flag;
    }
    if (here) return true;
    if (!patience.more()) return false;
  }
}

}  // namespace pycomm::device
