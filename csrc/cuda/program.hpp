// What the engine kernel is given: one rank's part of a schedule, flat, with every place resolved to an offset and
// every message to a queue. Built by plan.hpp; read by engine.cu on the device and in the emulator.
#pragma once

#include <cstdint>

#include "base/dtype.hpp"
#include "base/op.hpp"
#include "schedule/schedule.hpp"

namespace pycomm::device {

// How a message lies in a slot. line: in lines of 4 data and 4 flag, so that its arrival needs no fence: for latency.
// bulk: as it is, 16 bytes at a time, and then a flag: for bandwidth.
enum class Form : std::uint8_t { line, bulk };

constexpr std::int64_t slot_bytes_of(Form form, std::int64_t message_bytes) {
  const std::int64_t whole = (message_bytes + 15) / 16 * 16;
  return form == Form::line ? 2 * whole : whole;
}
constexpr std::int64_t slots_of(Form form) { return form == Form::line ? 4 : 2; }
// The receiver's word that slots are free is sent once for so many messages: at least half of them stay usable.
constexpr std::int64_t taken_every(Form form) { return form == Form::line ? 2 : 1; }

// Stages of shared memory through which Hopper's bulk copies carry a message, and after them an mbarrier for each.
inline constexpr std::uint32_t kStages = 4;
inline constexpr std::uint32_t kMbarrierBytes = 8;
constexpr std::uint32_t stage_memory_bytes(std::int32_t stage_bytes) {
  return kStages * (static_cast<std::uint32_t>(stage_bytes) + kMbarrierBytes);
}

// What an operand, or a step's target, is: a place of this rank, or a message in a queue.
struct Source {
  Buffer buffer;
  std::int16_t edge;     // of the lane's edges into this rank; -1: a place
  std::int32_t message;  // its number among the messages of that edge in one iteration of the body
  std::int64_t begin;    // of the chunk, elements
};

enum class Work : std::uint8_t {
  nothing,  // keeps the numbering of steps
  send,     // sources[0] → queue
  move,     // to ← sources[0]
  combine,  // to ← sources[0] ⊕ sources[1] ⊕ …, rounded once
  scale,    // to ← to / contributors
  after,    // until step `step` of lane `lane` is done for the same segment
};

struct DeviceStep {
  Work work;
  Buffer to;
  bool publish;          // another lane waits for this step
  std::int16_t edge;     // send: of the lane's edges out of this rank
  std::int32_t message;  // send: its number among the messages of that edge in one iteration
  std::int32_t lane;     // after
  std::int32_t step;     // after
  std::int32_t first_source;
  std::int32_t sources;
  std::int64_t to_begin;     // of the chunk, elements
  std::int64_t chunk_count;  // elements of the chunk, before it is cut into segments
  std::int32_t chunk;        // where segments are cut first: of the run of `chunks` the first
  std::int32_t chunks;
};

struct Edge {
  char* slots;             // in the receiver's memory
  std::uint64_t* arrived;  // in the receiver's memory: messages written (bulk)
  std::uint64_t* taken;    // in the sender's memory: messages read
  std::int32_t messages;   // in one iteration
  std::int32_t peer;
};

struct DeviceLane {
  std::int32_t first_step;
  std::int32_t steps;
  std::int32_t first_segment;
  std::int32_t stride;
  std::int32_t iterations;
  std::int32_t first_in;   // of its edges into this rank
  std::int32_t first_out;  // of its edges out of this rank
};

struct EngineArguments {
  const DeviceStep* steps;
  const Source* sources;
  const DeviceLane* lanes;
  const Edge* edges_in;
  const Edge* edges_out;
  std::uint64_t* calls;     // [lane]: calls finished, in the rank's own memory
  std::uint64_t* progress;  // [lane]: steps finished since the beginning, in the rank's own memory
  std::uint64_t* status;    // 0, or what was waited for when the first lane gave up
  const char* in;
  char* out;
  char* tmp;
  std::int64_t contributors;
  std::int64_t slot_bytes;
  std::uint64_t patience_ns;
  std::int64_t count;   // of the buffer; elements
  std::int32_t chunks;  // that each segment is cut into; 0: each chunk is cut into segments
  std::int32_t segments;
  std::int32_t stage_bytes;  // in bulk form messages from so many bytes on are moved by bulk copies; 0: none is
  Form form;
  Op op;
};

// What a lane waited for when it gave up, packed into the status word: never 0.
struct Waited {
  enum class Reason : std::uint8_t { arrival = 1, room = 2, lane = 3 };
  Reason reason;
  std::int32_t peer;  // the rank, or the lane
  std::int32_t lane;
  std::int32_t step;
  std::int32_t segment;
};

constexpr std::uint64_t pack_waited(Waited waited) {
  return static_cast<std::uint64_t>(waited.reason) << 62 | static_cast<std::uint64_t>(waited.peer & 0xFFF) << 50 |
         static_cast<std::uint64_t>(waited.lane & 0xFFF) << 38 |
         static_cast<std::uint64_t>(waited.step & 0xFFFF) << 22 | static_cast<std::uint64_t>(waited.segment & 0x3FFFFF);
}
constexpr Waited unpack_waited(std::uint64_t status) {
  return {static_cast<Waited::Reason>(status >> 62), static_cast<std::int32_t>(status >> 50 & 0xFFF),
          static_cast<std::int32_t>(status >> 38 & 0xFFF), static_cast<std::int32_t>(status >> 22 & 0xFFFF),
          static_cast<std::int32_t>(status & 0x3FFFFF)};
}

constexpr std::int64_t align_of(DType dtype) { return 64 / static_cast<std::int64_t>(size_of(dtype)); }

}  // namespace pycomm::device
