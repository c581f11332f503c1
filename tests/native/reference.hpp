// The rules of "Numbers" step by step on the bits of single elements, written apart from csrc/reduce: integers in
// 128 bits, small floats as doubles rounded long-hand.
#pragma once

#include <cstdint>
#include <vector>

#include "base/dtype.hpp"
#include "base/op.hpp"

namespace pycomm::test {

using Bits = std::uint64_t;

// The operands in order, f16 and bf16 accumulated in float32 and rounded once; then, if contributors > 0, divided.
Bits combined(DType dtype, Op op, const std::vector<Bits>& operands, std::int64_t contributors);

// One element's bits, given and taken as size_of(dtype) bytes.
Bits element_at(DType dtype, const void* buffer, std::size_t index);
void set_element(DType dtype, void* buffer, std::size_t index, Bits bits);

}  // namespace pycomm::test
