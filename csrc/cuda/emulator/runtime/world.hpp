// What CUDA's calls find behind them: emulated devices, the machine that runs them, and one lock for the host threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda/emulator/machine.hpp"

namespace pycomm::emulator {

struct Launch {
  unsigned blocks;
  unsigned threads;
  std::uint32_t shared_bytes;
  std::function<void()> kernel;
};

struct Allocation {
  std::size_t bytes;
  int device;
};

struct Stream {
  int device = 0;
  int queue = 0;
  bool capturing = false;
  std::vector<Launch> captured;
};

// What one call of emulate_devices made.
struct World {
  World(int count, std::uint64_t seed, int processors_each, int major_of_all);

  int devices;
  int processors;
  int major;  // of their compute capability
  Machine machine;
  std::vector<Stream> defaults;  // the default stream of each device
  int next_queue;
  std::vector<int> free_queues;
  std::map<int, int> device_of_queue;
  std::map<std::uintptr_t, Allocation> allocations;
  std::map<std::pair<int, int>, bool> peers;
  std::map<std::pair<int, const void*>, int> shared_bytes;  // [device, kernel]: dynamic shared memory it may have
  std::string fault;                                        // once a kernel has failed, every call does
};

// The lock, for a call that returns soon: it goes before those that turn the machine.
class Turn {
 public:
  Turn();
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  World& world();            // the newest
  static bool is_awaited();  // by another host thread
};

// Whether kernels of the device are in flight.
bool busy(const World& world, int device);

// The device whose memory lies there; -1: it is the host's.
int owner_of(const World& world, const void* place);

void move_bytes(World& world, void* to, const void* from, std::size_t bytes);

// A copy in host memory of the allocation that holds `place`, from there on: kernels read their tables with plain
// loads, which the emulator's own addresses do not allow.
std::shared_ptr<std::vector<char>> host_copy(World& world, const void* place);

// Work in the stream's order, or into what the stream captures.
void put(World& world, Stream& stream, Launch launch);

}  // namespace pycomm::emulator
