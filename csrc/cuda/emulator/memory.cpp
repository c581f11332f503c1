#include "cuda/emulator/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace pycomm::emulator {

namespace {

constexpr std::size_t kGuardBytes = 256;

std::uint64_t byte_mask(std::size_t bytes) {
  return bytes == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * bytes)) - 1;
}
std::uint8_t valid_mask(std::uintptr_t address, std::size_t bytes) {
  return static_cast<std::uint8_t>(((1u << bytes) - 1u) << (address % 8));
}
unsigned shift_of(std::uintptr_t address) { return static_cast<unsigned>(8 * (address % 8)); }

bool same_word(std::uintptr_t a, std::uintptr_t b) { return a / 8 == b / 8; }

// Whether the reader has been told of a store of this thread in this phase.
bool known_to(std::uint32_t thread, std::uint32_t phase, std::uint32_t store_thread, std::uint32_t store_phase) {
  return store_thread == thread || store_phase < phase;
}

bool drainable(const std::vector<PendingStore>& stores, std::size_t index) {
  const PendingStore& store = stores[index];
  for (std::size_t i = 0; i < index; ++i) {
    const PendingStore& earlier = stores[i];
    if (same_word(earlier.address, store.address) &&
        known_to(store.thread, store.phase, earlier.thread, earlier.phase) &&
        earlier.address < store.address + store.bytes && store.address < earlier.address + earlier.bytes)
      return false;
    if (earlier.sequence < store.after_sequence &&
        known_to(store.thread, store.after_phase, earlier.thread, earlier.phase))
      return false;
  }
  return true;
}

}  // namespace

Memory::Memory(std::uint64_t seed) : random_(seed) {
  void* reserved = mmap(nullptr, kReservedBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) throw Fault("the emulator could not reserve its address space");
  reserved_ = reinterpret_cast<std::uintptr_t>(reserved);
}

Memory::~Memory() { munmap(reinterpret_cast<void*>(reserved_), kReservedBytes); }

void Memory::reset(std::uint64_t seed) {
  random_ = Random(seed);
  used_ = 0;
  time_ = 0;
  last_ = 0;
  allocations_.clear();
}

void* Memory::allocate(int device, std::size_t bytes, std::string name) {
  const std::size_t room = (bytes + kGuardBytes + 255) / 256 * 256;
  if (used_ + room > kReservedBytes) throw Fault("the emulator's device memory is full");
  allocations_.push_back({reserved_ + used_, bytes, device, std::move(name), std::vector<Word>((bytes + 7) / 8)});
  used_ += room;
  return reinterpret_cast<void*>(allocations_.back().begin);
}

void Memory::release(const void* address) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  std::erase_if(allocations_, [begin](const Allocation& each) { return each.begin == begin; });
}

const Memory::Allocation& Memory::allocation_of(std::uintptr_t address, std::size_t bytes, const char* what) const {
  if (last_ >= allocations_.size() || address < allocations_[last_].begin ||
      address >= allocations_[last_].begin + allocations_[last_].bytes) {
    const auto next = std::upper_bound(allocations_.begin(), allocations_.end(), address,
                                       [](std::uintptr_t a, const Allocation& b) { return a < b.begin; });
    if (next == allocations_.begin())
      throw Fault(std::string(what) + " of " + std::to_string(bytes) + " bytes in no allocation");
    last_ = static_cast<std::size_t>(next - allocations_.begin()) - 1;
  }
  const Allocation& found = allocations_[last_];
  const std::size_t offset = address - found.begin;
  const std::string place = std::to_string(bytes) + " bytes at byte " + std::to_string(offset) + " of '" + found.name +
                            "' (" + std::to_string(found.bytes) + " bytes)";
  if (offset + bytes > found.bytes) throw Fault(std::string(what) + " out of bounds: " + place);
  return found;
}

int Memory::device_of(const void* address) const {
  return allocation_of(reinterpret_cast<std::uintptr_t>(address), 1, "look-up").device;
}

Memory::Word& Memory::word_at(std::uintptr_t address, std::size_t bytes, const char* what) {
  if (address % bytes != 0) throw Fault(std::string(what) + " of " + std::to_string(bytes) + " bytes is not aligned");
  auto& found = const_cast<Allocation&>(allocation_of(address, bytes, what));
  return found.words[(address - found.begin) / 8];
}

void Memory::write(void* to, const void* from, std::size_t bytes) {
  ++time_;
  auto address = reinterpret_cast<std::uintptr_t>(to);
  const auto* source = static_cast<const unsigned char*>(from);
  for (std::size_t i = 0; i < bytes; ++i, ++address) {
    Word& word = word_at(address, 1, "host write");
    Version& newest = word.versions[0];
    word.count = 1;
    newest.value =
        (newest.value & ~(std::uint64_t{0xFF} << shift_of(address))) | (std::uint64_t{source[i]} << shift_of(address));
    newest.valid = static_cast<std::uint8_t>(newest.valid | valid_mask(address, 1));
    newest.time = time_;
    newest.block = ~std::uint32_t{0};
  }
}

void Memory::fill(void* to, int byte, std::size_t bytes) {
  const std::vector<unsigned char> pattern(bytes, static_cast<unsigned char>(byte));
  write(to, pattern.data(), bytes);
}

void Memory::read(void* to, const void* from, std::size_t bytes) const {
  auto address = reinterpret_cast<std::uintptr_t>(from);
  auto* target = static_cast<unsigned char*>(to);
  for (std::size_t i = 0; i < bytes; ++i, ++address) {
    const Allocation& found = allocation_of(address, 1, "host read");
    const Version& newest = found.words[(address - found.begin) / 8].versions[0];
    if (!(newest.valid & valid_mask(address, 1)))
      throw Fault("host read of byte " + std::to_string(address - found.begin) + " of '" + found.name +
                  "', which nothing has written");
    target[i] = static_cast<unsigned char>(newest.value >> shift_of(address));
  }
}

const Memory::Version& Memory::choose(View& view, const Word& word, Order order) {
  // Versions are newest first: find the oldest that the thread may still see.
  std::size_t oldest = 0;
  std::uint64_t floor = view.acquired;
  for (const View::Read& read : view.reads)
    if (read.word == &word) floor = std::max(floor, read.time);
  while (oldest + 1 < word.count) {
    const Version& version = word.versions[oldest];
    if (version.time <= floor) break;
    if (version.block == view.block && known_to(view.thread, view.phase, version.thread, version.phase)) break;
    ++oldest;
  }
  const std::size_t chosen = oldest == 0 || random_.one_in(2) ? 0 : random_.below(oldest + 1);
  const Version& version = word.versions[chosen];
  if (order != Order::weak && word.count > 1 && version.time > view.acquired) {
    view.reads[view.next_read] = {&word, version.time};
    view.next_read = (view.next_read + 1) % static_cast<std::uint32_t>(view.reads.size());
  }
  return version;
}

std::uint64_t Memory::load(View& view, const StoreBuffer& buffer, const void* from, std::size_t bytes, Order order) {
  const auto address = reinterpret_cast<std::uintptr_t>(from);
  const Version version = choose(view, word_at(address, bytes, "load"), order);
  std::uint64_t value = version.value;
  std::uint8_t valid = version.valid;
  for (const PendingStore& store : buffer.stores) {
    if (!same_word(store.address, address)) continue;
    if (!known_to(view.thread, view.phase, store.thread, store.phase)) continue;
    const std::uint64_t mask = byte_mask(store.bytes) << shift_of(store.address);
    value = (value & ~mask) | ((store.value << shift_of(store.address)) & mask);
    valid = static_cast<std::uint8_t>(valid | valid_mask(store.address, store.bytes));
  }
  const std::uint8_t wanted = valid_mask(address, bytes);
  if ((valid & wanted) != wanted) {
    const Allocation& found = allocation_of(address, bytes, "load");
    throw Fault("load of " + std::to_string(bytes) + " bytes at byte " + std::to_string(address - found.begin) +
                " of '" + found.name + "', which nothing has written or no acquire has made visible");
  }
  if (order != Order::weak) view.seen = std::max(view.seen, version.time);
  if (order == Order::acquire) view.acquired = std::max(view.acquired, version.time);
  return (value >> shift_of(address)) & byte_mask(bytes);
}

void Memory::fence(View& view, const StoreBuffer& buffer) {
  view.fence_sequence = buffer.next_sequence;
  view.fence_phase = view.phase;
  view.acquired = std::max(view.acquired, view.seen);
}

void Memory::store(View& view, StoreBuffer& buffer, void* to, std::size_t bytes, std::uint64_t value, Order order) {
  const auto address = reinterpret_cast<std::uintptr_t>(to);
  word_at(address, bytes, "store");
  PendingStore store{address,          value,       buffer.next_sequence, view.fence_sequence,
                     view.fence_phase, view.thread, view.phase,           static_cast<std::uint8_t>(bytes)};
  if (order == Order::release) {  // ordered itself; what the thread stores later is not
    store.after_sequence = buffer.next_sequence;
    store.after_phase = view.phase;
  }
  ++buffer.next_sequence;
  buffer.stores.push_back(store);
  if (buffer.stores.size() > kLongestBuffer) drain_one(buffer);
}

std::uint64_t Memory::compare_and_swap(View& view, StoreBuffer& buffer, void* at, std::size_t bytes,
                                       std::uint64_t expected, std::uint64_t desired) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  while (std::any_of(buffer.stores.begin(), buffer.stores.end(),
                     [&](const PendingStore& store) { return same_word(store.address, address); }))
    drain_one(buffer);
  const Version newest = word_at(address, bytes, "atomic").versions[0];
  const std::uint64_t held = (newest.value >> shift_of(address)) & byte_mask(bytes);
  view.seen = std::max(view.seen, newest.time);
  if (held == expected)
    apply({address, desired, 0, 0, 0, view.thread, view.phase, static_cast<std::uint8_t>(bytes)}, view.block);
  return held;
}

void Memory::apply(const PendingStore& store, std::uint32_t block) {
  Word& word = word_at(store.address, store.bytes, "store");
  for (std::size_t i = std::min<std::size_t>(word.count, kVersions - 1); i > 0; --i)
    word.versions[i] = word.versions[i - 1];
  word.count = static_cast<std::uint8_t>(std::min<std::size_t>(word.count + 1u, kVersions));
  Version& newest = word.versions[0];
  const std::uint64_t mask = byte_mask(store.bytes) << shift_of(store.address);
  newest.value = (newest.value & ~mask) | ((store.value << shift_of(store.address)) & mask);
  newest.valid = static_cast<std::uint8_t>(newest.valid | valid_mask(store.address, store.bytes));
  newest.time = ++time_;
  newest.block = block;
  newest.thread = store.thread;
  newest.phase = store.phase;
}

void Memory::check_bounds(const void* place, std::size_t bytes, const char* what) const {
  allocation_of(reinterpret_cast<std::uintptr_t>(place), bytes, what);
}

bool Memory::holds_earlier(const View& view, const StoreBuffer& buffer, std::uintptr_t address) const {
  return std::any_of(buffer.stores.begin(), buffer.stores.end(), [&](const PendingStore& store) {
    return same_word(store.address, address) && known_to(view.thread, view.phase, store.thread, store.phase);
  });
}

void Memory::write_unknown(std::uintptr_t address, std::uint64_t value, std::uint32_t block) {
  constexpr std::uint32_t kNobody = ~std::uint32_t{0};
  apply({address, value, 0, 0, 0, kNobody, kNobody, 8}, block);
}

bool Memory::drain_one(StoreBuffer& buffer) {
  if (buffer.stores.empty()) return false;
  // The oldest can always drain; a few tries find a younger one that may overtake it.
  std::size_t index = 0;
  for (int tries = 0; tries < 3; ++tries) {
    const std::size_t candidate = random_.below(buffer.stores.size());
    if (drainable(buffer.stores, candidate)) {
      index = candidate;
      break;
    }
  }
  apply(buffer.stores[index], buffer.block);
  buffer.stores.erase(buffer.stores.begin() + static_cast<std::ptrdiff_t>(index));
  return true;
}

}  // namespace pycomm::emulator
