#include "cuda/shot.hpp"
#include "cuda/units.cuh"

namespace pycomm::device {

namespace {

// One call of one rank: where to store, where to look.
struct Exchange {
  const ShotArguments& arguments;
  std::uint64_t call;

  __device__ std::uint32_t line_flag() const { return static_cast<std::uint32_t>(call + 1); }
  __device__ bool lines() const { return arguments.layout.form == Form::line; }
  // The slot at rank `at` for what rank `from` stores there.
  __device__ char* slot(std::int32_t at, std::int32_t hop, std::int32_t from) const {
    return arguments.inboxes[at] + arguments.layout.slot(static_cast<std::int64_t>(call & 1), hop, from);
  }
  __device__ std::uint64_t* flag(std::int32_t at, std::int32_t hop, std::int32_t from) const {
    return reinterpret_cast<std::uint64_t*>(arguments.inboxes[at] + arguments.layout.flag(hop, from, block_index()));
  }

  __device__ void push(std::int32_t to, std::int32_t hop, std::int64_t unit, Pack value) const {
    char* there = slot(to, hop, arguments.rank);
    if (lines())
      store_lines(there, unit, value, line_flag());
    else
      store_pack(there + unit * kUnitBytes, value);
  }

  // After all threads have pushed for a hop: tells every peer. Lines tell for themselves.
  __device__ void tell(std::int32_t hop) const {
    if (lines()) return;
    barrier();
    const std::int32_t peer = static_cast<std::int32_t>(thread_index());
    for (std::int32_t each = peer; each < arguments.layout.ranks; each += static_cast<std::int32_t>(thread_count()))
      if (each != arguments.rank) store_release_system(flag(each, hop, arguments.rank), call + 1);
  }

  __device__ bool give_up(std::int32_t hop, std::int32_t peer) const {
    auto* status = reinterpret_cast<std::uint64_t*>(arguments.inboxes[arguments.rank] + arguments.layout.status());
    claim(status, 0, pack_waited({Waited::Reason::arrival, peer, static_cast<std::int32_t>(block_index()), hop, 0}));
    return false;
  }

  // Before any thread reads what a hop brought: waits for every peer. False when it took too long.
  __device__ bool hear(std::int32_t hop) const {
    if (lines()) return true;
    bool heard = true;
    for (auto peer = static_cast<std::int32_t>(thread_index()); peer < arguments.layout.ranks;
         peer += static_cast<std::int32_t>(thread_count())) {
      if (peer == arguments.rank) continue;
      Patience patience(arguments.patience_ns);
      while (heard && static_cast<std::int64_t>(load_acquire_system(flag(arguments.rank, hop, peer)) - (call + 1)) < 0)
        if (!patience.more()) heard = give_up(hop, peer);
    }
    return !barrier_or(!heard);
  }

  __device__ bool pull(std::int32_t from, std::int32_t hop, std::int64_t unit, Pack& value) const {
    const char* here = slot(arguments.rank, hop, from);
    if (lines()) return load_lines(here, unit, line_flag(), arguments.patience_ns, value) || give_up(hop, from);
    value = load_pack(here + unit * kUnitBytes);
    return true;
  }
};

template <DType dtype, Op op>
__device__ void join(typename Number<dtype>::Wide* sum, const typename Number<dtype>::Stored* next) {
  constexpr int elements = 16 / static_cast<int>(sizeof(*next));
#pragma unroll
  for (int k = 0; k < elements; ++k) sum[k] = apply<op>(sum[k], Number<dtype>::widen(next[k]));
}

// One unit of every rank, in rank order: rounded once, then divided. False when a peer's did not come.
template <DType dtype>
__device__ bool combine_unit(const Exchange& exchange, std::int64_t unit, Pack own, Pack& result) {
  using N = Number<dtype>;
  constexpr int elements = 16 / static_cast<int>(sizeof(typename N::Stored));
  const ShotArguments& arguments = exchange.arguments;
  typename N::Wide sum[elements] = {};
  typename N::Stored stored[elements] = {};
  for (std::int32_t rank = 0; rank < arguments.layout.ranks; ++rank) {
    Pack pack = own;
    if (rank != arguments.rank && !exchange.pull(rank, 0, unit, pack)) return false;
    memcpy(stored, &pack, sizeof pack);
    if (rank == 0) {
#pragma unroll
      for (int k = 0; k < elements; ++k) sum[k] = N::widen(stored[k]);
      continue;
    }
    switch (arguments.op) {
      case Op::prod: join<dtype, Op::prod>(sum, stored); break;
      case Op::min: join<dtype, Op::min>(sum, stored); break;
      case Op::max: join<dtype, Op::max>(sum, stored); break;
      default: join<dtype, Op::sum>(sum, stored); break;
    }
  }
#pragma unroll
  for (int k = 0; k < elements; ++k) {
    // One rank's data pass as they are, as a copy does; sums are rounded, and an average is a division of the rounded.
    if (arguments.layout.ranks > 1) stored[k] = N::narrow(sum[k]);
    if (arguments.op == Op::avg) stored[k] = N::narrow(N::divide(N::widen(stored[k]), arguments.layout.ranks));
  }
  result = bits_as<Pack>(stored);
  return true;
}

struct Share {  // of the units of a part, a thread's
  std::int64_t first;
  std::int64_t step;
};
__device__ inline Share share() {
  return {static_cast<std::int64_t>(block_index()) * thread_count() + thread_index(),
          static_cast<std::int64_t>(block_count()) * thread_count()};
}

template <DType dtype>
__device__ bool one_shot(const Exchange& exchange) {
  constexpr int item = static_cast<int>(size_of(dtype));
  const ShotArguments& arguments = exchange.arguments;
  const ShotLayout& layout = arguments.layout;
  const Share mine = share();
  for (std::int64_t unit = mine.first; unit < layout.units(); unit += mine.step) {
    const Pack own = load_unit(arguments.in + unit * kUnitBytes, bytes_of_unit(unit, layout.bytes), item);
    for (std::int32_t turn = 1; turn < layout.ranks; ++turn)
      exchange.push((arguments.rank + turn) % layout.ranks, 0, unit, own);
  }
  exchange.tell(0);
  if (!exchange.hear(0)) return false;
  bool whole = true;
  for (std::int64_t unit = mine.first; whole && unit < layout.units(); unit += mine.step) {
    const int bytes = bytes_of_unit(unit, layout.bytes);
    const Pack own = load_unit(arguments.in + unit * kUnitBytes, bytes, item);
    Pack result;
    whole = combine_unit<dtype>(exchange, unit, own, result);
    if (whole) store_unit(arguments.out + unit * kUnitBytes, bytes, item, result);
  }
  return !barrier_or(!whole);
}

template <DType dtype>
__device__ bool two_shot(const Exchange& exchange) {
  constexpr int item = static_cast<int>(size_of(dtype));
  const ShotArguments& arguments = exchange.arguments;
  const ShotLayout& layout = arguments.layout;
  const Share mine = share();
  const std::int64_t part = layout.part_units();
  const auto units_of = [&](std::int32_t owner) {
    const std::int64_t left = layout.units() - owner * part;
    return left < 0 ? 0 : left < part ? left : part;
  };
  for (std::int32_t turn = 1; turn < layout.ranks; ++turn) {
    const std::int32_t owner = (arguments.rank + turn) % layout.ranks;
    for (std::int64_t i = mine.first; i < units_of(owner); i += mine.step) {
      const std::int64_t unit = owner * part + i;
      exchange.push(owner, 0, i, load_unit(arguments.in + unit * kUnitBytes, bytes_of_unit(unit, layout.bytes), item));
    }
  }
  exchange.tell(0);
  if (!exchange.hear(0)) return false;
  bool whole = true;
  for (std::int64_t i = mine.first; whole && i < units_of(arguments.rank); i += mine.step) {
    const std::int64_t unit = arguments.rank * part + i;
    const int bytes = bytes_of_unit(unit, layout.bytes);
    const Pack own = load_unit(arguments.in + unit * kUnitBytes, bytes, item);
    Pack result;
    whole = combine_unit<dtype>(exchange, i, own, result);
    if (!whole) break;
    store_unit(arguments.out + unit * kUnitBytes, bytes, item, result);
    for (std::int32_t turn = 1; turn < layout.ranks; ++turn)
      exchange.push((arguments.rank + turn) % layout.ranks, 1, i, result);
  }
  if (barrier_or(!whole)) return false;
  exchange.tell(1);
  if (!exchange.hear(1)) return false;
  for (std::int32_t turn = 1; turn < layout.ranks; ++turn) {
    const std::int32_t owner = (arguments.rank + turn) % layout.ranks;
    for (std::int64_t i = mine.first; whole && i < units_of(owner); i += mine.step) {
      const std::int64_t unit = owner * part + i;
      Pack result;
      whole = exchange.pull(owner, 1, i, result);
      if (whole) store_unit(arguments.out + unit * kUnitBytes, bytes_of_unit(unit, layout.bytes), item, result);
    }
  }
  return !barrier_or(!whole);
}

}  // namespace

template <Shot shot, DType dtype>
__global__ void __launch_bounds__(kShotThreads) shot_kernel(ShotArguments arguments) {
  char* inbox = arguments.inboxes[arguments.rank];
  const auto* status = reinterpret_cast<const std::uint64_t*>(inbox + arguments.layout.status());
  if (barrier_or(thread_index() == 0 && load(status) != 0)) return;
  auto* calls = reinterpret_cast<std::uint64_t*>(inbox + arguments.layout.calls()) + block_index();
  const Exchange exchange{arguments, load(calls)};
  bool done = false;
  if constexpr (shot == Shot::one)
    done = one_shot<dtype>(exchange);
  else
    done = two_shot<dtype>(exchange);
  if (done && thread_index() == 0) store(calls, exchange.call + 1);
}

template <Shot shot>
ShotKernel shot_kernel_for(DType dtype) {
  switch (dtype) {
    case DType::f64: return shot_kernel<shot, DType::f64>;
    case DType::f32: return shot_kernel<shot, DType::f32>;
    case DType::f16: return shot_kernel<shot, DType::f16>;
    case DType::bf16: return shot_kernel<shot, DType::bf16>;
    case DType::i64: return shot_kernel<shot, DType::i64>;
    case DType::i32: return shot_kernel<shot, DType::i32>;
    case DType::i8: return shot_kernel<shot, DType::i8>;
    case DType::u8: return shot_kernel<shot, DType::u8>;
  }
  return nullptr;
}

ShotKernel shot_kernel_of(Shot shot, DType dtype) {
  return shot == Shot::one ? shot_kernel_for<Shot::one>(dtype) : shot_kernel_for<Shot::two>(dtype);
}

}  // namespace pycomm::device
