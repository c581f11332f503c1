// float32 and float64: IEEE operations, with the order of min and max and the canonical NaN of reduce.hpp.

template <class F, class Bits, Bits kCanonicalNan>
struct Floating {
  using Element = F;
  using Accumulator = Vector<F>;
  using BitVector = Vector<Bits>;
  static constexpr int kUnroll = 4;

  PYCOMM_INLINE static Accumulator unpack(Raw raw) { return (Accumulator)raw; }
  PYCOMM_INLINE static Accumulator unpack_at(const char* from) { return unpack(load(from)); }
  PYCOMM_INLINE static Raw pack(Accumulator a) { return (Raw)canonical(a); }
  PYCOMM_INLINE static Accumulator canonical(Accumulator a) { return a == a ? a : nan(); }

  PYCOMM_INLINE static Accumulator sum(Accumulator a, Accumulator b) { return a + b; }
  PYCOMM_INLINE static Accumulator prod(Accumulator a, Accumulator b) { return a * b; }

  // Equal numbers differ only as −0 and +0, where the other order gives the other zero: its sign is added (min) or
  // removed (max). A NaN and anything, joined by "or", is a NaN still; pack makes it canonical.
  PYCOMM_INLINE static Accumulator min(Accumulator a, Accumulator b) {
    const Accumulator one = a < b ? a : b;
    const Accumulator other = b < a ? b : a;
    return (Accumulator)((BitVector)one | (BitVector)other);
  }
  PYCOMM_INLINE static Accumulator max(Accumulator a, Accumulator b) {
    const Accumulator one = a > b ? a : b;
    const Accumulator other = b > a ? b : a;
    const Accumulator larger = (Accumulator)((BitVector)one & (BitVector)other);
    return (a != a) | (b != b) ? nan() : larger;
  }

  using Divisor = Accumulator;
  static Divisor divisor(std::int64_t contributors) { return Accumulator{} + static_cast<F>(contributors); }
  static Divisor reciprocal(std::int64_t power_of_two) { return Accumulator{} + 1 / static_cast<F>(power_of_two); }
  PYCOMM_INLINE static Accumulator rounded(Accumulator a) { return a; }
  PYCOMM_INLINE static Accumulator divide(Accumulator a, const Divisor& by) { return a / by; }
  PYCOMM_INLINE static Accumulator multiply(Accumulator a, const Divisor& by) { return a * by; }

 private:
  PYCOMM_INLINE static Accumulator nan() { return (Accumulator)(BitVector{} + kCanonicalNan); }
};

using Float64 = Floating<double, std::uint64_t, 0x7ff8000000000000u>;
using Float32 = Floating<float, std::uint32_t, 0x7fc00000u>;
