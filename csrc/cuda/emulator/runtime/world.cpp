#include "cuda/emulator/runtime/world.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <mutex>

#include "cuda/emulator/runtime/runtime.hpp"

namespace pycomm::emulator {

World::World(int count, std::uint64_t seed, int processors_each, int major_of_all)
    : devices(count), processors(processors_each), major(major_of_all), machine(seed), next_queue(count) {
  for (int device = 0; device < count; ++device) defaults.push_back({device, device, false, {}});
}

namespace {

struct Runtime {
  std::mutex mutex;
  std::atomic<int> wanting{0};
  // Never destroyed: objects of an earlier world may still release what they hold, and no address comes twice.
  std::vector<std::unique_ptr<World>> worlds;
};

Runtime& runtime() {
  static auto* const made = new Runtime;  // host threads may still use it while the process ends
  return *made;
}

}  // namespace

Turn::Turn() {
  ++runtime().wanting;
  runtime().mutex.lock();
  --runtime().wanting;
}

Turn::~Turn() { runtime().mutex.unlock(); }

World& Turn::world() {
  auto& worlds = runtime().worlds;
  if (worlds.empty()) worlds.push_back(std::make_unique<World>(0, 0, 1, 9));
  return *worlds.back();
}

bool Turn::is_awaited() { return runtime().wanting > 0; }

bool busy(const World& world, int device) {
  for (const auto& [queue, owner] : world.device_of_queue)
    if (owner == device && !world.machine.idle(queue)) return true;
  return !world.machine.idle(device);
}

int owner_of(const World& world, const void* place) {
  const auto next = world.allocations.upper_bound(reinterpret_cast<std::uintptr_t>(place));
  if (next == world.allocations.begin()) return -1;
  const auto& [begin, found] = *std::prev(next);
  const std::uintptr_t end = begin + std::max<std::size_t>(found.bytes, 1);
  return reinterpret_cast<std::uintptr_t>(place) < end ? found.device : -1;
}

void move_bytes(World& world, void* to, const void* from, std::size_t bytes) {
  std::vector<char> between(bytes);
  if (owner_of(world, from) >= 0)
    world.machine.memory().read(between.data(), from, bytes);
  else
    std::memcpy(between.data(), from, bytes);
  if (owner_of(world, to) >= 0)
    world.machine.memory().write(to, between.data(), bytes);
  else
    std::memcpy(to, between.data(), bytes);
}

std::shared_ptr<std::vector<char>> host_copy(World& world, const void* place) {
  const auto address = reinterpret_cast<std::uintptr_t>(place);
  const auto found = std::prev(world.allocations.upper_bound(address));
  auto copy = std::make_shared<std::vector<char>>(found->first + found->second.bytes - address);
  world.machine.memory().read(copy->data(), place, copy->size());
  return copy;
}

void put(World& world, Stream& stream, Launch launch) {
  if (stream.capturing)
    stream.captured.push_back(std::move(launch));
  else
    world.machine.launch(stream.device, launch.blocks, launch.threads, std::move(launch.kernel), stream.queue,
                         launch.shared_bytes);
}

void emulate_devices(int devices, std::uint64_t seed, int processors, int major) {
  const Turn turn;
  runtime().worlds.push_back(std::make_unique<World>(devices, seed, processors, major));
}

std::uint64_t bulk_copies() { return Turn().world().machine.bulk_copies(); }

}  // namespace pycomm::emulator
