// One register of the instruction set being compiled: its load, its stores, and the first bytes of one.
// Included only by kernels.inc.hpp, inside namespace pycomm's unnamed namespace, once for each kernels_<isa>.cpp:
// everything here has internal linkage, so that no code of a wide instruction set can be linked into another file.

#define PYCOMM_INLINE [[gnu::always_inline]] inline

constexpr std::size_t kWidth = PYCOMM_VECTOR_BYTES;

template <class T>
struct VectorOf {
  typedef T type __attribute__((vector_size(kWidth)));
};

template <class T>
using Vector = typename VectorOf<T>::type;

using Raw = Vector<std::uint64_t>;  // the bits of any vector

PYCOMM_INLINE Raw load(const char* from) {
  Raw raw;
  __builtin_memcpy(&raw, from, kWidth);
  return raw;
}

PYCOMM_INLINE void store(char* to, Raw raw) { __builtin_memcpy(to, &raw, kWidth); }

PYCOMM_INLINE bool is_aligned(const char* place) { return reinterpret_cast<std::uintptr_t>(place) % kWidth == 0; }

#if PYCOMM_VECTOR_BYTES == 64
PYCOMM_INLINE void stream(char* to, Raw raw) { _mm512_stream_si512(reinterpret_cast<__m512i*>(to), (__m512i)raw); }
PYCOMM_INLINE Raw multiply_even_u32(Raw a, Raw b) { return (Raw)_mm512_mul_epu32((__m512i)a, (__m512i)b); }
PYCOMM_INLINE Raw multiply_high_u16(Raw a, Raw b) { return (Raw)_mm512_mulhi_epu16((__m512i)a, (__m512i)b); }
#elif PYCOMM_VECTOR_BYTES == 32
PYCOMM_INLINE void stream(char* to, Raw raw) { _mm256_stream_si256(reinterpret_cast<__m256i*>(to), (__m256i)raw); }
PYCOMM_INLINE Raw multiply_even_u32(Raw a, Raw b) { return (Raw)_mm256_mul_epu32((__m256i)a, (__m256i)b); }
PYCOMM_INLINE Raw multiply_high_u16(Raw a, Raw b) { return (Raw)_mm256_mulhi_epu16((__m256i)a, (__m256i)b); }
#elif defined(__SSE2__)
PYCOMM_INLINE void stream(char* to, Raw raw) { _mm_stream_si128(reinterpret_cast<__m128i*>(to), (__m128i)raw); }
PYCOMM_INLINE Raw multiply_even_u32(Raw a, Raw b) { return (Raw)_mm_mul_epu32((__m128i)a, (__m128i)b); }
PYCOMM_INLINE Raw multiply_high_u16(Raw a, Raw b) { return (Raw)_mm_mulhi_epu16((__m128i)a, (__m128i)b); }
#else
PYCOMM_INLINE void stream(char* to, Raw raw) { store(to, raw); }
PYCOMM_INLINE Raw multiply_even_u32(Raw a, Raw b) { return (a & 0xffffffffu) * (b & 0xffffffffu); }
PYCOMM_INLINE Raw multiply_high_u16(Raw a, Raw b) {
  const auto x = (Vector<std::uint32_t>)a, y = (Vector<std::uint32_t>)b;
  return (Raw)(((x & 0xffff) * (y & 0xffff)) >> 16 | (((x >> 16) * (y >> 16)) & 0xffff0000u));
}
#endif

// Asks for the lines that are read a few blocks later, so that converting 16-bit types does not hold up the memory.
// May point past the end of a buffer: a prefetch never faults.
template <std::size_t kBytes>
PYCOMM_INLINE void prefetch(const char* from) {
  constexpr std::size_t kLineBytes = 64, kAheadBytes = 512;
#pragma GCC unroll 4
  for (std::size_t line = 0; line < kBytes; line += kLineBytes) __builtin_prefetch(from + kAheadBytes + line);
}

PYCOMM_INLINE void fence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

// `bytes` of `from` (all 8 if more), then zeros.
PYCOMM_INLINE std::uint64_t load_word(const char* from, std::size_t bytes) {
  std::uint64_t word = 0;
  if (bytes >= 8) {
    __builtin_memcpy(&word, from, 8);
    return word;
  }
  unsigned shift = 0;
  const auto append = [&](auto part) {
    __builtin_memcpy(&part, from, sizeof part);
    word |= static_cast<std::uint64_t>(part) << shift;
    from += sizeof part;
    shift += 8 * static_cast<unsigned>(sizeof part);
  };
  if (bytes & 4) append(std::uint32_t{});
  if (bytes & 2) append(std::uint16_t{});
  if (bytes & 1) append(std::uint8_t{});
  return word;
}

PYCOMM_INLINE void store_word(char* to, std::uint64_t word, std::size_t bytes) {
  if (bytes >= 8) {
    __builtin_memcpy(to, &word, 8);
    return;
  }
  const auto take = [&](auto part) {
    __builtin_memcpy(&part, &word, sizeof part);
    __builtin_memcpy(to, &part, sizeof part);
    word >>= 8 * sizeof part;
    to += sizeof part;
  };
  if (bytes & 4) take(std::uint32_t{});
  if (bytes & 2) take(std::uint16_t{});
  if (bytes & 1) take(std::uint8_t{});
}

// The first `bytes` < kWidth bytes of a vector, the rest zero; nothing past them is read.
PYCOMM_INLINE Raw load_first(const char* from, std::size_t bytes) {
  Raw raw = {load_word(from, bytes)};
  if (bytes > 8) {
#pragma GCC unroll 8
    for (std::size_t word = 1; word < kWidth / 8; ++word)
      if (bytes > 8 * word) raw[word] = load_word(from + 8 * word, bytes - 8 * word);
  }
  return raw;
}

PYCOMM_INLINE void store_first(char* to, Raw raw, std::size_t bytes) {
#pragma GCC unroll 8
  for (std::size_t word = 0; word < kWidth / 8; ++word)
    if (bytes > 8 * word) store_word(to + 8 * word, raw[word], bytes - 8 * word);
}
