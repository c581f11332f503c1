#include "reduce/reduce.hpp"

#include <array>
#include <cstdlib>

namespace pycomm {

namespace {

constexpr std::array kIsas = {Isa::portable, Isa::avx2, Isa::avx512};

const KernelTable& table_of(Isa isa) {
  switch (isa) {
    case Isa::portable: break;
    case Isa::avx2: return kAvx2Kernels;
    case Isa::avx512: return kAvx512Kernels;
  }
  return kPortableKernels;
}

void require(Isa isa, const std::string& who) {
  const std::string missing = missing_for(isa);
  if (!missing.empty()) throw Unavailable(who + ": " + missing);
}

}  // namespace

std::string_view name_of(Isa isa) {
  constexpr std::array<std::string_view, 3> names = {"portable", "avx2", "avx512"};
  return names[static_cast<std::size_t>(isa)];
}

std::string missing_for(Isa isa) {
  std::string missing;
  const auto need = [&missing](bool present, const char* feature) {
    if (!present) missing += (missing.empty() ? "this CPU lacks " : ", ") + std::string(feature);
  };
  if (isa != Isa::portable) {
    need(__builtin_cpu_supports("avx2"), "avx2");
    need(__builtin_cpu_supports("f16c"), "f16c");
  }
  if (isa == Isa::avx512) {
    need(__builtin_cpu_supports("avx512f"), "avx512f");
    need(__builtin_cpu_supports("avx512bw"), "avx512bw");
    need(__builtin_cpu_supports("avx512vl"), "avx512vl");
    need(__builtin_cpu_supports("avx512dq"), "avx512dq");
  }
  return missing;
}

std::vector<Isa> available_isas() {
  std::vector<Isa> available;
  for (Isa isa : kIsas)
    if (missing_for(isa).empty()) available.push_back(isa);
  return available;
}

Isa best_isa() {
  const char* forced = std::getenv("PYCOMM_CPU");
  if (forced == nullptr) return available_isas().back();
  for (Isa isa : kIsas) {
    if (name_of(isa) != forced) continue;
    require(isa, "PYCOMM_CPU=" + std::string(forced));
    return isa;
  }
  throw UsageError("PYCOMM_CPU: found '" + std::string(forced) + "', wanted avx512, avx2 or portable");
}

const Kernels& kernels(DType dtype, Op op) { return kernels(dtype, op, best_isa()); }

const Kernels& kernels(DType dtype, Op op, Isa isa) {
  require(isa, "kernels of " + std::string(name_of(isa)));
  return table_of(isa).of[static_cast<std::size_t>(dtype)][static_cast<std::size_t>(op)];
}

Convert converter(DType to, DType from) { return converter(to, from, best_isa()); }

Convert converter(DType to, DType from, Isa isa) {
  require(isa, "converter of " + std::string(name_of(isa)));
  return table_of(isa).convert[static_cast<std::size_t>(to)][static_cast<std::size_t>(from)];
}

}  // namespace pycomm
