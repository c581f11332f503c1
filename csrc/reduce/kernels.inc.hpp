// The reduction kernels, written once and compiled for each instruction set by kernels_<isa>.cpp, which defines
// PYCOMM_VECTOR_BYTES and PYCOMM_KERNELS. Nothing here may call an inline function or a template of the standard
// library: the linker keeps one copy of those, and it could be the one compiled for a CPU that is not there.

#include <cassert>
#include <cstddef>
#include <cstdint>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "base/dtype.hpp"
#include "base/op.hpp"
#include "reduce/kernels.hpp"

namespace pycomm {

namespace {

#include "reduce/vector.inc.hpp"
//
#include "reduce/integers.inc.hpp"
//
#include "reduce/floats.inc.hpp"
//
#include "reduce/halves.inc.hpp"
//
#include "reduce/convert.inc.hpp"

struct Sum {
  template <class T, class A>
  PYCOMM_INLINE static A apply(const A& a, const A& b) {
    return T::sum(a, b);
  }
};
struct Prod {
  template <class T, class A>
  PYCOMM_INLINE static A apply(const A& a, const A& b) {
    return T::prod(a, b);
  }
};
struct Min {
  template <class T, class A>
  PYCOMM_INLINE static A apply(const A& a, const A& b) {
    return T::min(a, b);
  }
};
struct Max {
  template <class T, class A>
  PYCOMM_INLINE static A apply(const A& a, const A& b) {
    return T::max(a, b);
  }
};

// What one call works on.
struct Places {
  char* const* to;
  int outputs;
  const char* const* from;
  int operands;
};

// What becomes of the accumulated value before it is stored.
template <class T>
struct Rounded {
  PYCOMM_INLINE Raw operator()(const typename T::Accumulator& a) const { return T::pack(a); }
};
template <class T>
struct RoundedThenDivided {
  const typename T::Divisor by;
  PYCOMM_INLINE Raw operator()(const typename T::Accumulator& a) const { return T::pack(T::divide(T::rounded(a), by)); }
};
// A power of two divides by a multiplication: the same bits in less time.
template <class T>
struct RoundedThenMultiplied {
  const typename T::Divisor by;
  PYCOMM_INLINE Raw operator()(const typename T::Accumulator& a) const {
    return T::pack(T::multiply(T::rounded(a), by));
  }
};

// kOperands: the number of operands if it is known when compiling, else 0.
template <class T, class Operation, int kOperands, class Finish>
struct Sweep {
  using Accumulator = typename T::Accumulator;

  // The result of one vector; `read(place)` loads it.
  template <class Read>
  PYCOMM_INLINE static Raw one(const Places& places, std::size_t offset, Finish finish, Read read) {
    const int operands = kOperands != 0 ? kOperands : places.operands;
    Accumulator sum = read(places.from[0] + offset);
    for (int k = 1; k < operands; ++k) sum = Operation::template apply<T>(sum, read(places.from[k] + offset));
    return finish(sum);
  }

  // kUnroll neighbouring vectors, each operand read in one go, so that a stream is followed for whole cache lines.
  PYCOMM_INLINE static void block(const Places& places, std::size_t offset, Finish finish, int streamed) {
    const int operands = kOperands != 0 ? kOperands : places.operands;
    Accumulator sums[T::kUnroll];
    const char* from = places.from[0] + offset;
    if (streamed != 0) prefetch<T::kUnroll * kWidth>(from);
#pragma GCC unroll 4
    for (int i = 0; i < T::kUnroll; ++i) sums[i] = T::unpack_at(from + i * kWidth);
    for (int k = 1; k < operands; ++k) {
      from = places.from[k] + offset;
      if (streamed != 0) prefetch<T::kUnroll * kWidth>(from);
#pragma GCC unroll 4
      for (int i = 0; i < T::kUnroll; ++i)
        sums[i] = Operation::template apply<T>(sums[i], T::unpack_at(from + i * kWidth));
    }
    Raw results[T::kUnroll];
#pragma GCC unroll 4
    for (int i = 0; i < T::kUnroll; ++i) results[i] = finish(sums[i]);
    for (int k = 0; k < places.outputs; ++k) put<T::kUnroll>(places.to[k] + offset, results, k < streamed);
  }

  template <int kVectors>
  PYCOMM_INLINE static void put(char* to, const Raw* results, bool streaming) {
    if (streaming && is_aligned(to)) {
#pragma GCC unroll 4
      for (int i = 0; i < kVectors; ++i) stream(to + i * kWidth, results[i]);
    } else {
#pragma GCC unroll 4
      for (int i = 0; i < kVectors; ++i) store(to + i * kWidth, results[i]);
    }
  }

  // Vectors that do not fit the grid, at the end and (to align what is streamed) at the beginning, overlap their
  // neighbours. They are computed first and stored last, so that an output may be one of the operands.
  static void run(const Places& places, std::size_t count, Finish finish, int streamed) {
    constexpr std::size_t element_bytes = sizeof(typename T::Element);
    const std::size_t bytes = count * element_bytes;
    if (bytes < kWidth) {
      if (bytes == 0) return;
      const Raw result =
          one(places, 0, finish, [bytes](const char* from) { return T::unpack(load_first(from, bytes)); });
      for (int k = 0; k < places.outputs; ++k) store_first(places.to[k], result, bytes);
      return;
    }
    std::size_t begin = 0;
    if (streamed != 0) {
      begin = (0 - reinterpret_cast<std::uintptr_t>(places.to[0])) % kWidth;
      if (begin % element_bytes != 0) begin = 0, streamed = 0;
    }
    const auto whole = [](const char* from) { return T::unpack_at(from); };
    const std::size_t end = begin + (bytes - begin) / kWidth * kWidth;
    const Raw head = begin != 0 ? one(places, 0, finish, whole) : Raw{};
    const Raw tail = end != bytes ? one(places, bytes - kWidth, finish, whole) : Raw{};

    constexpr std::size_t block_bytes = T::kUnroll * kWidth;
    std::size_t offset = begin;
    for (; end - offset >= block_bytes; offset += block_bytes) block(places, offset, finish, streamed);
    for (; offset != end; offset += kWidth) {
      const Raw result = one(places, offset, finish, whole);
      for (int k = 0; k < places.outputs; ++k) put<1>(places.to[k] + offset, &result, k < streamed);
    }

    for (int k = 0; k < places.outputs; ++k) {
      if (begin != 0) store(places.to[k], head);
      if (end != bytes) store(places.to[k] + bytes - kWidth, tail);
    }
    if (streamed != 0) fence();
  }
};

template <class T, class Operation>
void reduce(void* to, const void* a, const void* b, std::size_t count, bool streaming) {
  char* const outputs[] = {static_cast<char*>(to)};
  const char* const operands[] = {static_cast<const char*>(a), static_cast<const char*>(b)};
  Sweep<T, Operation, 2, Rounded<T>>::run({outputs, 1, operands, 2}, count, {}, streaming ? 1 : 0);
}

// Two operands are the common case, and a tenth faster when the compiler knows.
template <class T, class Operation, class Finish>
void sweep(const Places& places, std::size_t count, Finish finish, int streamed) {
  if (places.operands == 2)
    Sweep<T, Operation, 2, Finish>::run(places, count, finish, streamed);
  else
    Sweep<T, Operation, 0, Finish>::run(places, count, finish, streamed);
}

template <class T, class Operation, bool kDivides>
void combine(void* const* to, int outputs, const void* const* operands, int n, std::size_t count,
             std::int64_t contributors, int streamed) {
  const Places places = {reinterpret_cast<char* const*>(to), outputs, reinterpret_cast<const char* const*>(operands),
                         n};
  if constexpr (kDivides) {
    if constexpr (requires { &T::multiply; })
      if (contributors > 1 && (contributors & (contributors - 1)) == 0)
        return sweep<T, Operation>(places, count, RoundedThenMultiplied<T>{T::reciprocal(contributors)}, streamed);
    if (contributors > 1)
      return sweep<T, Operation>(places, count, RoundedThenDivided<T>{T::divisor(contributors)}, streamed);
  } else {
    assert(contributors == 0);
  }
  sweep<T, Operation>(places, count, Rounded<T>{}, streamed);
}

template <class T>
void scale(void* to, std::size_t count, std::int64_t contributors) {
  assert(contributors >= 1);
  const void* const operands[] = {to};
  combine<T, Sum, true>(&to, 1, operands, 1, count, contributors, 0);
}

// Min and max may need another form of the type.
template <class T, class Least = T, class Greatest = T>
constexpr void fill(KernelTable& table, DType dtype) {
  Kernels* row = table.of[static_cast<int>(dtype)];
  row[static_cast<int>(Op::sum)] = {reduce<T, Sum>, combine<T, Sum, true>, scale<T>};
  row[static_cast<int>(Op::prod)] = {reduce<T, Prod>, combine<T, Prod, false>, scale<T>};
  row[static_cast<int>(Op::min)] = {reduce<Least, Min>, combine<Least, Min, false>, scale<T>};
  row[static_cast<int>(Op::max)] = {reduce<Greatest, Max>, combine<Greatest, Max, false>, scale<T>};
  row[static_cast<int>(Op::avg)] = row[static_cast<int>(Op::sum)];
}

constexpr KernelTable make_table() {
  KernelTable table = {};
  fill<Float64>(table, DType::f64);
  fill<Float32>(table, DType::f32);
  fill<Float16, OrderedHalf<HalfFormat, true>, OrderedHalf<HalfFormat, false>>(table, DType::f16);
  fill<BFloat16, OrderedHalf<BrainFormat, true>, OrderedHalf<BrainFormat, false>>(table, DType::bf16);
  fill<Int64>(table, DType::i64);
  fill<Int32>(table, DType::i32);
  fill<Int8>(table, DType::i8);
  fill<UInt8>(table, DType::u8);
  fill_conversions(table);
  return table;
}

}  // namespace

constinit const KernelTable PYCOMM_KERNELS = make_table();

}  // namespace pycomm
