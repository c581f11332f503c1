// float16 and bfloat16. Sums, products and divisions: two vectors of float32 for one vector of elements. Min and max:
// integers in the order of the numbers.

// kInfinity: the bits of infinity. The canonical NaN has the next bit below the exponent set.
template <std::uint16_t kInfinity, std::uint16_t kCanonicalNan>
PYCOMM_INLINE Raw with_canonical_nan(Raw raw) {
  using Signed = Vector<std::int16_t>;
  const Signed magnitude = (Signed)raw & 0x7fff;
  return (Raw)(magnitude > Signed{} + std::int16_t{kInfinity} ? Signed{} + std::int16_t{kCanonicalNan} : (Signed)raw);
}

struct FloatPair {
  Vector<float> first, second;
};

template <class Format>
struct Half {
  using Element = std::uint16_t;
  using Accumulator = FloatPair;
  static constexpr int kUnroll = 4;

  PYCOMM_INLINE static FloatPair unpack(Raw raw) { return Format::widen(raw); }
  PYCOMM_INLINE static FloatPair unpack_at(const char* from) { return Format::widen_at(from); }
  PYCOMM_INLINE static Raw pack(const FloatPair& a) {
    return with_canonical_nan<Format::kInfinity, Format::kCanonicalNan>(Format::narrow(a));
  }
  PYCOMM_INLINE static FloatPair rounded(const FloatPair& a) { return Format::rounded(a); }

  PYCOMM_INLINE static FloatPair sum(const FloatPair& a, const FloatPair& b) {
    return {a.first + b.first, a.second + b.second};
  }
  PYCOMM_INLINE static FloatPair prod(const FloatPair& a, const FloatPair& b) {
    return {a.first * b.first, a.second * b.second};
  }

  using Divisor = Vector<float>;
  static Divisor divisor(std::int64_t contributors) { return Float32::divisor(contributors); }
  static Divisor reciprocal(std::int64_t power_of_two) { return Float32::reciprocal(power_of_two); }
  PYCOMM_INLINE static FloatPair divide(const FloatPair& a, const Divisor& by) { return {a.first / by, a.second / by}; }
  PYCOMM_INLINE static FloatPair multiply(const FloatPair& a, const Divisor& by) {
    return {a.first * by, a.second * by};
  }
};

// An integer for each number, in the numbers' order, −0 below +0; every NaN below (kLess) or above all of them.
template <class Format, bool kLess>
struct OrderedHalf {
  using Element = std::uint16_t;
  using Accumulator = Vector<std::int16_t>;
  static constexpr int kUnroll = 4;

  // Flipping the magnitude of the negative ones gives the order, with a NaN at both ends. Adding the number of NaNs at
  // one end wraps that end round to the other.
  PYCOMM_INLINE static Accumulator unpack(Raw raw) { return turned(flipped((Accumulator)raw), kTurn); }
  PYCOMM_INLINE static Accumulator unpack_at(const char* from) { return unpack(load(from)); }
  PYCOMM_INLINE static Raw pack(Accumulator a) {
    return with_canonical_nan<Format::kInfinity, Format::kCanonicalNan>((Raw)flipped(turned(a, -kTurn)));
  }
  PYCOMM_INLINE static Accumulator min(Accumulator a, Accumulator b) { return a < b ? a : b; }
  PYCOMM_INLINE static Accumulator max(Accumulator a, Accumulator b) { return a > b ? a : b; }

 private:
  static constexpr int kNans = 0x7fff - Format::kInfinity;
  static constexpr int kTurn = kLess ? kNans : -kNans;

  PYCOMM_INLINE static Accumulator turned(Accumulator a, int by) {
    return (Accumulator)((Vector<std::uint16_t>)a + static_cast<std::uint16_t>(by));
  }
  PYCOMM_INLINE static Accumulator flipped(Accumulator a) { return a ^ ((a >> 15) & 0x7fff); }
};

// bfloat16: the elements at even and odd places. Each is the upper half of a float32, so no shuffle is needed.
struct BrainFormat {
  static constexpr std::uint16_t kInfinity = 0x7f80, kCanonicalNan = 0x7fc0;
  using Words = Vector<std::uint32_t>;

  PYCOMM_INLINE static FloatPair widen(Raw raw) {
    const Words words = (Words)raw;
    return {(Vector<float>)(words << 16), (Vector<float>)(words & 0xffff0000u)};
  }
  PYCOMM_INLINE static FloatPair widen_at(const char* from) { return widen(load(from)); }
  PYCOMM_INLINE static Raw narrow(const FloatPair& a) {
    return (Raw)(rounded_bits(a.first) >> 16 | (rounded_bits(a.second) & 0xffff0000u));
  }
  PYCOMM_INLINE static FloatPair rounded(const FloatPair& a) {
    return {(Vector<float>)(rounded_bits(a.first) & 0xffff0000u),
            (Vector<float>)(rounded_bits(a.second) & 0xffff0000u)};
  }
  PYCOMM_INLINE static Words upper_half(Vector<float> a) { return rounded_bits(a) >> 16; }

 private:
  // To nearest, ties to even, in the upper 16 bits. A NaN stays one, since it has none of the lower bits: it comes from
  // a bfloat16 or from an invalid operation.
  PYCOMM_INLINE static Words rounded_bits(Vector<float> a) {
    const Words bits = (Words)a;
    return bits + 0x7fffu + (bits >> 16 & 1u);
  }
};

// float16: with F16C the elements of the lower and the upper half, else those at even and odd places.
struct HalfFormat {
  static constexpr std::uint16_t kInfinity = 0x7c00, kCanonicalNan = 0x7e00;

  PYCOMM_INLINE static FloatPair rounded(const FloatPair& a) { return widen(narrow(a)); }

  // widen_at converts from memory, which takes half the time of converting a register.
#if PYCOMM_VECTOR_BYTES == 64
  PYCOMM_INLINE static FloatPair widen(Raw raw) {
    const __m512i bits = (__m512i)raw;
    return {_mm512_cvtph_ps(_mm512_castsi512_si256(bits)), _mm512_cvtph_ps(_mm512_extracti64x4_epi64(bits, 1))};
  }
  PYCOMM_INLINE static FloatPair widen_at(const char* from) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))),
            _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from) + 1))};
  }
  PYCOMM_INLINE static Raw narrow(const FloatPair& a) {
    const __m256i low = _mm512_cvtps_ph(a.first, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m256i high = _mm512_cvtps_ph(a.second, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    return (Raw)_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
  }
#elif PYCOMM_VECTOR_BYTES == 32
  PYCOMM_INLINE static FloatPair widen(Raw raw) {
    const __m256i bits = (__m256i)raw;
    return {_mm256_cvtph_ps(_mm256_castsi256_si128(bits)), _mm256_cvtph_ps(_mm256_extracti128_si256(bits, 1))};
  }
  PYCOMM_INLINE static FloatPair widen_at(const char* from) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))),
            _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from) + 1))};
  }
  PYCOMM_INLINE static Raw narrow(const FloatPair& a) {
    const __m128i low = _mm256_cvtps_ph(a.first, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m128i high = _mm256_cvtps_ph(a.second, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    return (Raw)_mm256_set_m128i(high, low);
  }
#else
  PYCOMM_INLINE static FloatPair widen(Raw raw) {
    const Words words = (Words)raw;
    return {widened(words & 0xffffu), widened(words >> 16)};
  }
  PYCOMM_INLINE static FloatPair widen_at(const char* from) { return widen(load(from)); }
  PYCOMM_INLINE static Raw narrow(const FloatPair& a) { return (Raw)(narrowed(a.first) | narrowed(a.second) << 16); }

  using Words = Vector<std::uint32_t>;
  static constexpr std::uint32_t kBiasDifference = (127 - 15) << 23;

  PYCOMM_INLINE static Vector<float> widened(Words half) {
    const Words magnitude = half & 0x7fffu;
    const Words rebiased = (magnitude << 13) + kBiasDifference;
    const Words normal = magnitude < 0x7c00u ? rebiased : rebiased + kBiasDifference;  // infinity and NaN: twice
    const Vector<float> subnormal = __builtin_convertvector((Vector<std::int32_t>)magnitude, Vector<float>) * 0x1p-24f;
    return (Vector<float>)((magnitude < 0x400u ? (Words)subnormal : normal) | (half & 0x8000u) << 16);
  }
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
#endif
};

using BFloat16 = Half<BrainFormat>;
using Float16 = Half<HalfFormat>;
