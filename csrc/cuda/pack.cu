// A block takes an equal part of the buffer and walks the tensors that lie in it. Within a tensor a thread takes a
// group of elements, as many as fill 16 bytes of the narrower type, counted from where stores are aligned.
#include "cuda/pack.hpp"
#include "cuda/units.cuh"

namespace pycomm::device {

namespace {

constexpr int kGroupsInFlight = 4;

template <DType to, DType from>
struct Conversion {
  using To = typename Number<to>::Stored;
  using From = typename Number<from>::Stored;
  static constexpr bool kDouble = to == DType::f64 || from == DType::f64;
  using Working = std::conditional_t<kDouble, double, float>;

  __device__ static To convert(From value, double factor) {
    const auto wide = static_cast<Working>(Number<from>::widen(value));
    return Number<to>::narrow(static_cast<typename Number<to>::Wide>(wide * static_cast<Working>(factor)));
  }
};

template <class Element>
struct Copy {
  using To = Element;
  using From = Element;
  __device__ static To convert(From value, double) { return value; }
};

// Elements of one thread, held as packs (GCC 12 fails on an array of elements that is filled from packs).
template <class Element, int kElements>
struct Group {
  static constexpr int kItem = static_cast<int>(sizeof(Element));
  static constexpr int kPacks = kItem * kElements / 16;
  Pack packs[kPacks] = {};

  __device__ Element get(int i) const {
    Element element;
    memcpy(&element, reinterpret_cast<const char*>(packs) + i * kItem, sizeof element);
    return element;
  }
  __device__ void set(int i, Element element) {
    memcpy(reinterpret_cast<char*>(packs) + i * kItem, &element, sizeof element);
  }

  __device__ void load(const char* from, int valid) {
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int bytes = valid * kItem - 16 * i;
      if (bytes > 0) packs[i] = load_unit(from + 16 * i, bytes < 16 ? bytes : 16, kItem);
    }
  }
  __device__ void store(char* to, int valid) const {
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int bytes = valid * kItem - 16 * i;
      if (bytes > 0) store_unit(to + 16 * i, bytes < 16 ? bytes : 16, kItem, packs[i]);
    }
  }
};

template <class Rule>
__device__ void convert_run(char* to, const char* from, std::int64_t count, double factor) {
  using To = typename Rule::To;
  using From = typename Rule::From;
  constexpr int narrower = sizeof(To) < sizeof(From) ? sizeof(To) : sizeof(From);
  constexpr int kElements = 16 / narrower;
  // Group 0 is short, so that the stores of the others are aligned.
  const auto past = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to) % 16 / sizeof(To)) % kElements;
  const std::int64_t groups = (past + count + kElements - 1) / kElements, threads = thread_count();
  for (std::int64_t first = thread_index(); first < groups; first += kGroupsInFlight * threads) {
    Group<From, kElements> taken[kGroupsInFlight];
#pragma unroll
    for (int k = 0; k < kGroupsInFlight; ++k) {
      const std::int64_t group = first + k * threads;
      if (group >= groups) break;
      const std::int64_t begin = group == 0 ? 0 : group * kElements - past;
      const std::int64_t end = (group + 1) * kElements - past < count ? (group + 1) * kElements - past : count;
      taken[k].load(from + begin * static_cast<std::int64_t>(sizeof(From)), static_cast<int>(end - begin));
    }
#pragma unroll
    for (int k = 0; k < kGroupsInFlight; ++k) {
      const std::int64_t group = first + k * threads;
      if (group >= groups) break;
      const std::int64_t begin = group == 0 ? 0 : group * kElements - past;
      const std::int64_t end = (group + 1) * kElements - past < count ? (group + 1) * kElements - past : count;
      Group<To, kElements> made;
#pragma unroll
      for (int i = 0; i < kElements; ++i) made.set(i, Rule::convert(taken[k].get(i), factor));
      made.store(to + begin * static_cast<std::int64_t>(sizeof(To)), static_cast<int>(end - begin));
    }
  }
}

template <class Element>
__device__ void clear_run(char* to, std::int64_t count) {
  for (std::int64_t i = thread_index(); i < count; i += thread_count())
    store(reinterpret_cast<Element*>(to) + i, Element{});
}

// The last tensor that begins at or before `place`; -1 if none does.
__device__ inline std::int32_t tensor_at(const PackArguments& arguments, std::int64_t place) {
  std::int32_t low = -1, high = arguments.tensor_count - 1;
  while (low < high) {
    const std::int32_t middle = low + (high - low + 1) / 2;
    if (arguments.tensors[middle].begin <= place)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

template <class Rule>
__device__ void walk(const PackArguments& arguments) {
  using To = typename Rule::To;
  using From = typename Rule::From;
  constexpr std::int64_t kEven = 64;  // parts begin at whole groups of every type
  const std::int64_t blocks = block_count(), index = block_index();
  const std::int64_t part = ((arguments.count + blocks - 1) / blocks + kEven - 1) / kEven * kEven;
  const std::int64_t end = (index + 1) * part < arguments.count ? (index + 1) * part : arguments.count;
  std::int64_t place = index * part;
  std::int32_t tensor = tensor_at(arguments, place);
  while (place < end) {
    const bool known = tensor >= 0;
    const PackTensor here = known ? arguments.tensors[tensor] : PackTensor{nullptr, 0, 0};
    if (known && place < here.begin + here.count) {
      const std::int64_t stop = here.begin + here.count < end ? here.begin + here.count : end;
      const std::int64_t skipped = place - here.begin;
      const bool packs = arguments.to_buffer;
      const auto to_place = (packs ? place : skipped) * static_cast<std::int64_t>(sizeof(To));
      const auto from_place = (packs ? skipped : place) * static_cast<std::int64_t>(sizeof(From));
      convert_run<Rule>((packs ? arguments.buffer : here.data) + to_place,
                        (packs ? here.data : arguments.buffer) + from_place, stop - place, arguments.factor);
      place = stop;
      continue;
    }
    const bool last = tensor + 1 >= arguments.tensor_count;
    const std::int64_t next =
        last || arguments.tensors[tensor + 1].begin > end ? end : arguments.tensors[tensor + 1].begin;
    if (arguments.to_buffer)
      clear_run<To>(arguments.buffer + place * static_cast<std::int64_t>(sizeof(To)), next - place);
    place = next;
    ++tensor;
  }
}

template <class Rule>
__global__ void __launch_bounds__(kPackThreads) pack_kernel(PackArguments arguments) {
  walk<Rule>(arguments);
}

template <DType to, DType from>
PackKernel converting() {
  return pack_kernel<Conversion<to, from>>;
}

}  // namespace

PackKernel pack_kernel_of(DType to, DType from, bool copies) {
  if (copies) {
    if (to != from) return nullptr;
    switch (size_of(to)) {
      case 8: return pack_kernel<Copy<std::uint64_t>>;
      case 4: return pack_kernel<Copy<std::uint32_t>>;
      case 2: return pack_kernel<Copy<std::uint16_t>>;
      default: return pack_kernel<Copy<std::uint8_t>>;
    }
  }
  using enum DType;
  if (to == f64 && from == f64) return converting<f64, f64>();
  if (to == f64 && from == f32) return converting<f64, f32>();
  if (to == f32 && from == f64) return converting<f32, f64>();
  if (to == f32 && from == f32) return converting<f32, f32>();
  if (to == f32 && from == f16) return converting<f32, f16>();
  if (to == f32 && from == bf16) return converting<f32, bf16>();
  if (to == f16 && from == f32) return converting<f16, f32>();
  if (to == f16 && from == f16) return converting<f16, f16>();
  if (to == f16 && from == bf16) return converting<f16, bf16>();
  if (to == bf16 && from == f32) return converting<bf16, f32>();
  if (to == bf16 && from == f16) return converting<bf16, f16>();
  if (to == bf16 && from == bf16) return converting<bf16, bf16>();
  return nullptr;
}

}  // namespace pycomm::device
