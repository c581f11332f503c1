// Element arithmetic by the rules of SCHEDULE.md, "Numbers", bit for bit that of csrc/reduce: one rounding to the
// element type an operation (combine: one in all, float32 in between for 16-bit types), integers wrap, a NaN result is
// the type's canonical quiet NaN, −0 < +0 in min and max, avg divides after the sum.
//
// Nothing here may be contracted or flushed: nvcc needs -fmad=false -prec-div=true -ftz=false, the host compiler
// -ffp-contract=off.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/dtype.hpp"
#include "base/op.hpp"
#include "cuda/accessors.cuh"

#ifndef PYCOMM_EMULATED
#include <cuda_fp16.h>
#endif

namespace pycomm::device {

template <class To, class From>
__device__ inline To bits_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

__device__ inline float half_to_float(std::uint16_t half) {
#ifdef PYCOMM_EMULATED
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 31u, fraction = half & 0x3FFu;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return bits_as<float>(bits_as<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t wide = exponent == 31 ? 255u : exponent + 112u;
  return bits_as<float>(sign | (wide << 23) | (fraction << 13));
#else
  return __half2float(__ushort_as_half(half));
#endif
}

__device__ inline std::uint16_t half_from_float(float value) {
  if (value != value) return 0x7E00u;
#ifdef PYCOMM_EMULATED
  const std::uint32_t bits = bits_as<std::uint32_t>(value), magnitude = bits & 0x7FFFFFFFu;
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  if (magnitude >= 0x47800000u) return static_cast<std::uint16_t>(sign | 0x7C00u);  // 2^16 and more
  // Shift to the place of a half's last bit (more for subnormals), then round to nearest, ties to even.
  const std::uint32_t exponent = magnitude >> 23;
  const bool subnormal = exponent < 113;
  const std::uint32_t shift = subnormal ? 126u - exponent : 13u;
  if (shift > 25) return static_cast<std::uint16_t>(sign);
  const std::uint32_t whole = subnormal ? (magnitude & 0x7FFFFFu) | 0x800000u : magnitude - (112u << 23);
  const std::uint32_t kept = whole >> shift, rest = whole & ((1u << shift) - 1u), tie = 1u << (shift - 1);
  const std::uint32_t up = rest > tie || (rest == tie && (kept & 1u)) ? 1u : 0u;
  return static_cast<std::uint16_t>(sign | (kept + up));
#else
  return __half_as_ushort(__float2half_rn(value));
#endif
}

__device__ inline float brain_to_float(std::uint16_t brain) {
  return bits_as<float>(static_cast<std::uint32_t>(brain) << 16);
}

__device__ inline std::uint16_t brain_from_float(float value) {
  if (value != value) return 0x7FC0u;
  const std::uint32_t bits = bits_as<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

// Number<dtype>: Stored as in memory, Wide as computed with.
template <DType dtype>
struct Number;

template <class F, class Bits, Bits kNan>
struct FloatNumber {
  using Stored = F;
  using Wide = F;
  __device__ static Wide widen(Stored value) { return value; }
  __device__ static Stored narrow(Wide value) { return value == value ? value : bits_as<F>(kNan); }
  __device__ static Wide divide(Wide value, std::int64_t by) { return value / static_cast<F>(by); }
};
template <>
struct Number<DType::f32> : FloatNumber<float, std::uint32_t, 0x7FC00000u> {};
template <>
struct Number<DType::f64> : FloatNumber<double, std::uint64_t, 0x7FF8000000000000u> {};

template <>
struct Number<DType::f16> {
  using Stored = std::uint16_t;
  using Wide = float;
  __device__ static Wide widen(Stored value) { return half_to_float(value); }
  __device__ static Stored narrow(Wide value) { return half_from_float(value); }
  __device__ static Wide divide(Wide value, std::int64_t by) { return value / static_cast<float>(by); }
};
template <>
struct Number<DType::bf16> {
  using Stored = std::uint16_t;
  using Wide = float;
  __device__ static Wide widen(Stored value) { return brain_to_float(value); }
  __device__ static Stored narrow(Wide value) { return brain_from_float(value); }
  __device__ static Wide divide(Wide value, std::int64_t by) { return value / static_cast<float>(by); }
};

template <class I>
struct IntegerNumber {
  using Stored = I;
  using Wide = I;
  __device__ static Wide widen(Stored value) { return value; }
  __device__ static Stored narrow(Wide value) { return value; }
  __device__ static Wide divide(Wide value, std::int64_t by) {
    return static_cast<I>(static_cast<std::int64_t>(value) / by);  // toward zero
  }
};
template <>
struct Number<DType::i64> : IntegerNumber<std::int64_t> {};
template <>
struct Number<DType::i32> : IntegerNumber<std::int32_t> {};
template <>
struct Number<DType::i8> : IntegerNumber<std::int8_t> {};
template <>
struct Number<DType::u8> : IntegerNumber<std::uint8_t> {};

// Integers wrap, so they are added and multiplied without a sign, in a type that is not promoted to a signed one.
__device__ inline float add(float a, float b) { return a + b; }
__device__ inline double add(double a, double b) { return a + b; }
__device__ inline float multiply(float a, float b) { return a * b; }
__device__ inline double multiply(double a, double b) { return a * b; }
template <class I>
__device__ inline I add(I a, I b) {
  return static_cast<I>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
template <class I>
__device__ inline I multiply(I a, I b) {
  return static_cast<I>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

__device__ inline bool sign_of(float value) { return bits_as<std::uint32_t>(value) >> 31; }
__device__ inline bool sign_of(double value) { return bits_as<std::uint64_t>(value) >> 63; }
template <class I>
__device__ inline bool sign_of(I) {
  return false;
}

template <class T>
__device__ inline T smaller(T a, T b) {
  if (a != a) return a;
  if (b != b) return b;
  if (a == b) return sign_of(a) ? a : b;
  return a < b ? a : b;
}
template <class T>
__device__ inline T larger(T a, T b) {
  if (a != a) return a;
  if (b != b) return b;
  if (a == b) return sign_of(a) ? b : a;
  return a > b ? a : b;
}

template <Op op, class T>
__device__ inline T apply(T a, T b) {
  if constexpr (op == Op::prod)
    return multiply(a, b);
  else if constexpr (op == Op::min)
    return smaller(a, b);
  else if constexpr (op == Op::max)
    return larger(a, b);
  else
    return add(a, b);
}

}  // namespace pycomm::device
