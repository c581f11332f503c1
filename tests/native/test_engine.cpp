// The engine on ranks that are threads: every registry row and collective × ranks × types × awkward counts, in and out
// of place, in ordinary and in symmetric memory. What TSan and ASan watch.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "algorithms/registry.hpp"
#include "base/error.hpp"
#include "check.hpp"
#include "engine/operation.hpp"
#include "engine/plan.hpp"
#include "transport/shared_memory.hpp"

namespace pycomm::test {

namespace {

// The memory of a world whose ranks are threads.
struct World {
  explicit World(int ranks) : members(static_cast<std::size_t>(ranks), Member{1, "here"}) {
    for (int rank = 0; rank < ranks; ++rank) {
      regions.push_back(Region::create());
      SharedMemory::prepare(*regions.back(), ranks);
    }
  }

  std::shared_ptr<SharedMemory> attach(int rank) const {
    SharedMemoryConfig config;
    config.rank = rank;
    config.members = members;
    config.regions = regions;
    config.one_process = true;
    config.timeout_s = 100;
    config.queue_bytes = std::size_t{1} << 20;  // small slots: many segments
    return std::make_shared<SharedMemory>(std::move(config));
  }

  std::vector<Member> members;
  std::vector<std::shared_ptr<Region>> regions;
};

// Runs body(memory) on every rank; an exception on a rank is a failure of the test and ends the others.
template <class Body>
void on_all_ranks(int ranks, const Body& body) {
  const World world(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&world, &body, rank] {
      const auto memory = world.attach(rank);
      try {
        body(memory);
      } catch (const std::exception& error) {
        memory->fail(error.what());
        CHECK(false, "rank " << rank << ": " << error.what());
      }
    });
  for (std::thread& thread : threads) thread.join();
}

// Small whole numbers, exact in every type; neighbours and ranks differ.
template <class T>
T contribution(int rank, std::size_t index, int call) {
  return static_cast<T>((index * static_cast<std::size_t>(rank + 3) + static_cast<std::size_t>(rank + call)) % 7);
}

// What a collective is, block by block: the elements of a rank's input and output, and what the output must hold.
struct Meaning {
  Collective collective;
  int ranks, workers, rank, root;
  std::size_t block;

  bool gathers() const { return collective == Collective::allgather; }
  bool scatters() const { return collective == Collective::reduce_scatter; }
  bool exchanges() const { return collective == Collective::alltoall; }
  std::size_t whole() const { return block * static_cast<std::size_t>(ranks); }
  std::size_t larger() const { return gathers() || scatters() || exchanges() ? whole() : block; }
  std::size_t in_count() const { return scatters() || exchanges() ? whole() : block; }
  std::size_t out_count() const { return gathers() || exchanges() ? whole() : block; }
  bool has_in() const { return rank < workers && (collective != Collective::broadcast || rank == root); }
  bool has_out() const { return rank < workers && (collective != Collective::reduce || rank == root); }
  // Where input and output begin in one memory of larger() elements, in place.
  std::size_t own() const { return static_cast<std::size_t>(rank) * block; }

  template <class T>
  T expected(std::size_t index, int call) const {
    const std::size_t from = block == 0 ? 0 : index / block, place = block == 0 ? 0 : index % block;
    if (gathers()) return contribution<T>(static_cast<int>(from), place, call);
    if (exchanges()) return contribution<T>(static_cast<int>(from), own() + place, call);
    if (collective == Collective::broadcast) return contribution<T>(root, index, call);
    T sum{};
    for (int peer = 0; peer < workers; ++peer)
      sum = static_cast<T>(sum + contribution<T>(peer, scatters() ? own() + index : index, call));
    return sum;
  }
};

// Twice on the same buffers, with guards around them. `call.count` is of a block.
template <class T>
void check_call(const std::shared_ptr<SharedMemory>& memory, Call call) {
  Meaning meaning{call.collective, memory->ranks(), 0, memory->rank(), call.root, static_cast<std::size_t>(call.count)};
  call.count = static_cast<std::int64_t>(meaning.larger());
  Plan plan = make_plan(call, memory->ranks(), memory->slot_bytes());
  meaning.workers = plan.schedule.workers;
  constexpr std::size_t kGuard = 3;
  std::vector<T> in(meaning.in_count() + 2 * kGuard, T{99});
  std::vector<T> out((call.in_place ? meaning.larger() : meaning.out_count()) + 2 * kGuard, T{99});
  T* send = in.data() + kGuard;
  T* receive = out.data() + kGuard;
  if (call.in_place) {
    send = receive + (meaning.gathers() ? meaning.own() : 0);
    receive += meaning.scatters() ? meaning.own() : 0;
  }
  Operation operation(memory, std::move(plan), meaning.has_in() ? send : nullptr,
                      meaning.has_out() ? receive : nullptr);
  for (int turn = 0; turn < 2; ++turn) {
    if (meaning.has_in())
      for (std::size_t i = 0; i < meaning.in_count(); ++i) send[i] = contribution<T>(memory->rank(), i, turn);
    operation.run();
    for (std::size_t i = 0; meaning.has_out() && i < meaning.out_count(); ++i) {
      const bool right = receive[i] == meaning.expected<T>(i, turn);
      CHECK(right, operation.plan().signature() << " on rank " << memory->rank() << ": element " << i);
      if (!right) return;
    }
    for (std::size_t i = 0; meaning.has_in() && i < meaning.in_count(); ++i) {
      if (call.in_place && meaning.has_out() &&
          (!meaning.scatters() || i / meaning.block == static_cast<std::size_t>(meaning.rank)))
        continue;
      const bool kept = send[i] == contribution<T>(memory->rank(), i, turn);
      CHECK(kept, operation.plan().signature() << " on rank " << memory->rank() << ": changed input " << i);
      if (!kept) return;
    }
    for (std::size_t i = 0; i < kGuard; ++i)
      CHECK(out[i] == T{99} && out[out.size() - 1 - i] == T{99}, operation.plan().signature() << ": a guard");
  }
}

void check_all_counts(const AlgorithmRow& row, Collective collective, const Options& options, int ranks) {
  Shape shape;
  shape.collective = collective;
  shape.ranks = ranks;
  shape.options = options;
  if (refusal(row, shape)) return;
  on_all_ranks(ranks, [&](const std::shared_ptr<SharedMemory>& memory) {
    for (const std::int64_t count : {0, 1, 2, 7, 65, 1000, 20011}) {
      for (const bool in_place : {false, true}) {
        Call call;
        call.collective = collective;
        call.root = collective == Collective::broadcast || collective == Collective::reduce ? (ranks - 1) / 2 : 0;
        call.algorithm = row.name;
        call.options = options;
        call.count = count;
        call.in_place = in_place;
        check_call<float>(memory, call);
        call.dtype = DType::i8;
        check_call<std::int8_t>(memory, call);
        call.dtype = DType::i64;
        check_call<std::int64_t>(memory, call);
        call.symmetric = true;  // threads reach all memory
        check_call<std::int64_t>(memory, call);
      }
    }
  });
}

void every_algorithm_runs() {
  for (const AlgorithmRow& row : registry())
    for (const Variant& variant : row.variants)
      for (const int ranks : {1, 2, 3, 4, 5}) check_all_counts(row, variant.collective, {}, ranks);
}

void servers_reduce_for_their_workers() {
  for (const int ranks : {2, 3, 5})
    for (int servers = 1; servers <= std::min(ranks, 3); ++servers) {
      check_all_counts(algorithm_row("ps"), Collective::allreduce, {{"servers", servers}}, ranks);
      check_all_counts(algorithm_row("ps"), Collective::allreduce, {{"servers", servers}, {"dedicated", 1}}, ranks);
    }
}

void a_failed_rank_ends_the_others() {
  const World world(3);
  std::atomic<int> told{0};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&world, &told, rank] {
      const auto memory = world.attach(rank);
      if (rank == 1) {
        memory->fail("on purpose");
        return;
      }
      try {
        memory->barrier();
      } catch (const TransportError& error) {
        told += std::string(error.what()).find("rank 1") != std::string::npos;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(told == 2, told.load() << " ranks were told");
}

void memory_is_reserved_zeroed_and_given_back() {
  const auto region = Region::create();
  auto* first = static_cast<unsigned char*>(region->allocate(100));
  std::memset(first, 255, 100);
  region->release(first);
  auto* second = static_cast<unsigned char*>(region->allocate(5000));
  CHECK(second == first, "the place of a released block is used again");
  for (std::size_t i = 0; i < 5000; ++i) CHECK(second[i] == 0, "byte " << i);
  CHECK_THROWS(Unavailable, region->allocate(Region::kAddressSpace), "do not fit into a region of 64 GiB");
}

}  // namespace

void add_engine_tests(std::vector<Test>& tests) {
  tests.push_back({"engine: every algorithm of every collective, every count", &every_algorithm_runs});
  tests.push_back({"engine: servers reduce for their workers", &servers_reduce_for_their_workers});
  tests.push_back({"transport: a failed rank ends the others", &a_failed_rank_ends_the_others});
  tests.push_back({"transport: memory is reserved, zeroed and given back", &memory_is_reserved_zeroed_and_given_back});
}

}  // namespace pycomm::test
