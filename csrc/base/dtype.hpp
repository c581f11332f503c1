// The element types of a buffer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.hpp"

namespace pycomm {

enum class DType : std::uint8_t { f64, f32, f16, bf16, i64, i32, i8, u8 };

inline constexpr std::array kDTypes = {DType::f64, DType::f32, DType::f16, DType::bf16,
                                       DType::i64, DType::i32, DType::i8,  DType::u8};

constexpr std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64: return 8;
    case DType::f32:
    case DType::i32: return 4;
    case DType::f16:
    case DType::bf16: return 2;
    case DType::i8:
    case DType::u8: return 1;
  }
  return 0;
}

// The NumPy (or ml_dtypes) name.
constexpr std::string_view name_of(DType dtype) {
  constexpr std::array<std::string_view, 8> names = {"float64", "float32", "float16", "bfloat16",
                                                     "int64",   "int32",   "int8",    "uint8"};
  return names[static_cast<std::size_t>(dtype)];
}

// Raises UsageError for a name that is not one of kDTypes.
inline DType dtype_from(std::string_view name) {
  for (DType dtype : kDTypes)
    if (name_of(dtype) == name) return dtype;
  throw UsageError("unknown dtype '" + std::string(name) +
                   "': one of float64, float32, float16, bfloat16, int64, int32, int8, uint8");
}

}  // namespace pycomm
