// The engine on ranks that are threads: every registry row × ranks × types × awkward counts, in and out of place, in
// ordinary and in symmetric memory. What TSan and ASan watch.
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

template <class T>
void check_allreduce(const std::shared_ptr<SharedMemory>& memory, Call call) {
  const auto count = static_cast<std::size_t>(call.count);
  Plan plan = make_plan(call, memory->ranks(), memory->slot_bytes());
  const int workers = plan.schedule.workers;
  const bool works = memory->rank() < workers;
  constexpr std::size_t kGuard = 3;
  std::vector<T> in(count + 2 * kGuard, T{99});
  std::vector<T> out(count + 2 * kGuard, T{99});
  T* send = call.in_place ? out.data() + kGuard : in.data() + kGuard;
  T* receive = out.data() + kGuard;
  Operation operation(memory, std::move(plan), works ? send : nullptr, works ? receive : nullptr);
  for (int turn = 0; turn < 2; ++turn) {
    if (works)
      for (std::size_t i = 0; i < count; ++i) send[i] = contribution<T>(memory->rank(), i, turn);
    operation.run();
    if (!works) continue;
    for (std::size_t i = 0; i < count; ++i) {
      T expected{};
      for (int rank = 0; rank < workers; ++rank) expected = static_cast<T>(expected + contribution<T>(rank, i, turn));
      CHECK(receive[i] == expected, operation.plan().signature() << " on rank " << memory->rank() << ": element " << i);
      if (receive[i] != expected) return;
    }
    for (std::size_t i = 0; i < kGuard; ++i)
      CHECK(out[i] == T{99} && out[kGuard + count + i] == T{99}, operation.plan().signature() << ": a guard");
  }
}

void check_all_counts(const AlgorithmRow& row, const Options& options, int ranks) {
  Shape shape;
  shape.ranks = ranks;
  shape.options = options;
  if (refusal(row, shape)) return;
  on_all_ranks(ranks, [&](const std::shared_ptr<SharedMemory>& memory) {
    for (const std::int64_t count : {0, 1, 2, 7, 65, 1000, 20011}) {
      for (const bool in_place : {false, true}) {
        Call call;
        call.algorithm = row.name;
        call.options = options;
        call.count = count;
        call.in_place = in_place;
        check_allreduce<float>(memory, call);
        call.dtype = DType::i8;
        check_allreduce<std::int8_t>(memory, call);
        call.dtype = DType::i64;
        check_allreduce<std::int64_t>(memory, call);
      }
    }
  });
}

bool reduces_for_all(const AlgorithmRow& row) {
  for (const Variant& variant : row.variants)
    if (variant.collective == Collective::allreduce) return true;
  return false;
}

void every_algorithm_reduces() {
  for (const AlgorithmRow& row : registry()) {
    if (!reduces_for_all(row)) continue;
    for (const int ranks : {1, 2, 3, 4, 5}) check_all_counts(row, {}, ranks);
  }
}

void servers_reduce_for_their_workers() {
  for (const int ranks : {2, 3, 5})
    for (int servers = 1; servers <= std::min(ranks, 3); ++servers) {
      check_all_counts(algorithm_row("ps"), {{"servers", servers}}, ranks);
      check_all_counts(algorithm_row("ps"), {{"servers", servers}, {"dedicated", 1}}, ranks);
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
  tests.push_back({"engine: every algorithm reduces every count", &every_algorithm_reduces});
  tests.push_back({"engine: servers reduce for their workers", &servers_reduce_for_their_workers});
  tests.push_back({"transport: a failed rank ends the others", &a_failed_rank_ends_the_others});
  tests.push_back({"transport: memory is reserved, zeroed and given back", &memory_is_reserved_zeroed_and_given_back});
}

}  // namespace pycomm::test
