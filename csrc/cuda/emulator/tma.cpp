#include "cuda/emulator/tma.hpp"

#include <algorithm>
#include <numeric>

namespace pycomm::emulator {

namespace {

constexpr std::uint64_t kGarbage = 0xA5A5A5A5A5A5A5A5u;  // what shared memory begins with
constexpr std::uint32_t kUnit = 16;

std::vector<std::uint32_t> words_of(std::uint32_t bytes) {
  std::vector<std::uint32_t> words(bytes / 8);
  std::iota(words.begin(), words.end(), 0u);
  return words;
}

}  // namespace

void Tma::reset(std::uint32_t shared_bytes, const View& view) {
  *this = Tma();
  shared_.assign(shared_bytes / 8, kGarbage);
  view_ = view;
  view_.thread = ~std::uint32_t{0};  // not even its own thread's stores are known before a fence
}

void Tma::begin(const View& view, std::uint32_t barrier) {
  if (barrier % 8 != 0 || barrier + 8 > 8 * shared_.size()) throw Fault("an mbarrier outside of shared memory");
  thread_ = view.thread;
  barriers_[barrier] = {};
}

Tma::Barrier& Tma::barrier_at(std::uint32_t barrier) {
  const auto found = barriers_.find(barrier);
  if (found == barriers_.end()) throw Fault("an mbarrier that nothing has begun");
  return found->second;
}

void Tma::check(const View& view, const Memory& memory, std::uint32_t shared, const void* place, std::uint32_t bytes) {
  if (barriers_.empty() || view.thread != thread_) throw Fault("a bulk copy by a thread that has not begun any");
  if ((reinterpret_cast<std::uintptr_t>(place) | shared | bytes) % kUnit != 0)
    throw Fault("a bulk copy is not aligned to 16 bytes");
  if (shared + bytes > 8 * shared_.size()) throw Fault("a bulk copy out of bounds of shared memory");
  memory.check_bounds(place, bytes, "bulk copy");
}

void Tma::load(const View& view, const Memory& memory, std::uint32_t to, std::uint32_t barrier, const void* from,
               std::uint32_t bytes) {
  check(view, memory, to, from, bytes);
  barrier_at(barrier).awaited += bytes;
  transfers_.push_back({true, barrier, 0, reinterpret_cast<std::uintptr_t>(from), to, view_, words_of(bytes)});
}

void Tma::store(const View& view, const Memory& memory, void* to, std::uint32_t from, std::uint32_t bytes) {
  check(view, memory, from, to, bytes);
  transfers_.push_back({false, 0, ++stores_, reinterpret_cast<std::uintptr_t>(to), from, view_, words_of(bytes)});
}

bool Tma::have_read(std::uint32_t kept) const {
  return std::none_of(transfers_.begin(), transfers_.end(),
                      [&](const Transfer& each) { return !each.load && each.number + kept <= stores_; });
}

void Tma::give_writes(View& view, StoreBuffer& buffer, Memory& memory) {
  for (const Write& write : writes_)
    if (write.number <= finished_)
      memory.store(view, buffer, reinterpret_cast<void*>(write.place), 8, write.value, Order::weak);
  std::erase_if(writes_, [&](const Write& write) { return write.number <= finished_; });
  for (const Written& each : written_)
    if (each.number <= finished_) view.acquired = std::max(view.acquired, each.time);
  std::erase_if(written_, [&](const Written& each) { return each.number <= finished_; });
}

bool Tma::advance(Memory& memory, const StoreBuffer& buffer, Random& random) {
  const std::size_t works = transfers_.size() + writes_.size();
  const std::size_t first = works == 0 ? 0 : random.below(works);
  for (std::size_t i = 0; i < works; ++i) {
    const std::size_t work = (first + i) % works;
    if (work < transfers_.size()) {
      read_word(transfers_[work], memory, buffer, random);
      if (transfers_[work].left.empty()) transfers_.erase(transfers_.begin() + static_cast<std::ptrdiff_t>(work));
      return true;
    }
    const auto write = writes_.begin() + static_cast<std::ptrdiff_t>(work - transfers_.size());
    if (memory.holds_earlier(write->view, buffer, write->place)) continue;
    memory.write_unknown(write->place, write->value, buffer.block);
    written_.push_back({write->number, memory.time()});
    writes_.erase(write);
    return true;
  }
  return false;
}

void Tma::read_word(Transfer& transfer, Memory& memory, const StoreBuffer& buffer, Random& random) {
  const std::size_t chosen = random.below(transfer.left.size());
  const std::uint32_t word = transfer.left[chosen];
  transfer.left[chosen] = transfer.left.back();
  transfer.left.pop_back();
  const std::uintptr_t place = transfer.place + 8 * std::uintptr_t{word};
  std::uint64_t& stage = shared_[transfer.shared / 8 + word];
  if (!transfer.load) {
    writes_.push_back({transfer.number, place, stage, transfer.view});
    return;
  }
  stage = memory.load(transfer.view, buffer, reinterpret_cast<const void*>(place), 8, Order::weak);
  Barrier& barrier = barrier_at(transfer.barrier);
  barrier.awaited -= 8;
  if (barrier.awaited == 0) ++barrier.phases;
}

}  // namespace pycomm::emulator
