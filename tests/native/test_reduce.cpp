// Every type × op × instruction set × count × alignment × operands × outputs × store, bit for bit.
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "reduce/reduce.hpp"
#include "reference.hpp"

namespace pycomm::test {

namespace {

constexpr std::size_t kCounts[] = {0,  1,  2,  3,  7,  8,  15,  16,  17,  31,   32,
                                   33, 63, 64, 65, 96, 97, 127, 129, 160, 1000, 4099};
constexpr std::size_t kMostElements = 4099;
constexpr int kMostOperands = 9;
constexpr std::size_t kGuardBytes = 128;
constexpr unsigned char kGuard = 0xa5;

// Infinities, NaNs with payloads, both zeros, the smallest and largest numbers, halfway cases, ends of the integers.
std::vector<Bits> special_values(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return {0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000, 0xfff8000000000123, 0x7ff0000000000001,
              0x0000000000000000, 0x8000000000000000, 0x0000000000000001, 0x800fffffffffffff, 0x0010000000000000,
              0x7fefffffffffffff, 0xffefffffffffffff, 0x3ff0000000000000, 0x3ca0000000000000, 0x3ff0000000000001};
    case DType::f32:
      return {0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345, 0x7f800001, 0x00000000, 0x80000000, 0x00000001,
              0x807fffff, 0x00800000, 0x7f7fffff, 0xff7fffff, 0x3f800000, 0x33800000, 0x3f800001, 0x20000000};
    case DType::f16:
      return {0x7c00, 0xfc00, 0x7e00, 0xfe12, 0x7c01, 0x0000, 0x8000, 0x0001, 0x83ff, 0x0400,
              0x7bff, 0xfbff, 0x3c00, 0x1000, 0x3c01, 0x0c00, 0x1400, 0x4c00, 0x2c00};
    case DType::bf16:
      return {0x7f80, 0xff80, 0x7fc0, 0xffc1, 0x7f81, 0x0000, 0x8000, 0x0001, 0x807f,
              0x0080, 0x7f7f, 0xff7f, 0x3f80, 0x3b80, 0x3f81, 0x3c00, 0x4380, 0x1f80};
    case DType::i64: return {0, 1, ~Bits{0}, Bits{1} << 63, ~Bits{0} >> 1, 3, 0x100000001};
    case DType::i32: return {0, 1, 0xffffffff, 0x80000000, 0x7fffffff, 3, 0x10001};
    default: return {0, 1, 0xff, 0x80, 0x7f, 3, 0x11};
  }
}

// Three kinds in turn: any two special values meet, any bits, and numbers near one another so that sums round.
std::vector<Bits> inputs(DType dtype, int operand) {
  const std::vector<Bits> special = special_values(dtype);
  std::mt19937_64 random(17 + static_cast<unsigned>(operand));
  const int fraction_bits[] = {52, 23, 10, 7, 40, 20, 4, 4};
  std::vector<Bits> values(kMostElements);
  for (std::size_t i = 0; i < kMostElements; ++i) {
    const Bits any = random();
    const std::size_t turn = i / 3;
    switch (i % 3) {
      case 0:
        values[i] = special[operand % 2 == 0 ? turn % special.size() : turn / special.size() % special.size()];
        break;
      case 1: values[i] = any; break;
      default: {
        const int shift = fraction_bits[static_cast<int>(dtype)];
        const Bits exponent = special.size() > 12 ? special[12] >> shift : 0;
        values[i] = (exponent - (any >> 60) % 4 + 2) << shift | (any & ((Bits{1} << shift) - 1));
        if (any >> 59 & 1) values[i] |= Bits{1} << (8 * size_of(dtype) - 1);
      }
    }
    if (size_of(dtype) < 8) values[i] &= (Bits{1} << (8 * size_of(dtype))) - 1;
  }
  return values;
}

// A buffer between two guard zones, `shift` bytes off a 64-byte border.
class Guarded {
 public:
  Guarded(std::size_t bytes, std::size_t shift) : memory_(bytes + 2 * kGuardBytes + 64 + shift, kGuard), bytes_(bytes) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data() + kGuardBytes);
    offset_ = kGuardBytes + (0 - address) % 64 + shift;
  }
  void* data() { return memory_.data() + offset_; }
  bool guards_hold() const {
    for (std::size_t i = 0; i < memory_.size(); ++i)
      if ((i < offset_ || i >= offset_ + bytes_) && memory_[i] != kGuard) return false;
    return true;
  }

 private:
  std::vector<unsigned char> memory_;
  std::size_t bytes_, offset_;
};

struct Case {
  Isa isa;
  DType dtype;
  Op op;
  int operands, outputs;
  std::size_t count, shift;
  std::int64_t contributors;
  bool streaming;
  int in_place;  // the operand that is output 0, or -1
};

std::string text_of(const Case& c) {
  std::ostringstream text;
  text << name_of(c.isa) << ' ' << name_of(c.dtype) << ' ' << name_of(c.op) << " operands=" << c.operands
       << " outputs=" << c.outputs << " count=" << c.count << " shift=" << c.shift << " contributors=" << c.contributors
       << " streaming=" << c.streaming << " in_place=" << c.in_place;
  return text.str();
}

using Values = std::vector<std::vector<Bits>>;  // [operand][element]

void fill(DType dtype, void* buffer, const std::vector<Bits>& values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) set_element(dtype, buffer, i, values[i]);
}

void check_output(const Case& c, Guarded& output, const std::vector<Bits>& wanted, const char* what) {
  CHECK(output.guards_hold(), what << " wrote outside: " << text_of(c));
  for (std::size_t i = 0; i < c.count; ++i) {
    const Bits found = element_at(c.dtype, output.data(), i);
    if (found != wanted[i]) {
      CHECK(found == wanted[i], std::hex << what << " found 0x" << found << " wanted 0x" << wanted[i] << std::dec
                                         << " at element " << i << ": " << text_of(c));
      return;
    }
  }
}

void check_combine(const Case& c, const Values& values, const std::vector<Bits>& wanted) {
  const std::size_t bytes = c.count * size_of(c.dtype);
  std::vector<Guarded> from, to;
  std::vector<const void*> operands;
  std::vector<void*> outputs;
  for (int k = 0; k < c.operands; ++k) from.emplace_back(bytes, (c.shift * static_cast<std::size_t>(k + 1)) % 61);
  for (int k = 0; k < c.outputs; ++k) to.emplace_back(bytes, (c.shift * static_cast<std::size_t>(2 * k + 1)) % 61);
  for (Guarded& buffer : to) outputs.push_back(buffer.data());
  for (int k = 0; k < c.operands; ++k) {
    Guarded& buffer = k == c.in_place ? to[0] : from[static_cast<std::size_t>(k)];
    fill(c.dtype, buffer.data(), values[static_cast<std::size_t>(k)], c.count);
    operands.push_back(buffer.data());
  }
  kernels(c.dtype, c.op, c.isa)
      .combine(outputs.data(), c.outputs, operands.data(), c.operands, c.count, c.contributors,
               c.streaming ? (c.outputs + 1) / 2 : 0);
  for (Guarded& buffer : to) check_output(c, buffer, wanted, "combine");
}

void check_reduce(const Case& c, const Values& values, const std::vector<Bits>& wanted) {
  const std::size_t bytes = c.count * size_of(c.dtype);
  Guarded a(bytes, c.shift), b(bytes, 3 * c.shift % 61), to(bytes, 5 * c.shift % 61);
  fill(c.dtype, a.data(), values[0], c.count);
  fill(c.dtype, b.data(), values[1], c.count);
  Guarded& output = c.in_place == 0 ? a : c.in_place == 1 ? b : to;
  kernels(c.dtype, c.op, c.isa).reduce(output.data(), a.data(), b.data(), c.count, c.streaming);
  check_output(c, output, wanted, "reduce");
}

void check_scale(const Case& c, const Values& values) {
  Guarded buffer(c.count * size_of(c.dtype), c.shift);
  fill(c.dtype, buffer.data(), values[0], c.count);
  std::vector<Bits> wanted(c.count);
  for (std::size_t i = 0; i < c.count; ++i) wanted[i] = combined(c.dtype, c.op, {values[0][i]}, c.contributors);
  kernels(c.dtype, c.op, c.isa).scale(buffer.data(), c.count, c.contributors);
  check_output(c, buffer, wanted, "scale");
}

// All counts, alignments, outputs and stores of one wanted row.
void check_row(Case c, const Values& values) {
  std::vector<Bits> wanted(kMostElements), column(static_cast<std::size_t>(c.operands));
  for (std::size_t i = 0; i < kMostElements; ++i) {
    for (std::size_t k = 0; k < column.size(); ++k) column[k] = values[k][i];
    wanted[i] = combined(c.dtype, c.op, column, c.contributors);
  }
  std::size_t turn = static_cast<std::size_t>(c.operands);
  for (std::size_t count : kCounts)
    for (bool streaming : {false, true})
      for (std::size_t shift : {std::size_t{0}, size_of(c.dtype), std::size_t{5}}) {
        c.count = count;
        c.streaming = streaming;
        c.shift = shift;
        c.outputs = static_cast<int>(1 + turn % 3);
        c.in_place = static_cast<int>(turn / 3 % static_cast<std::size_t>(c.operands + 1)) - 1;
        ++turn;
        check_combine(c, values, wanted);
        if (c.operands == 2 && c.contributors == 0) check_reduce(c, values, wanted);
      }
}

void check_everything(Isa isa) {
  if (const std::string missing = missing_for(isa); !missing.empty()) skip(missing);
  for (DType dtype : kDTypes) {
    Values values;
    for (int k = 0; k < kMostOperands; ++k) values.push_back(inputs(dtype, k));
    for (Op op : kOps)
      for (int operands = 1; operands <= kMostOperands; ++operands) {
        Case c = {isa, dtype, op, operands, 1, 0, 0, 0, false, -1};
        check_row(c, values);
        if (op != Op::avg) continue;
        c.contributors = operands;
        check_row(c, values);
      }
  }
}

void portable_gives_the_reference_bits() { check_everything(Isa::portable); }
void avx2_gives_the_reference_bits() { check_everything(Isa::avx2); }
void avx512_gives_the_reference_bits() { check_everything(Isa::avx512); }

void division_is_exact_for_any_number_of_contributors() {
  std::vector<std::int64_t> contributors = {(std::int64_t{1} << 31) - 1, std::int64_t{1} << 31,
                                            (std::int64_t{1} << 31) + 1, std::int64_t{1} << 62,
                                            (std::int64_t{1} << 62) + 1, INT64_MAX};
  for (std::int64_t c = 1; c <= 300; ++c) contributors.push_back(c);
  for (std::int64_t c : {1000, 1023, 1024, 65535, 65536, 16777217}) contributors.push_back(c);
  for (Isa isa : available_isas())
    for (DType dtype : kDTypes) {
      Values values = {inputs(dtype, 0)};
      if (size_of(dtype) == 1)
        for (std::size_t i = 0; i < 256; ++i) values[0][i] = i;
      for (std::int64_t c : contributors)
        check_scale({isa, dtype, Op::avg, 1, 1, 257 + static_cast<std::size_t>(c % 7), 1, c, false, 0}, values);
    }
}

void copy_moves_every_byte_and_no_other() {
  for (std::size_t bytes : {0u, 1u, 63u, 64u, 127u, 128u, 129u, 191u, 1000u, 70001u})
    for (bool streaming : {false, true})
      for (std::size_t shift : {0u, 1u, 16u, 63u}) {
        Guarded from(bytes, 7), to(bytes, shift);
        auto* source = static_cast<unsigned char*>(from.data());
        for (std::size_t i = 0; i < bytes; ++i) source[i] = static_cast<unsigned char>(i % 251);
        copy(to.data(), source, bytes, streaming);
        CHECK(to.guards_hold(), bytes << " bytes, shift " << shift << ", streaming " << streaming);
        CHECK(bytes == 0 || std::memcmp(to.data(), source, bytes) == 0, bytes << " bytes, shift " << shift);
      }
}

void the_environment_forces_a_path() {
  const char* before = std::getenv("PYCOMM_CPU");
  const std::string kept = before != nullptr ? before : "";
  setenv("PYCOMM_CPU", "portable", 1);
  CHECK(best_isa() == Isa::portable, "forced");
  setenv("PYCOMM_CPU", "sse9", 1);
  CHECK_THROWS(UsageError, best_isa(), "PYCOMM_CPU: found 'sse9', wanted avx512, avx2 or portable");
  for (Isa isa : {Isa::avx2, Isa::avx512}) {
    const std::string missing = missing_for(isa);
    setenv("PYCOMM_CPU", std::string(name_of(isa)).c_str(), 1);
    if (missing.empty())
      CHECK(best_isa() == isa, name_of(isa));
    else
      CHECK_THROWS(Unavailable, best_isa(), missing);
  }
  unsetenv("PYCOMM_CPU");
  CHECK(best_isa() == available_isas().back(), "the widest by default");
  if (before != nullptr) setenv("PYCOMM_CPU", kept.c_str(), 1);
}

}  // namespace

void add_reduce_tests(std::vector<Test>& tests) {
  tests.push_back({"reduce: portable gives the reference bits", portable_gives_the_reference_bits});
  tests.push_back({"reduce: avx2 gives the reference bits", avx2_gives_the_reference_bits});
  tests.push_back({"reduce: avx512 gives the reference bits", avx512_gives_the_reference_bits});
  tests.push_back(
      {"reduce: division is exact for any number of contributors", division_is_exact_for_any_number_of_contributors});
  tests.push_back({"reduce: copy moves every byte and no other", copy_moves_every_byte_and_no_other});
  tests.push_back({"reduce: the environment forces a path", the_environment_forces_a_path});
}

}  // namespace pycomm::test
