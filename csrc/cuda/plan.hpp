// From a schedule to what the engine kernel of one rank reads: every place an offset, every message a queue and a
// number. All ranks make the same plan, so each knows where its peers' queues lie.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "cuda/program.hpp"
#include "schedule/schedule.hpp"

namespace pycomm::device {

struct EdgePlan {  // messages of one lane from one rank to another
  std::int32_t lane;
  std::int32_t peer;      // the other end
  std::int32_t messages;  // in one iteration
};

// Where things lie in a rank's arena, the memory its peers can reach: bytes from its beginning.
struct ArenaLayout {
  std::vector<std::size_t> slots;    // [edge in]
  std::vector<std::size_t> arrived;  // [edge in]
  std::vector<std::size_t> taken;    // [edge out]
  std::size_t calls = 0;
  std::size_t progress = 0;
  std::size_t status = 0;
  std::size_t tmp = 0;
  std::size_t words = 0;  // flags and counters lie in [0, words) and begin as zero, as do the slots in line form
  std::size_t bytes = 0;
};

struct RankPlan {
  std::vector<DeviceStep> steps;
  std::vector<Source> sources;
  std::vector<DeviceLane> lanes;
  std::vector<EdgePlan> in;   // grouped by lane
  std::vector<EdgePlan> out;  // grouped by lane
  ArenaLayout arena;
};

struct DevicePlan {
  Schedule schedule;
  DType dtype = DType::f32;
  std::int64_t count = 0;
  Form form = Form::bulk;
  std::int64_t slot_bytes = 0;
  std::vector<RankPlan> ranks;
};

// `count` elements of the larger buffer. Raises UsageError for a schedule whose steps the kernel has no room to number.
DevicePlan make_device_plan(Schedule schedule, DType dtype, std::int64_t count, Form form);

// The edges of one rank, with the addresses that follow from where every rank's arena is mapped here.
struct BoundEdges {
  std::vector<Edge> in;
  std::vector<Edge> out;
};
BoundEdges bind_edges(const DevicePlan& plan, std::int32_t rank, std::span<char* const> arenas);

// Fills all of EngineArguments but the caller's buffers, `op` and the tables (steps, sources, lanes, edges).
EngineArguments arguments_of(const DevicePlan& plan, std::int32_t rank, char* arena);

// Elements of `in` and `out` that a rank passes; 0 for a dedicated server.
std::int64_t in_count(const DevicePlan& plan, std::int32_t rank);
std::int64_t out_count(const DevicePlan& plan, std::int32_t rank);

}  // namespace pycomm::device
