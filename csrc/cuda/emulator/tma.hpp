// Hopper's bulk copies in the emulator: what one block has started, and its shared memory, which nothing else touches.
//
// A copy is done 8 bytes at a time, in an order that the seed chooses among all that is under way. It knows of memory
// what its thread knew at the last fence_generic_to_async: what other threads' stores, or an acquire, have told since,
// it may miss (once past a fence not what its own thread stores). What it has written stays unknown to its block, and
// no release of it tells others, until the thread has waited and a fence_async_to_generic follows; until then it
// becomes visible some time or other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "cuda/emulator/memory.hpp"
#include "cuda/emulator/random.hpp"

namespace pycomm::emulator {

class Tma {
 public:
  void reset(std::uint32_t shared_bytes, const View& view);

  // Places in shared memory are bytes from its beginning. Raise Fault for a place that is not aligned or out of bounds,
  // for an mbarrier that nothing has begun, and for a second thread.
  void begin(const View& view, std::uint32_t barrier);
  void load(const View& view, const Memory& memory, std::uint32_t to, std::uint32_t barrier, const void* from,
            std::uint32_t bytes);
  bool loaded(std::uint32_t barrier, std::uint32_t phase) { return barrier_at(barrier).phases % 2 != phase; }
  void store(const View& view, const Memory& memory, void* to, std::uint32_t from, std::uint32_t bytes);

  // Whether all stores but the last `kept` have read their stages.
  bool have_read(std::uint32_t kept) const;
  void finish() { finished_ = stores_; }  // the thread has waited for all stores
  void take_view(const View& view) { view_ = view; }
  void give_writes(View& view, StoreBuffer& buffer, Memory& memory);

  bool busy() const { return !transfers_.empty() || !writes_.empty(); }
  // One piece of work. False if there is none that may be done before the block's store buffer has drained.
  bool advance(Memory& memory, const StoreBuffer& buffer, Random& random);

 private:
  struct Barrier {
    std::uint32_t phases = 0;  // completed
    std::int64_t awaited = 0;  // bytes
  };
  struct Transfer {
    bool load;
    std::uint32_t barrier;  // of a load
    std::uint32_t number;   // of a store, from 1
    std::uintptr_t place;   // in global memory
    std::uint32_t shared;
    View view;
    std::vector<std::uint32_t> left;  // words not yet read
  };
  struct Write {  // read from a stage, not yet in memory
    std::uint32_t number;
    std::uintptr_t place;
    std::uint64_t value;
    View view;
  };
  struct Written {
    std::uint32_t number;
    std::uint64_t time;
  };

  Barrier& barrier_at(std::uint32_t barrier);
  void check(const View& view, const Memory& memory, std::uint32_t shared, const void* place, std::uint32_t bytes);
  void read_word(Transfer& transfer, Memory& memory, const StoreBuffer& buffer, Random& random);

  std::uint32_t thread_ = 0;
  std::vector<std::uint64_t> shared_;
  std::map<std::uint32_t, Barrier> barriers_;
  std::vector<Transfer> transfers_;
  std::vector<Write> writes_;
  std::vector<Written> written_;
  std::uint32_t stores_ = 0;    // started
  std::uint32_t finished_ = 0;  // of those, waited for
  View view_;
};

}  // namespace pycomm::emulator
