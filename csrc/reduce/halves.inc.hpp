// float16 and bfloat16: two vectors of float32 for one vector of elements.

using Words = Vector<std::uint32_t>;

struct FloatPair {
  Vector<float> first, second;
};

template <class Format>
struct Half {
  using Element = std::uint16_t;
  using Accumulator = FloatPair;
  static constexpr int kUnroll = 2;

  PYCOMM_INLINE static FloatPair unpack(Raw raw) { return Format::widen(raw); }
  PYCOMM_INLINE static Raw pack(const FloatPair& a) {
    return Format::narrow({Float32::canonical(a.first), Float32::canonical(a.second)});
  }
  PYCOMM_INLINE static FloatPair sum(const FloatPair& a, const FloatPair& b) {
    return {a.first + b.first, a.second + b.second};
  }
  PYCOMM_INLINE static FloatPair prod(const FloatPair& a, const FloatPair& b) {
    return {a.first * b.first, a.second * b.second};
  }
  PYCOMM_INLINE static FloatPair min(const FloatPair& a, const FloatPair& b) {
    return {Float32::min(a.first, b.first), Float32::min(a.second, b.second)};
  }
  PYCOMM_INLINE static FloatPair max(const FloatPair& a, const FloatPair& b) {
    return {Float32::max(a.first, b.first), Float32::max(a.second, b.second)};
  }

  using Divisor = Vector<float>;
  static Divisor divisor(std::int64_t contributors) { return Float32::divisor(contributors); }
  PYCOMM_INLINE static Raw divide(Raw raw, const Divisor& by) {
    const FloatPair a = unpack(raw);
    return pack({a.first / by, a.second / by});
  }
};

// The elements at even and odd places: a bfloat16 is the upper half of a float32, so no shuffle is needed.
struct BrainFormat {
  PYCOMM_INLINE static FloatPair widen(Raw raw) {
    const Words words = (Words)raw;
    return {(Vector<float>)(words << 16), (Vector<float>)(words & 0xffff0000u)};
  }
  PYCOMM_INLINE static Raw narrow(const FloatPair& a) {
    return (Raw)(rounded((Words)a.first) >> 16 | (rounded((Words)a.second) & 0xffff0000u));
  }

 private:
  // To nearest, ties to even, in the upper 16 bits. The canonical NaN and infinity stay as they are.
  PYCOMM_INLINE static Words rounded(Words bits) { return bits + 0x7fffu + (bits >> 16 & 1u); }
};

#if PYCOMM_VECTOR_BYTES == 64
struct HalfFormat {  // the lower and the upper half of the elements
  PYCOMM_INLINE static FloatPair widen(Raw raw) {
    const __m512i bits = (__m512i)raw;
    return {_mm512_cvtph_ps(_mm512_castsi512_si256(bits)), _mm512_cvtph_ps(_mm512_extracti64x4_epi64(bits, 1))};
  }
  PYCOMM_INLINE static Raw narrow(const FloatPair& a) {
    const __m256i low = _mm512_cvtps_ph(a.first, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m256i high = _mm512_cvtps_ph(a.second, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    return (Raw)_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
  }
};
#elif PYCOMM_VECTOR_BYTES == 32
struct HalfFormat {  // the lower and the upper half of the elements
  PYCOMM_INLINE static FloatPair widen(Raw raw) {
    const __m256i bits = (__m256i)raw;
    return {_mm256_cvtph_ps(_mm256_castsi256_si128(bits)), _mm256_cvtph_ps(_mm256_extracti128_si256(bits, 1))};
  }
  PYCOMM_INLINE static Raw narrow(const FloatPair& a) {
    const __m128i low = _mm256_cvtps_ph(a.first, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m128i high = _mm256_cvtps_ph(a.second, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    return (Raw)_mm256_set_m128i(high, low);
  }
};
#else
struct HalfFormat {  // the elements at even and odd places
  PYCOMM_INLINE static FloatPair widen(Raw raw) {
    const Words words = (Words)raw;
    return {widened(words & 0xffffu), widened(words >> 16)};
  }
  PYCOMM_INLINE static Raw narrow(const FloatPair& a) { return (Raw)(narrowed(a.first) | narrowed(a.second) << 16); }

 private:
  static constexpr std::uint32_t kBiasDifference = (127 - 15) << 23;

  PYCOMM_INLINE static Vector<float> widened(Words half) {
    const Words magnitude = half & 0x7fffu;
    const Words rebiased = (magnitude << 13) + kBiasDifference;
    const Words normal = magnitude < 0x7c00u ? rebiased : rebiased + kBiasDifference;  // infinity and NaN: twice
    const Vector<float> subnormal = __builtin_convertvector((Vector<std::int32_t>)magnitude, Vector<float>) * 0x1p-24f;
    return (Vector<float>)((magnitude < 0x400u ? (Words)subnormal : normal) | (half & 0x8000u) << 16);
  }
  // Takes only canonical NaNs.
  PYCOMM_INLINE static Words narrowed(Vector<float> value) {
    const Words bits = (Words)value;
    const Words magnitude = bits & 0x7fffffffu;
    // Below 2^-14: adding 0.5 makes the unit in the last place that of a subnormal half, so the addition rounds.
    const Words subnormal = (Words)((Vector<float>)magnitude + 0.5f) - 0x3f000000u;
    const Words normal = (magnitude - kBiasDifference + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    const Words large = magnitude > 0x7f800000u ? Words{} + 0x7e00u : Words{} + 0x7c00u;
    const Words small = magnitude < 0x38800000u ? subnormal : normal;
    return (magnitude < 0x47800000u ? small : large) | (bits >> 16 & 0x8000u);
  }
};
#endif

using BFloat16 = Half<BrainFormat>;
using Float16 = Half<HalfFormat>;
