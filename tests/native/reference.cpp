#include "reference.hpp"

#include <cmath>
#include <cstring>
#include <limits>

namespace pycomm::test {

namespace {

__extension__ using Wide = __int128;

struct FloatFormat {
  int exponent_bits, fraction_bits;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
};

FloatFormat format_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return {11, 52};
    case DType::f32: return {8, 23};
    case DType::f16: return {5, 10};
    default: return {8, 7};
  }
}

bool is_float(DType dtype) { return dtype <= DType::bf16; }

double decoded(FloatFormat format, Bits bits) {
  const Bits fraction = bits & ((Bits{1} << format.fraction_bits) - 1);
  const int all_ones = (1 << format.exponent_bits) - 1;
  const int exponent = static_cast<int>(bits >> format.fraction_bits) & all_ones;
  const bool negative = bits >> (format.fraction_bits + format.exponent_bits) & 1;
  double value;
  if (exponent == all_ones)
    value = fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  else if (exponent == 0)
    value = std::ldexp(static_cast<double>(fraction), 1 - format.bias() - format.fraction_bits);
  else
    value = std::ldexp(static_cast<double>(fraction | Bits{1} << format.fraction_bits),
                       exponent - format.bias() - format.fraction_bits);
  return negative ? -value : value;
}

// Rounds to nearest, ties to even, in whole units of the last place.
Bits encoded(FloatFormat format, double value) {
  const int all_ones = (1 << format.exponent_bits) - 1;
  const Bits infinity = static_cast<Bits>(all_ones) << format.fraction_bits;
  if (std::isnan(value)) return infinity | Bits{1} << (format.fraction_bits - 1);
  const Bits sign = std::signbit(value) ? Bits{1} << (format.fraction_bits + format.exponent_bits) : 0;
  value = std::fabs(value);
  if (std::isinf(value)) return sign | infinity;
  if (value == 0) return sign;
  int exponent = std::ilogb(value);
  if (exponent < 1 - format.bias()) exponent = 1 - format.bias();
  const double units = std::ldexp(value, format.fraction_bits - exponent);  // exact
  Bits whole = static_cast<Bits>(units);
  const double rest = units - static_cast<double>(whole);
  if (rest > 0.5 || (rest == 0.5 && whole % 2 == 1)) ++whole;
  // A carry out of the fraction moves into the exponent by itself.
  const Bits field = static_cast<Bits>(exponent + format.bias() - 1) << format.fraction_bits;
  const Bits magnitude = field + whole;
  return sign | (magnitude > infinity ? infinity : magnitude);
}

double applied(Op op, double a, double b) {
  switch (op) {
    case Op::sum:
    case Op::avg: return a + b;
    case Op::prod: return a * b;
    default: break;
  }
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  if (a == b) return std::signbit(a) == (op == Op::min) ? a : b;
  return (a < b) == (op == Op::min) ? a : b;
}

Bits combined_floats(DType dtype, Op op, const std::vector<Bits>& operands, std::int64_t contributors) {
  const FloatFormat format = format_of(dtype);
  // A double holds the exact result of one float32 operation, or one that rounds to the same float32
  // (Figueroa 1995: 53 >= 2 × 24 + 2).
  const FloatFormat working = dtype == DType::f64 ? format : format_of(DType::f32);
  double sum = decoded(format, operands[0]);
  for (std::size_t k = 1; k < operands.size(); ++k)
    sum = decoded(working, encoded(working, applied(op, sum, decoded(format, operands[k]))));
  Bits result = encoded(format, sum);
  if (contributors > 0) {
    const double divisor = decoded(working, encoded(working, static_cast<double>(contributors)));
    const double quotient = decoded(format, result) / divisor;
    result = encoded(format, decoded(working, encoded(working, quotient)));
  }
  return result;
}

Wide as_number(DType dtype, Bits bits) {
  switch (dtype) {
    case DType::i64: return static_cast<std::int64_t>(bits);
    case DType::i32: return static_cast<std::int32_t>(bits);
    case DType::i8: return static_cast<std::int8_t>(bits);
    default: return static_cast<std::uint8_t>(bits);
  }
}

Bits wrapped(DType dtype, Wide number) {
  const std::size_t bits = 8 * size_of(dtype);
  return static_cast<Bits>(number) & (bits == 64 ? ~Bits{0} : (Bits{1} << bits) - 1);
}

Bits combined_integers(DType dtype, Op op, const std::vector<Bits>& operands, std::int64_t contributors) {
  Bits result = operands[0];
  for (std::size_t k = 1; k < operands.size(); ++k) {
    const Wide a = as_number(dtype, result), b = as_number(dtype, operands[k]);
    switch (op) {
      case Op::sum:
      case Op::avg: result = wrapped(dtype, a + b); break;
      case Op::prod: result = wrapped(dtype, a * b); break;
      case Op::min: result = wrapped(dtype, a < b ? a : b); break;
      case Op::max: result = wrapped(dtype, a > b ? a : b); break;
    }
  }
  if (contributors > 0) result = wrapped(dtype, as_number(dtype, result) / contributors);
  return result;
}

}  // namespace

Bits combined(DType dtype, Op op, const std::vector<Bits>& operands, std::int64_t contributors) {
  return is_float(dtype) ? combined_floats(dtype, op, operands, contributors)
                         : combined_integers(dtype, op, operands, contributors);
}

Bits element_at(DType dtype, const void* buffer, std::size_t index) {
  Bits bits = 0;
  std::memcpy(&bits, static_cast<const char*>(buffer) + index * size_of(dtype), size_of(dtype));
  return bits;
}

void set_element(DType dtype, void* buffer, std::size_t index, Bits bits) {
  std::memcpy(static_cast<char*>(buffer) + index * size_of(dtype), &bits, size_of(dtype));
}

}  // namespace pycomm::test
