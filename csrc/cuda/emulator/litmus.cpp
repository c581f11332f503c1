#define PYCOMM_EMULATED

#include "cuda/emulator/litmus.hpp"

#include <functional>
#include <map>

#include "cuda/tma.cuh"

namespace pycomm::emulator {

namespace {

using device::barrier;
using device::block_index;
using device::fence_system;
using device::Line;
using device::load;
using device::load_acquire_system;
using device::pause;
using device::store;
using device::store_release_system;
using device::store_two_lines;
using device::thread_index;

struct Memories {        // zeroed, but for `fresh`
  std::uint64_t* data;   // 8 words on device 0
  std::uint64_t* flag;   // on device 0
  std::uint64_t* other;  // a flag on device 1
  std::uint64_t* seen;   // what readers found
  std::uint32_t* fresh;  // never written
};

void set_relaxed(std::uint64_t* to, std::uint64_t value) { store(to, value); }
std::uint64_t get_relaxed(const std::uint64_t* from) { return emulator::load_line(from); }

void write_then_flag(const Memories& m, bool fence, bool release) {
  store(m.data, 1u);
  if (fence) fence_system();
  if (release)
    store_release_system(m.flag, 1);
  else
    set_relaxed(m.flag, 1);
}
void flag_then_read(const Memories& m, bool acquire) {
  while ((acquire ? load_acquire_system(m.flag) : get_relaxed(m.flag)) != 1) pause();
  store(m.seen, load(m.data));
}
// Message passing: one device writes data and sets a flag, another waits for the flag and reads the data.
void message_passing(const Memories& m, bool fence, bool release, bool acquire) {
  if (block_index() == 0)
    write_then_flag(m, fence, release);
  else
    flag_then_read(m, acquire);
}

// The same, but what is read was moved there by a bulk copy.
constexpr device::Stage kStage{0, 16};
constexpr std::uint32_t kSharedBytes = 24;

void copy_then_flag(const Memories& m, bool fence_before, bool wait, bool fence_after) {
  if (block_index() == 1) return flag_then_read({m.data + 2, m.flag, m.other, m.seen, m.fresh}, true);
  device::tma_begin(kStage);
  store(m.data, 1u);
  if (fence_before) device::fence_generic_to_async();
  device::tma_load(kStage, m.data, 16);
  while (!device::tma_loaded(kStage, 0)) pause();
  device::tma_store(m.data + 2, kStage, 16);
  if (wait) device::tma_wait();
  if (fence_after) device::fence_async_to_generic();
  store_release_system(m.flag, 1);
}

void load_stage(const void* from) {
  device::tma_begin(kStage);
  device::tma_load(kStage, from, 16);
}

struct Litmus {
  std::uint32_t blocks;
  std::uint32_t threads;
  std::function<void(const Memories&)> kernel;
  std::function<std::string(std::uint64_t seen)> judge;
};

std::string stale_unless_one(std::uint64_t seen) { return seen == 1 ? "" : "stale"; }

const std::map<std::string, Litmus>& table() {
  static const std::map<std::string, Litmus> tests = {
      {"message passing, release and acquire",
       {2, 1, [](const Memories& m) { message_passing(m, false, true, true); }, stale_unless_one}},
      {"message passing, fence and acquire",
       {2, 1, [](const Memories& m) { message_passing(m, true, false, true); }, stale_unless_one}},
      {"message passing, no release",
       {2, 1, [](const Memories& m) { message_passing(m, false, false, true); }, stale_unless_one}},
      {"message passing, no acquire",
       {2, 1, [](const Memories& m) { message_passing(m, false, true, false); }, stale_unless_one}},
      {"release by one thread for another, after a barrier",
       {2, 2,
        [](const Memories& m) {
          if (block_index() == 0) {
            if (thread_index() == 1) store(m.data, 1u);
            barrier();
            if (thread_index() == 0) store_release_system(m.flag, 1);
          } else {
            if (thread_index() == 0)
              while (load_acquire_system(m.flag) != 1) pause();
            barrier();
            if (thread_index() == 1) store(m.seen, load(m.data));
          }
        },
        stale_unless_one}},
      {"release by one thread for another, no barrier",
       {2, 2,
        [](const Memories& m) {
          if (block_index() == 1 && thread_index() == 0) return flag_then_read(m, true);
          if (block_index() == 1) return;
          if (thread_index() == 1)
            store(m.data, 1u);
          else
            store_release_system(m.flag, 1);
        },
        stale_unless_one}},
      {"a line",
       {2, 1,
        [](const Memories& m) {
          auto* line = reinterpret_cast<Line*>(m.data);
          if (block_index() == 0) return store_two_lines(line, {7, 1}, {7, 1});
          Line found = device::load_line(line);
          while (found.flag != 1) {
            pause();
            found = device::load_line(line);
          }
          store(m.seen, found.data);
        },
        [](std::uint64_t seen) { return seen == 7 ? "" : "torn"; }}},
      {"a vector store",
       {2, 1,
        [](const Memories& m) {
          if (block_index() == 0) return device::store_pack(m.data, {{7, 1, 7, 1}});
          const auto* words = reinterpret_cast<const std::uint32_t*>(m.data);
          while (load(words + 1) != 1) pause();
          store(m.seen, load(words));
        },
        [](std::uint64_t seen) { return seen == 7 ? "" : "torn"; }}},
      {"bulk copy", {2, 1, [](const Memories& m) { copy_then_flag(m, true, true, true); }, stale_unless_one}},
      {"bulk copy, no fence before",
       {2, 1, [](const Memories& m) { copy_then_flag(m, false, true, true); }, stale_unless_one}},
      {"bulk copy, no wait", {2, 1, [](const Memories& m) { copy_then_flag(m, true, false, true); }, stale_unless_one}},
      {"bulk copy, no fence after",
       {2, 1, [](const Memories& m) { copy_then_flag(m, true, true, false); }, stale_unless_one}},
      {"bulk copy out of bounds", {1, 1, [](const Memories& m) { load_stage(m.data + 8); }, stale_unless_one}},
      {"bulk copy not aligned", {1, 1, [](const Memories& m) { load_stage(m.data + 1); }, stale_unless_one}},
      {"bulk copy without its shared memory",
       {1, 1,
        [](const Memories& m) {
          device::tma_begin(kStage);
          device::tma_load({16, kStage.loaded}, m.data, 16);
        },
        stale_unless_one}},
      {"out of bounds", {1, 1, [](const Memories& m) { store(m.data + 8, 1u); }, stale_unless_one}},
      {"vector out of bounds",
       {1, 1, [](const Memories& m) { (void)device::load_pack(m.data + 7); }, stale_unless_one}},
      {"never written", {1, 1, [](const Memories& m) { store(m.seen, load(m.fresh)); }, stale_unless_one}},
      {"not aligned",
       {1, 1,
        [](const Memories& m) {
          (void)load(reinterpret_cast<const std::uint64_t*>(reinterpret_cast<const char*>(m.data) + 4));
        },
        stale_unless_one}},
      {"barrier in a branch",
       {1, 2,
        [](const Memories&) {
          if (thread_index() == 0) barrier();
        },
        stale_unless_one}},
      {"device scope to another device",
       {1, 1, [](const Memories& m) { device::store_release_device(m.other, 1); }, stale_unless_one}},
      {"waits for ever",
       {1, 1,
        [](const Memories& m) {
          while (load_acquire_system(m.flag) != 1) pause();
        },
        stale_unless_one}},
  };
  return tests;
}

}  // namespace

std::vector<std::string> litmus_names() {
  std::vector<std::string> names;
  for (const auto& [name, litmus] : table()) names.push_back(name);
  return names;
}

std::string run_litmus(const std::string& name, std::uint64_t seed) {
  const Litmus& litmus = table().at(name);
  Machine machine(seed);
  Memory& memory = machine.memory();
  Memories m{};
  const auto zeroed = [&](int device, std::size_t words, const char* called) {
    auto* made = static_cast<std::uint64_t*>(memory.allocate(device, 8 * words, called));
    memory.fill(made, 0, 8 * words);
    return made;
  };
  m.data = zeroed(0, 8, "data");
  m.flag = zeroed(0, 1, "flag");
  m.other = zeroed(1, 1, "other");
  m.seen = zeroed(0, 1, "seen");
  m.fresh = static_cast<std::uint32_t*>(memory.allocate(0, 4, "fresh"));
  machine.launch(0, litmus.blocks, litmus.threads, [&] { litmus.kernel(m); }, -1, kSharedBytes);
  try {
    machine.run(100'000);
  } catch (const Fault& fault) {
    return fault.what();
  }
  std::uint64_t seen = 0;
  memory.read(&seen, m.seen, sizeof seen);
  return litmus.judge(seen);
}

}  // namespace pycomm::emulator
