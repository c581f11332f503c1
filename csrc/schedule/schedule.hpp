// A schedule: what every rank does, as data. Run by engine/, proved by verify.hpp, timed by simulate/, drawn by
// draw.hpp.
//
// The buffer is cut into `chunks` equal slices, each chunk into `segments` equal parts; one segment of one chunk is a
// message, unless it is part of a run. A rank has lanes; a lane repeats its body (an ordered list of steps) for the
// segments first, first+stride, first+2·stride, … below `segments`. Lanes run side by side and a waiting lane never
// holds up another. The k-th send from a to b on lane l meets the k-th receive from a on lane l of b.
//
// A run of chunks travels as one message: what halving-doubling needs for its lg p messages of n/2, n/4, … bytes. It is
// written chunk by chunk, each step joined to the one before. Where a schedule has runs the buffer is cut the other way
// round, into segments and those into chunks, so that a segment of a run lies in one piece.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace pycomm {

enum class Buffer : std::uint8_t { in, out, tmp };  // in: the caller's, read only; tmp: the engine's
enum class Collective : std::uint8_t { allreduce, reduce_scatter, allgather, broadcast, reduce, alltoall };

constexpr std::array<std::string_view, 6> kCollectives = {"allreduce", "reduce_scatter", "allgather",
                                                          "broadcast", "reduce",         "alltoall"};

constexpr std::string_view name_of(Collective collective) { return kCollectives[static_cast<std::size_t>(collective)]; }

// Raises UsageError for a name that is not one of kCollectives.
inline Collective collective_from(std::string_view name) {
  for (std::size_t i = 0; i < kCollectives.size(); ++i)
    if (kCollectives[i] == name) return static_cast<Collective>(i);
  std::string names;
  for (const std::string_view known : kCollectives) names += (names.empty() ? "" : ", ") + std::string(known);
  throw UsageError("unknown collective '" + std::string(name) + "': one of " + names);
}

// A chunk of a buffer; the segment comes from the lane's iteration. `tmp` has its own chunk count (tmp_chunks), each
// place as large as a chunk of the buffer, and its segments are places of their own.
struct Place {
  Buffer buffer = Buffer::in;
  std::int32_t chunk = 0;
  bool operator==(const Place&) const = default;
};

enum class Action : std::uint8_t {
  send,         // from → peer; holds `from` until the peer has taken it
  recv,         // to ← peer
  recv_reduce,  // to ← to ⊕ message of peer
  copy,         // to ← from
  reduce,       // to ← to ⊕ from
  combine,      // to ← operands[0] ⊕ operands[1] ⊕ … in that order, rounded once
  scale,        // to ← to / contributors (skipped unless the op is avg)
  wait,         // until `peer` has taken every earlier send of this lane to it
  after,        // until step `step` of lane `lane` of this rank is done for the same segment
};

// An operand of combine: a place of this rank (peer < 0), or the next message of `peer` on this lane, consumed.
struct Operand {
  std::int32_t peer = -1;
  Place place;
  bool operator==(const Operand&) const = default;
};

struct Step {
  Action action;
  Place to{};                      // recv, recv_reduce, copy, reduce, combine, scale
  Place from{};                    // send, copy, reduce
  std::int32_t chunk = -1;         // whose extent the step has, where the place it names is in tmp; -1: the place's own
  std::int32_t peer = -1;          // send, recv, recv_reduce, wait
  std::int32_t lane = -1;          // after
  std::int32_t step = -1;          // after
  std::int32_t first_operand = 0;  // combine: operands [first_operand, first_operand + operands) of the program's pool
  std::int32_t operands = 0;
  // recv: the peer stores into `to` itself, any time after this rank entered the call. send: the combine before it has
  // stored `from` at the peer; the message says so.
  bool landed = false;
  // send, recv, recv_reduce, combine: the step before does the same with the same peers on the chunk before, and the
  // two share one message. Steps joined one to the next are a run.
  bool joined = false;
  bool operator==(const Step&) const = default;
};

// Whether the step at `index` is the first of a run of several.
inline bool begins_run(std::span<const Step> steps, std::size_t index) {
  return !steps[index].joined && index + 1 < steps.size() && steps[index + 1].joined;
}

// How many steps the run that begins at `index` has; 1 where none does.
inline std::size_t length_of_run(std::span<const Step> steps, std::size_t index) {
  std::size_t length = 1;
  while (index + length < steps.size() && steps[index + length].joined) ++length;
  return length;
}

struct Lane {
  std::int32_t body = 0;   // index into Program::bodies; lanes that do the same share one
  std::int32_t first = 0;  // first segment
  std::int32_t stride = 1;
};

struct Program {  // of one rank
  std::vector<std::vector<Step>> bodies;
  std::vector<Lane> lanes;
  std::vector<Operand> operands;
  std::int32_t tmp_chunks = 0;  // of this rank; Schedule::tmp_chunks is the largest
  bool passes_buffers = true;   // false for a dedicated server

  std::span<const Step> steps(const Lane& lane) const { return bodies[static_cast<std::size_t>(lane.body)]; }
  std::span<const Operand> operands_of(const Step& step) const {
    return std::span(operands).subspan(static_cast<std::size_t>(step.first_operand),
                                       static_cast<std::size_t>(step.operands));
  }
};

struct Schedule {
  std::string algorithm;  // registry name
  std::string options;    // canonical text, "" or "servers=2,dedicated"
  Collective collective = Collective::allreduce;
  std::int32_t ranks = 1;
  std::int32_t workers = 1;    // ranks [0, workers) pass buffers and contribute
  std::int32_t root = 0;       // broadcast and reduce
  std::int32_t chunks = 1;     // of the larger buffer
  std::int32_t in_chunks = 1;  // of `in` and `out`: one of them has 1 where the collective gathers or scatters
  std::int32_t out_chunks = 1;
  std::int32_t tmp_chunks = 0;
  std::int32_t segments = 1;
  std::int32_t longest_run = 1;  // chunks; past 1 segments are cut first, and there is no tmp
  bool in_place = false;
  std::vector<Program> programs;  // one a rank
};

// The buffers of each collective, p ranks. A chunk of both buffers has the same size; "one memory" is in place.
//
//                   in                 out                          in place
//   allreduce       chunks             chunks                       out[c] is in[c]
//   reduce_scatter  p; c goes to rank c  1: this rank's sum         out[0] is in[rank]
//   allgather       1: this rank's     p; c comes from rank c       in[0] is out[rank]
//   broadcast       chunks, at the root (elsewhere not touched)  chunks    out[c] is in[c]
//   reduce          chunks             chunks, at the root (elsewhere none)  at the root: out[c] is in[c]
//   alltoall        p; c goes to rank c  p; c comes from rank c     out[c] is in[c]
//
// `in` is read only also in place, except where it is `out`. The chunk of `out` that is the memory of in[chunk] in
// place; -1 if none is.
constexpr std::int32_t out_chunk_of_in(Collective collective, std::int32_t chunk, std::int32_t rank) {
  if (collective == Collective::reduce_scatter) return chunk == rank ? 0 : -1;
  if (collective == Collective::allgather) return rank;
  return chunk;
}

constexpr bool same_memory(Place a, Place b, Collective collective, bool in_place, std::int32_t rank) {
  if (a.buffer == b.buffer) return a.chunk == b.chunk;
  if (!in_place || a.buffer == Buffer::tmp || b.buffer == Buffer::tmp) return false;
  return a.buffer == Buffer::in ? out_chunk_of_in(collective, a.chunk, rank) == b.chunk
                                : out_chunk_of_in(collective, b.chunk, rank) == a.chunk;
}

// Where a chunk, or a segment of it, lies in a buffer of `count` elements: borders are multiples of `align` elements
// (a cache line's worth) as long as that leaves no part empty that could have elements.
struct Extent {
  std::int64_t begin = 0;
  std::int64_t count = 0;
};

constexpr Extent part_of(Extent whole, std::int64_t parts, std::int64_t index, std::int64_t align) {
  const std::int64_t even = (whole.count + parts - 1) / parts;
  const std::int64_t size = even < align ? even : (even + align - 1) / align * align;
  const std::int64_t begin = size * index < whole.count ? size * index : whole.count;
  const std::int64_t end = begin + size < whole.count ? begin + size : whole.count;
  return {whole.begin + begin, end - begin};
}

constexpr bool has_root(Collective collective) {
  return collective == Collective::broadcast || collective == Collective::reduce;
}

// Chunks of these belong to a rank each and have equal counts, whatever that does to alignment.
constexpr bool equal_blocks(Collective collective) {
  return collective == Collective::reduce_scatter || collective == Collective::allgather ||
         collective == Collective::alltoall;
}

// Where segment `segment` of chunk `chunk` of a buffer of `count` elements lies (of the larger buffer, where the two
// differ).
inline Extent extent_of(const Schedule& schedule, std::int64_t count, std::int64_t align, std::int32_t chunk,
                        std::int32_t segment) {
  if (schedule.longest_run > 1)
    return part_of(part_of({0, count}, schedule.segments, segment, align), schedule.chunks, chunk, align);
  const std::int64_t chunk_align = equal_blocks(schedule.collective) ? 1 : align;
  return part_of(part_of({0, count}, schedule.chunks, chunk, chunk_align), schedule.segments, segment, align);
}

// Elements of the largest message.
inline std::int64_t largest_message(const Schedule& schedule, std::int64_t count, std::int64_t align) {
  const Extent last = extent_of(schedule, count, align, schedule.longest_run - 1, 0);
  return last.begin + last.count - extent_of(schedule, count, align, 0, 0).begin;
}

}  // namespace pycomm
