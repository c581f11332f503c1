// Integers: wrapping sums and products, and an exact division by a number known in advance.

// Division of a magnitude by d >= 2 as one multiplication and a shift. Source: Granlund & Montgomery 1994, theorem 4.2:
// with l = ceil(log2 d) and m = floor(2^(N+l) / d) + 1, floor(m x / 2^(N+l)) = floor(x / d) for 0 <= x < 2^N. For
// x = 2^N, the magnitude of the smallest number, it holds as well: the error of m x / 2^(N+l) is at most 1/d, and less
// unless d is a power of two, which divides 2^N.
struct MagicDivisor {
  std::uint64_t multiplier;
  unsigned shift;
};

// value_bits is N: 63 or 31. multiplier < 2^(N+1).
inline MagicDivisor magic_divisor(std::int64_t divisor, unsigned value_bits) {
  const auto d = static_cast<std::uint64_t>(divisor);
  if (value_bits < 63 && d > std::uint64_t{1} << value_bits) return {0, 0};  // every quotient is 0
  const unsigned log = 64 - static_cast<unsigned>(__builtin_clzll(d - 1));
  const unsigned __int128 power = static_cast<unsigned __int128>(1) << (value_bits + log);
  return {static_cast<std::uint64_t>(power / d + 1), log - 1};
}

// The parts common to all widths. S is the element type.
template <class S, class U>
struct Integer {
  using Element = S;
  using Accumulator = Vector<S>;
  static constexpr int kUnroll = 4;

  PYCOMM_INLINE static Accumulator unpack(Raw raw) { return (Accumulator)raw; }
  PYCOMM_INLINE static Accumulator unpack_at(const char* from) { return unpack(load(from)); }
  PYCOMM_INLINE static Raw pack(Accumulator a) { return (Raw)a; }
  PYCOMM_INLINE static Accumulator rounded(Accumulator a) { return a; }
  PYCOMM_INLINE static Accumulator sum(Accumulator a, Accumulator b) {
    return (Accumulator)((Vector<U>)a + (Vector<U>)b);
  }
  PYCOMM_INLINE static Accumulator prod(Accumulator a, Accumulator b) {
    return (Accumulator)((Vector<U>)a * (Vector<U>)b);
  }
  PYCOMM_INLINE static Accumulator min(Accumulator a, Accumulator b) { return a < b ? a : b; }
  PYCOMM_INLINE static Accumulator max(Accumulator a, Accumulator b) { return a > b ? a : b; }
};

// Splits signed numbers into sign mask and magnitude and puts them together again.
template <class S, class U>
PYCOMM_INLINE Vector<U> sign_mask(Vector<S> a) {
  return (Vector<U>)(a < 0);
}
template <class U>
PYCOMM_INLINE Vector<U> with_sign(Vector<U> a, Vector<U> mask) {
  return (a ^ mask) - mask;
}

struct Int64 : Integer<std::int64_t, std::uint64_t> {
  struct Divisor {
    Raw low, high;
    unsigned shift;
  };
  static Divisor divisor(std::int64_t contributors) {
    const MagicDivisor magic = magic_divisor(contributors, 63);
    const Raw zero = {};
    return {zero + (magic.multiplier & 0xffffffffu), zero + (magic.multiplier >> 32), magic.shift};
  }
  PYCOMM_INLINE static Accumulator divide(Accumulator value, const Divisor& by) {
    const Raw mask = sign_mask<std::int64_t, std::uint64_t>(value);
    const Raw a = with_sign<std::uint64_t>((Raw)value, mask);
    const Raw a_high = a >> 32;
    const Raw middle = multiply_even_u32(a_high, by.low) + (multiply_even_u32(a, by.low) >> 32);
    const Raw cross = multiply_even_u32(a, by.high) + (middle & 0xffffffffu);
    const Raw high = multiply_even_u32(a_high, by.high) + (middle >> 32) + (cross >> 32);
    return (Accumulator)with_sign<std::uint64_t>(high >> by.shift, mask);
  }
};

struct Int32 : Integer<std::int32_t, std::uint32_t> {
  struct Divisor {
    Raw multiplier;
    unsigned shift;
  };
  static Divisor divisor(std::int64_t contributors) {
    const MagicDivisor magic = magic_divisor(contributors, 31);
    return {Raw{} + magic.multiplier, magic.shift};
  }
  PYCOMM_INLINE static Accumulator divide(Accumulator value, const Divisor& by) {
    const auto mask = sign_mask<std::int32_t, std::uint32_t>(value);
    const Raw a = (Raw)with_sign<std::uint32_t>((Vector<std::uint32_t>)value, mask);
    const Raw even = multiply_even_u32(a, by.multiplier) >> 32 >> by.shift;
    const Raw odd = multiply_even_u32(a >> 32, by.multiplier) >> 32 >> by.shift;
    return (Accumulator)with_sign<std::uint32_t>((Vector<std::uint32_t>)(even | odd << 32), mask);
  }
};

// Quotients of bytes: floor(x ceil(2^16 / d) / 2^16) = floor(x / d) for 0 <= x < 256 and 2 <= d < 256, since the error
// x / 2^16 is below 1 / d; from d = 256 every quotient is 0.
struct ByteDivisor {
  Raw multiplier;
};
inline ByteDivisor byte_divisor(std::int64_t contributors) {
  const std::int64_t multiplier = contributors < 256 ? (65535 + contributors) / contributors : 0;
  return {(Raw)(Vector<std::uint16_t>{} + static_cast<std::uint16_t>(multiplier))};
}
PYCOMM_INLINE Raw divide_bytes(Raw raw, const ByteDivisor& by) {
  const auto lanes = (Vector<std::uint16_t>)raw;
  const Raw even = multiply_high_u16((Raw)(lanes & 0xff), by.multiplier);
  const Raw odd = multiply_high_u16((Raw)(lanes >> 8), by.multiplier);
  return even | (Raw)((Vector<std::uint16_t>)odd << 8);
}

struct Int8 : Integer<std::int8_t, std::uint8_t> {
  using Divisor = ByteDivisor;
  static Divisor divisor(std::int64_t contributors) { return byte_divisor(contributors); }
  PYCOMM_INLINE static Accumulator divide(Accumulator value, const Divisor& by) {
    const auto mask = sign_mask<std::int8_t, std::uint8_t>(value);
    const Raw magnitude = (Raw)with_sign<std::uint8_t>((Vector<std::uint8_t>)value, mask);
    return (Accumulator)with_sign<std::uint8_t>((Vector<std::uint8_t>)divide_bytes(magnitude, by), mask);
  }
};

struct UInt8 : Integer<std::uint8_t, std::uint8_t> {
  using Divisor = ByteDivisor;
  static Divisor divisor(std::int64_t contributors) { return byte_divisor(contributors); }
  PYCOMM_INLINE static Accumulator divide(Accumulator value, const Divisor& by) {
    return (Accumulator)divide_bytes((Raw)value, by);
  }
};
