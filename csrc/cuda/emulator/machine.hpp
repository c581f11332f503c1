// Several emulated devices in one process: grids of blocks of threads, each thread a fiber, one running at a time, the
// next one chosen by the seed. The same seed, launches and kernels give the same run.
//
//   Machine machine(seed);
//   auto* data = static_cast<float*>(machine.memory().allocate(0, bytes, "data"));
//   machine.launch(0, blocks, threads, [=] { kernel(data); });
//   machine.run();
//
// Launches on one stream run one after the other; streams run side by side. Unless another is named, a device has one,
// of its own number.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "cuda/emulator/fiber.hpp"
#include "cuda/emulator/memory.hpp"
#include "cuda/emulator/tma.hpp"

namespace pycomm::emulator {

// A fault put into the accessors on purpose, so that tests can show it would be found.
enum class Mutation : std::uint8_t {
  none,
  no_fence,    // fences and releases order nothing
  no_acquire,  // acquires tell nothing
  torn_line,   // a line's flag and data are two stores
  no_barrier,  // barriers of a block hold nobody up
  // Of bulk copies:
  no_fence_to_async,    // they miss what their thread knows
  no_fence_from_async,  // their thread misses what they have written
  no_wait,              // stores are not waited for
  read_wait,            // only until they have read their stages
  no_stage_wait,        // a stage is loaded while a store may still read it
  no_load_wait,         // a stage is stored before it is loaded
};

struct BlockRun;
struct GridRun;

struct ThreadRun {
  Fiber fiber;
  class Machine* machine = nullptr;
  BlockRun* block = nullptr;
  View view;
  int vote = 0;  // what it brought to the barrier
  bool waiting = false;
};

struct BlockRun {
  GridRun* grid = nullptr;
  std::uint32_t index = 0;
  std::vector<ThreadRun*> threads;
  StoreBuffer buffer;
  Tma tma;
  std::uint32_t arrived = 0;
  std::uint32_t finished = 0;
  int vote = 0;
  int result = 0;
  std::uint32_t slowness = 0;  // how often the scheduler passes it over
};

struct GridRun {
  int device = 0;
  int stream = 0;
  std::uint32_t blocks = 0;
  std::uint32_t threads = 0;
  std::uint32_t shared_bytes = 0;
  std::function<void()> kernel;
  std::vector<std::unique_ptr<BlockRun>> runs;
  std::uint32_t finished = 0;
};

class Machine {
 public:
  explicit Machine(std::uint64_t seed);
  ~Machine();

  void reset(std::uint64_t seed, Mutation mutation = Mutation::none);  // as a new machine, its stacks kept
  Memory& memory() { return memory_; }

  void launch(int device, std::uint32_t blocks, std::uint32_t threads, std::function<void()> kernel, int stream = -1,
              std::uint32_t shared_bytes = 0);
  // Runs all that was launched. Raises Fault for a fault of a kernel, for threads of a block that do not all come to a
  // barrier, and when `steps` switches did not end it.
  void run(std::uint64_t steps = 50'000'000);
  // The same, for so many switches. Returns whether something is left to run.
  bool advance(std::uint64_t steps);
  // Whether all that was launched on a stream has run.
  bool idle(int stream) const;

  // For accessors.hpp, on the running thread:
  ThreadRun& current() { return *current_; }
  std::uint64_t load(const void* from, std::size_t bytes, Order order);
  void store(void* to, std::size_t bytes, std::uint64_t value, Order order);
  void store_line(void* to, std::uint64_t value);
  void fence();
  std::uint64_t compare_and_swap(void* at, std::size_t bytes, std::uint64_t expected, std::uint64_t desired);
  int barrier(int vote);  // the or of all votes
  void spin();            // called in every turn of a loop that waits
  void tma_begin(std::uint32_t barrier);
  void tma_load(std::uint32_t to, std::uint32_t barrier, const void* from, std::uint32_t bytes);
  bool tma_loaded(std::uint32_t barrier, std::uint32_t phase);
  void tma_store(void* to, std::uint32_t from, std::uint32_t bytes);
  void tma_wait_read();
  void tma_wait();
  void fence_generic_to_async();
  void fence_async_to_generic();
  std::uint64_t clock_ns() const { return switches_; }
  std::uint64_t bulk_copies() const { return bulk_copies_; }  // loads started since the last reset

 private:
  void start(std::unique_ptr<GridRun> grid);
  void step();
  void maybe_switch();
  void suspend();
  void release_barrier(BlockRun& block);
  void end_thread(ThreadRun& thread);
  void drain_some();
  bool drain_one(BlockRun& block);  // false if nothing that it has stored is left
  static void enter(void* thread);

  Random random_;
  Memory memory_;
  Mutation mutation_ = Mutation::none;
  std::uint32_t drain_percent_ = 50;
  std::uint32_t switch_one_in_ = 8;
  std::uint64_t switches_ = 0;
  std::uint64_t bulk_copies_ = 0;
  std::uint32_t next_block_ = 0;
  std::vector<std::deque<std::unique_ptr<GridRun>>> queues_;  // [stream], the front one runs
  std::vector<ThreadRun*> ready_;
  std::vector<std::unique_ptr<ThreadRun>> threads_;  // all ever made, for their stacks
  std::vector<ThreadRun*> free_;
  ThreadRun* current_ = nullptr;
  std::exception_ptr fault_;
};

Machine& running();  // the machine whose kernel runs on this operating-system thread

}  // namespace pycomm::emulator
