// Device memory of the emulator, with a memory model weaker than any GPU's.
//
// A store does not reach memory: it joins the store buffer of its block and drains later, one scalar at a time, in an
// order the seed chooses. Only these orders are kept: stores to the same place by one thread; and a store after a fence
// (or a releasing store itself) drains after all that its thread knew of at the fence: its own earlier stores, and
// those that other threads of the block made before the last barrier.
//
// A load does not see the newest value: it sees any of the last few that its thread has not been told are out of date.
// It has been told by its own stores, by those before the last barrier of its block, and by an acquire: one that reads
// what drained at time t makes everything drained until t known. A relaxed load followed by a fence acquires too.
//
// Memory is reached through these functions alone: the addresses are real but not readable, so that a plain dereference
// ends the process with a segmentation fault.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda/emulator/random.hpp"

namespace pycomm::emulator {

struct Fault : std::runtime_error {  // what a kernel did wrong, or that it makes no progress
  using std::runtime_error::runtime_error;
};

enum class Order : std::uint8_t { weak, relaxed, acquire, release };

// What one thread knows of memory.
struct View {
  std::uint32_t block = 0;   // machine-wide number of its block
  std::uint32_t thread = 0;  // in the block
  std::uint32_t phase = 0;   // barriers its block has passed
  std::uint64_t acquired = 0;
  std::uint64_t seen = 0;  // newest drain time read by a relaxed load: acquired at the next fence
  std::uint64_t fence_sequence = 0;
  std::uint32_t fence_phase = 0;
  struct Read {
    const void* word = nullptr;
    std::uint64_t time = 0;
  };
  std::array<Read, 8> reads{};  // relaxed loads of one place never go back in time
  std::uint32_t next_read = 0;
};

struct PendingStore {
  std::uintptr_t address;
  std::uint64_t value;
  std::uint64_t sequence;
  std::uint64_t after_sequence;  // drains after what the fence before it covered
  std::uint32_t after_phase;
  std::uint32_t thread;
  std::uint32_t phase;
  std::uint8_t bytes;
};

struct StoreBuffer {  // of one block, oldest first
  std::uint32_t block = 0;
  std::uint64_t next_sequence = 1;
  std::vector<PendingStore> stores;
};

class Memory {
 public:
  explicit Memory(std::uint64_t seed);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void reset(std::uint64_t seed);  // forgets every allocation

  // `bytes` of uninitialised memory on `device`, aligned to 256. The name appears in faults.
  void* allocate(int device, std::size_t bytes, std::string name);
  // Forgets an allocation, whose addresses are not used again.
  void release(const void* address);
  int device_of(const void* address) const;

  void write(void* to, const void* from, std::size_t bytes);  // by the host, seen by all kernels started later
  void fill(void* to, int byte, std::size_t bytes);
  void read(void* to, const void* from, std::size_t bytes) const;  // raises Fault for bytes never written

  // 1, 2, 4 or 8 bytes, aligned. The buffer is that of the thread's block.
  std::uint64_t load(View& view, const StoreBuffer& buffer, const void* from, std::size_t bytes, Order order);
  void store(View& view, StoreBuffer& buffer, void* to, std::size_t bytes, std::uint64_t value, Order order);
  void fence(View& view, const StoreBuffer& buffer);
  // If the place holds `expected`, replaces it at once, visible to all; returns what it held.
  std::uint64_t compare_and_swap(View& view, StoreBuffer& buffer, void* at, std::size_t bytes, std::uint64_t expected,
                                 std::uint64_t desired);

  // For bulk copies, which are no thread of the block (tma.hpp): raises Fault for bytes out of bounds; whether the
  // buffer holds a store to the word that the view knows of; writes 8 bytes at once, which no thread of the block knows
  // of.
  void check_bounds(const void* place, std::size_t bytes, const char* what) const;
  bool holds_earlier(const View& view, const StoreBuffer& buffer, std::uintptr_t address) const;
  void write_unknown(std::uintptr_t address, std::uint64_t value, std::uint32_t block);

  bool drain_one(StoreBuffer& buffer);  // false if the buffer is empty
  std::uint64_t time() const { return time_; }

 private:
  static constexpr std::size_t kVersions = 4;
  static constexpr std::size_t kReservedBytes = std::size_t{4} << 30;
  static constexpr std::size_t kLongestBuffer = 96;

  struct Version {
    std::uint64_t value = 0;
    std::uint64_t time = 0;
    std::uint32_t block = ~std::uint32_t{0};
    std::uint32_t thread = 0;
    std::uint32_t phase = 0;
    std::uint8_t valid = 0;  // a bit a byte
  };
  struct Word {  // 8 bytes; newest version first
    std::array<Version, kVersions> versions{};
    std::uint8_t count = 1;
  };
  struct Allocation {
    std::uintptr_t begin;
    std::size_t bytes;
    int device;
    std::string name;
    std::vector<Word> words;
  };

  const Allocation& allocation_of(std::uintptr_t address, std::size_t bytes, const char* what) const;
  Word& word_at(std::uintptr_t address, std::size_t bytes, const char* what);
  void apply(const PendingStore& store, std::uint32_t block);
  const Version& choose(View& view, const Word& word, Order order);

  Random random_;
  std::uintptr_t reserved_ = 0;
  std::size_t used_ = 0;
  std::uint64_t time_ = 0;
  std::vector<Allocation> allocations_;
  mutable std::size_t last_ = 0;
};

}  // namespace pycomm::emulator
