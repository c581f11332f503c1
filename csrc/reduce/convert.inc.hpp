// Change of type with a factor, for packing: element order is kept, so 16-bit types are shuffled together and apart.

struct DoublePair {
  Vector<double> first, second;
};

// The lower 16 bits of the lanes of two vectors, in order; and back.
#if PYCOMM_VECTOR_BYTES == 64
PYCOMM_INLINE Raw narrow_words(Raw a, Raw b) {
  const __m256i low = _mm512_cvtepi32_epi16((__m512i)a), high = _mm512_cvtepi32_epi16((__m512i)b);
  return (Raw)_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}
PYCOMM_INLINE void widen_words(Raw raw, Raw& a, Raw& b) {
  a = (Raw)_mm512_cvtepu16_epi32(_mm512_castsi512_si256((__m512i)raw));
  b = (Raw)_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64((__m512i)raw, 1));
}
#elif PYCOMM_VECTOR_BYTES == 32
PYCOMM_INLINE Raw narrow_words(Raw a, Raw b) {
  return (Raw)_mm256_permute4x64_epi64(_mm256_packus_epi32((__m256i)a, (__m256i)b), 0b11'01'10'00);
}
PYCOMM_INLINE void widen_words(Raw raw, Raw& a, Raw& b) {
  a = (Raw)_mm256_cvtepu16_epi32(_mm256_castsi256_si128((__m256i)raw));
  b = (Raw)_mm256_cvtepu16_epi32(_mm256_extracti128_si256((__m256i)raw, 1));
}
#else
PYCOMM_INLINE Raw narrow_words(Raw a, Raw b) {
  return (Raw)__builtin_shuffle((Vector<std::uint16_t>)a, (Vector<std::uint16_t>)b,
                                Vector<std::uint16_t>{0, 2, 4, 6, 8, 10, 12, 14});
}
PYCOMM_INLINE void widen_words(Raw raw, Raw& a, Raw& b) {
  using Halves = Vector<std::uint16_t>;
  a = (Raw)__builtin_shuffle((Halves)raw, Halves{}, Halves{0, 8, 1, 9, 2, 10, 3, 11});
  b = (Raw)__builtin_shuffle((Halves)raw, Halves{}, Halves{4, 12, 5, 13, 6, 14, 7, 15});
}
#endif

// A group is two vectors of the working type; these load and store it as elements of one type.
struct Float32Group {
  static constexpr std::size_t kBytes = 2 * kWidth;
  PYCOMM_INLINE static FloatPair get(const char* from) {
    return {Float32::unpack_at(from), Float32::unpack_at(from + kWidth)};
  }
  PYCOMM_INLINE static void set(char* to, const FloatPair& a) {
    store(to, Float32::pack(a.first));
    store(to + kWidth, Float32::pack(a.second));
  }
};
struct BFloat16Group {
  static constexpr std::size_t kBytes = kWidth;
  PYCOMM_INLINE static FloatPair get(const char* from) {
    Raw a, b;
    widen_words(load(from), a, b);
    return {(Vector<float>)((Vector<std::uint32_t>)a << 16), (Vector<float>)((Vector<std::uint32_t>)b << 16)};
  }
  PYCOMM_INLINE static void set(char* to, const FloatPair& a) {
    // A NaN of a float32 may have any bits: made canonical before rounding, which could carry out of it.
    const FloatPair clean = {Float32::canonical(a.first), Float32::canonical(a.second)};
    store(to, narrow_words((Raw)BrainFormat::upper_half(clean.first), (Raw)BrainFormat::upper_half(clean.second)));
  }
};
struct Float16Group {
  static constexpr std::size_t kBytes = kWidth;
#if PYCOMM_VECTOR_BYTES > 16
  PYCOMM_INLINE static FloatPair get(const char* from) { return HalfFormat::widen_at(from); }
  PYCOMM_INLINE static void set(char* to, const FloatPair& a) { store(to, Float16::pack(a)); }
#else
  PYCOMM_INLINE static FloatPair get(const char* from) {
    Raw a, b;
    widen_words(load(from), a, b);
    return {HalfFormat::widened((Vector<std::uint32_t>)a), HalfFormat::widened((Vector<std::uint32_t>)b)};
  }
  PYCOMM_INLINE static void set(char* to, const FloatPair& a) {
    const Raw words = narrow_words((Raw)HalfFormat::narrowed(a.first), (Raw)HalfFormat::narrowed(a.second));
    store(to, with_canonical_nan<HalfFormat::kInfinity, HalfFormat::kCanonicalNan>(words));
  }
#endif
};
struct Float64Group {
  static constexpr std::size_t kBytes = 2 * kWidth;
  PYCOMM_INLINE static DoublePair get(const char* from) {
    return {Float64::unpack_at(from), Float64::unpack_at(from + kWidth)};
  }
  PYCOMM_INLINE static void set(char* to, const DoublePair& a) {
    store(to, Float64::pack(a.first));
    store(to + kWidth, Float64::pack(a.second));
  }
};
struct Float32AsDoubleGroup {
  static constexpr std::size_t kBytes = kWidth;
  typedef float Narrow __attribute__((vector_size(kWidth / 2)));

  PYCOMM_INLINE static DoublePair get(const char* from) {
    Narrow a, b;
    __builtin_memcpy(&a, from, sizeof a);
    __builtin_memcpy(&b, from + sizeof a, sizeof b);
    return {__builtin_convertvector(a, Vector<double>), __builtin_convertvector(b, Vector<double>)};
  }
  PYCOMM_INLINE static void set(char* to, const DoublePair& a) {
    const Narrow first = __builtin_convertvector(Float64::canonical(a.first), Narrow);
    const Narrow second = __builtin_convertvector(Float64::canonical(a.second), Narrow);
    __builtin_memcpy(to, &first, sizeof first);
    __builtin_memcpy(to + sizeof first, &second, sizeof second);
  }
};

template <class To, class From, class Working>
void convert(void* to, const void* from, std::size_t count, double factor) {
  constexpr std::size_t kGroup = 2 * kWidth / sizeof(Working);
  constexpr std::size_t kToBytes = To::kBytes / kGroup, kFromBytes = From::kBytes / kGroup;
  char* target = static_cast<char*>(to);
  const char* source = static_cast<const char*>(from);
  const Vector<Working> by = Vector<Working>{} + static_cast<Working>(factor);
  const auto group = [by](char* place, const char* elements) {
    const auto a = From::get(elements);
    To::set(place, {a.first * by, a.second * by});
  };
  if (count < kGroup) {
    char padded_source[From::kBytes] = {}, padded_target[To::kBytes];
    __builtin_memcpy(padded_source, source, count * kFromBytes);
    group(padded_target, padded_source);
    __builtin_memcpy(target, padded_target, count * kToBytes);
    return;
  }
  std::size_t done = 0;
  for (; count - done >= kGroup; done += kGroup) {
    prefetch<From::kBytes>(source + done * kFromBytes);
    group(target + done * kToBytes, source + done * kFromBytes);
  }
  // The rest overlaps the group before it, which is written again with the same values.
  if (done != count) group(target + (count - kGroup) * kToBytes, source + (count - kGroup) * kFromBytes);
}

constexpr void fill_conversions(KernelTable& table) {
  constexpr int f64 = static_cast<int>(DType::f64), f32 = static_cast<int>(DType::f32),
                f16 = static_cast<int>(DType::f16), bf16 = static_cast<int>(DType::bf16);
  auto& convert_to_from = table.convert;
  convert_to_from[f32][f32] = convert<Float32Group, Float32Group, float>;
  convert_to_from[f32][f16] = convert<Float32Group, Float16Group, float>;
  convert_to_from[f32][bf16] = convert<Float32Group, BFloat16Group, float>;
  convert_to_from[f16][f32] = convert<Float16Group, Float32Group, float>;
  convert_to_from[f16][f16] = convert<Float16Group, Float16Group, float>;
  convert_to_from[f16][bf16] = convert<Float16Group, BFloat16Group, float>;
  convert_to_from[bf16][f32] = convert<BFloat16Group, Float32Group, float>;
  convert_to_from[bf16][f16] = convert<BFloat16Group, Float16Group, float>;
  convert_to_from[bf16][bf16] = convert<BFloat16Group, BFloat16Group, float>;
  convert_to_from[f64][f64] = convert<Float64Group, Float64Group, double>;
  convert_to_from[f64][f32] = convert<Float64Group, Float32AsDoubleGroup, double>;
  convert_to_from[f32][f64] = convert<Float32AsDoubleGroup, Float64Group, double>;
}
