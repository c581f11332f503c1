// Vectorised reduction, chosen at run time by the CPU's abilities. The numbers are the same bits on every path:
//
//   - reduce rounds to the element type each time; combine accumulates f16 and bf16 in float32 and rounds once
//   - rounding is to nearest, ties to even; subnormals are kept; nothing is contracted or reassociated
//   - min and max: NaN wins, −0 < +0
//   - a NaN result, of any op, is the type's canonical quiet NaN (0x7e00, 0x7fc0, 0x7fc00000, 0x7ff8000000000000)
//   - integers wrap
//   - avg is the sum, then one division by the number of contributors: IEEE in float32 (f16, bf16, f32) or float64;
//     integers truncate toward zero after the wrapped sum
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "base/op.hpp"
#include "reduce/kernels.hpp"

namespace pycomm {

enum class Isa : unsigned char { portable, avx2, avx512 };

// "portable", "avx2" or "avx512".
std::string_view name_of(Isa isa);

// Empty if this CPU runs `isa`, else the reason: "this CPU lacks avx512f, avx512bw".
std::string missing_for(Isa isa);

// Those this CPU runs, portable first.
std::vector<Isa> available_isas();

// The widest this CPU runs, or what the environment variable PYCOMM_CPU (avx512, avx2 or portable) forces.
// Raises UsageError for another text, Unavailable for a path that the CPU lacks. Reads the environment at each call:
// ask when preparing, not when reducing.
Isa best_isa();

// Looked up once, when an operation is prepared; valid for the life of the program. Raises as best_isa.
const Kernels& kernels(DType dtype, Op op);

// The kernels of one path. Raises Unavailable if this CPU lacks it.
const Kernels& kernels(DType dtype, Op op, Isa isa);

// The conversion between two types on the path of best_isa (which it raises as): among f32, f16 and bf16, between f64
// and f32, and from each of the four to itself. Null for other pairs.
Convert converter(DType to, DType from);
Convert converter(DType to, DType from, Isa isa);

// Copies `bytes`; the places may be the same but not overlap otherwise. `streaming` stores past the cache
// (non-temporal; ordered before later stores), for copies larger than the cache.
void copy(void* to, const void* from, std::size_t bytes, bool streaming);

}  // namespace pycomm
