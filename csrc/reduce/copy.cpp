// One copy for all instruction sets: memory is the limit, so 16-byte stores are as fast as wider ones.
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "reduce/reduce.hpp"

namespace pycomm {

namespace {

#if defined(__SSE2__)
constexpr std::size_t kLineBytes = 64;

void copy_lines_streaming(std::byte* to, const std::byte* from, std::size_t lines) {
  for (; lines > 0; --lines, to += kLineBytes, from += kLineBytes) {
    const auto* source = reinterpret_cast<const __m128i*>(from);
    auto* target = reinterpret_cast<__m128i*>(to);
    const __m128i a = _mm_loadu_si128(source);
    const __m128i b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2);
    const __m128i d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  _mm_sfence();
}
#endif

}  // namespace

void copy(void* to, const void* from, std::size_t bytes, bool streaming) {
  if (to == from || bytes == 0) return;
#if defined(__SSE2__)
  if (streaming && bytes >= 2 * kLineBytes) {
    auto* target = static_cast<std::byte*>(to);
    const auto* source = static_cast<const std::byte*>(from);
    const std::size_t head = (0 - reinterpret_cast<std::uintptr_t>(to)) % kLineBytes;
    const std::size_t body = (bytes - head) / kLineBytes * kLineBytes;
    std::memcpy(target, source, head);
    copy_lines_streaming(target + head, source + head, body / kLineBytes);
    std::memcpy(target + head + body, source + head + body, bytes - head - body);
    return;
  }
#else
  static_cast<void>(streaming);
#endif
  std::memcpy(to, from, bytes);
}

}  // namespace pycomm
