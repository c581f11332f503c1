#include "cuda/plan.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "base/error.hpp"

namespace pycomm::device {

namespace {

constexpr std::size_t kFlagBytes = 128;  // a flag has a line of its own: two ranks never poll one line
constexpr std::size_t kSlotAlign = 256;

std::size_t rounded(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

// Turns one rank's program into a RankPlan. The steps of a body are written once and shared by its lanes; the edges of
// each lane follow each other in the order in which the body first names the peer.
class RankBuilder {
 public:
  RankBuilder(const DevicePlan& plan, std::int32_t rank)
      : plan_(plan),
        schedule_(plan.schedule),
        program_(schedule_.programs[static_cast<std::size_t>(rank)]),
        align_(align_of(plan.dtype)) {}

  RankPlan build() {
    std::vector<std::int32_t> first_step;
    std::vector<Peers> in, out;
    for (std::size_t body = 0; body < program_.bodies.size(); ++body) {
      first_step.push_back(static_cast<std::int32_t>(result_.steps.size()));
      in_ = {};
      out_ = {};
      const std::span<const Step> steps = program_.bodies[body];
      for (std::size_t index = 0; index < steps.size(); ++index)
        append(steps[index], static_cast<std::int32_t>(length_of_run(steps, index)));
      in.push_back(in_);
      out.push_back(out_);
    }
    for (std::size_t index = 0; index < program_.lanes.size(); ++index) {
      const Lane& lane = program_.lanes[index];
      const auto body = static_cast<std::size_t>(lane.body);
      const std::int32_t left = schedule_.segments - lane.first;
      result_.lanes.push_back({.first_step = first_step[body],
                               .steps = static_cast<std::int32_t>(program_.bodies[body].size()),
                               .first_segment = lane.first,
                               .stride = lane.stride,
                               .iterations = left <= 0 ? 0 : (left + lane.stride - 1) / lane.stride,
                               .first_in = static_cast<std::int32_t>(result_.in.size()),
                               .first_out = static_cast<std::int32_t>(result_.out.size())});
      add_edges(result_.in, in[body], static_cast<std::int32_t>(index));
      add_edges(result_.out, out[body], static_cast<std::int32_t>(index));
    }
    mark_published();
    return std::move(result_);
  }

 private:
  struct Peers {
    std::vector<std::int32_t> ranks;
    std::vector<std::int32_t> messages;
  };
  struct Number {
    std::int16_t edge;
    std::int32_t message;
  };

  static Number next(Peers& peers, std::int32_t peer) {
    const auto found = std::find(peers.ranks.begin(), peers.ranks.end(), peer);
    const auto index = static_cast<std::size_t>(found - peers.ranks.begin());
    if (found == peers.ranks.end()) {
      peers.ranks.push_back(peer);
      peers.messages.push_back(0);
    }
    return {static_cast<std::int16_t>(index), peers.messages[index]++};
  }

  static void add_edges(std::vector<EdgePlan>& edges, const Peers& peers, std::int32_t lane) {
    for (std::size_t i = 0; i < peers.ranks.size(); ++i) edges.push_back({lane, peers.ranks[i], peers.messages[i]});
  }

  Extent chunk_extent(std::int32_t chunk) const {
    return part_of({0, plan_.count}, schedule_.chunks, chunk, equal_blocks(schedule_.collective) ? 1 : align_);
  }

  // Where a chunk of a buffer begins. A buffer that holds one chunk of several begins with it.
  std::int64_t begin(Place place) const {
    if (place.buffer == Buffer::tmp) return place.chunk * rounded_chunk();
    if (schedule_.longest_run > 1) return 0;  // the kernel finds where it lies in its segment
    const std::int32_t chunks = place.buffer == Buffer::in ? schedule_.in_chunks : schedule_.out_chunks;
    return chunks == schedule_.chunks ? chunk_extent(place.chunk).begin : 0;
  }
  std::int64_t rounded_chunk() const { return (chunk_extent(0).count + align_ - 1) / align_ * align_; }

  Source own(Place place) const { return {place.buffer, -1, 0, begin(place)}; }
  Source message(std::int32_t peer) {
    const Number number = next(in_, peer);
    return {Buffer::tmp, number.edge, number.message, 0};
  }

  void append(const Step& step, std::int32_t run) {
    DeviceStep made{};
    made.work = Work::nothing;
    made.edge = -1;
    made.to = step.to.buffer;
    made.to_begin = begin(step.to);
    made.first_source = static_cast<std::int32_t>(result_.sources.size());
    Place extent_of = step.to;
    if (step.joined) {
      result_.steps.push_back(made);
      return;
    }
    switch (step.action) {
      case Action::send: {
        const Number number = next(out_, step.peer);
        made.work = Work::send;
        made.edge = number.edge;
        made.message = number.message;
        extent_of = step.from;
        add(made, own(step.from));
        break;
      }
      case Action::recv:
        made.work = Work::move;
        add(made, message(step.peer));
        break;
      case Action::copy:
        made.work = Work::move;
        add(made, own(step.from));
        break;
      case Action::recv_reduce:
        made.work = Work::combine;
        add(made, own(step.to));
        add(made, message(step.peer));
        break;
      case Action::reduce:
        made.work = Work::combine;
        add(made, own(step.to));
        add(made, own(step.from));
        break;
      case Action::combine:
        made.work = Work::combine;
        for (const Operand& operand : program_.operands_of(step))
          add(made, operand.peer < 0 ? own(operand.place) : message(operand.peer));
        break;
      case Action::scale: made.work = Work::scale; break;
      case Action::after:
        made.work = Work::after;
        made.lane = step.lane;
        made.step = step.step;
        break;
      case Action::wait: break;  // a send is taken when its step ends
    }
    const std::int32_t chunk = step.chunk >= 0 ? step.chunk : extent_of.chunk;
    made.chunk_count = made.work == Work::nothing || made.work == Work::after ? 0 : chunk_extent(chunk).count;
    made.chunk = chunk;
    made.chunks = run;
    result_.steps.push_back(made);
  }

  void add(DeviceStep& step, Source source) {
    result_.sources.push_back(source);
    ++step.sources;
  }

  void mark_published() {
    for (const DeviceStep& step : result_.steps) {
      if (step.work != Work::after) continue;
      const DeviceLane& lane = result_.lanes[static_cast<std::size_t>(step.lane)];
      result_.steps[static_cast<std::size_t>(lane.first_step + step.step)].publish = true;
    }
  }

  const DevicePlan& plan_;
  const Schedule& schedule_;
  const Program& program_;
  std::int64_t align_;
  RankPlan result_;
  Peers in_, out_;
};

ArenaLayout lay_out(const DevicePlan& plan, const RankPlan& rank, std::int64_t chunk_elements,
                    std::int32_t tmp_chunks) {
  ArenaLayout arena;
  std::size_t end = 0;
  const auto take = [&end](std::size_t bytes, std::size_t align) {
    const std::size_t begin = rounded(end, align);
    end = begin + bytes;
    return begin;
  };
  arena.status = take(sizeof(std::uint64_t), kFlagBytes);
  arena.calls = take(rank.lanes.size() * sizeof(std::uint64_t), kFlagBytes);
  arena.progress = take(rank.lanes.size() * sizeof(std::uint64_t), kFlagBytes);
  for (std::size_t i = 0; i < rank.in.size(); ++i) arena.arrived.push_back(take(sizeof(std::uint64_t), kFlagBytes));
  for (std::size_t i = 0; i < rank.out.size(); ++i) arena.taken.push_back(take(sizeof(std::uint64_t), kFlagBytes));
  arena.words = end;
  const auto slots = static_cast<std::size_t>(slots_of(plan.form) * plan.slot_bytes);
  for (std::size_t i = 0; i < rank.in.size(); ++i) arena.slots.push_back(take(slots, kSlotAlign));
  const auto item = static_cast<std::int64_t>(size_of(plan.dtype));
  arena.tmp = take(static_cast<std::size_t>(tmp_chunks * chunk_elements * item), kSlotAlign);
  arena.bytes = rounded(end, kSlotAlign);
  return arena;
}

std::int64_t passed_count(const DevicePlan& plan, std::int32_t rank, std::int32_t chunks) {
  const Schedule& schedule = plan.schedule;
  if (!schedule.programs[static_cast<std::size_t>(rank)].passes_buffers) return 0;
  return chunks == schedule.chunks ? plan.count : plan.count / schedule.chunks;
}

}  // namespace

DevicePlan make_device_plan(Schedule schedule, DType dtype, std::int64_t count, Form form) {
  DevicePlan plan{
      .schedule = std::move(schedule), .dtype = dtype, .count = count, .form = form, .slot_bytes = 0, .ranks = {}};
  const std::int64_t align = align_of(dtype);
  const bool equal = equal_blocks(plan.schedule.collective);
  if (equal && count % plan.schedule.chunks != 0)
    throw UsageError("count " + std::to_string(count) + " is not a multiple of the " +
                     std::to_string(plan.schedule.chunks) + " ranks");
  const Extent chunk = part_of({0, count}, plan.schedule.chunks, 0, equal ? 1 : align);
  plan.slot_bytes =
      slot_bytes_of(form, largest_message(plan.schedule, count, align) * static_cast<std::int64_t>(size_of(dtype)));
  constexpr int kMostSteps = 0xFFFF, kMostLanes = 0xFFF, kMostSegments = 0x3FFFFF;  // as Waited holds them
  if (plan.schedule.segments > kMostSegments) throw UsageError("a schedule on a device has too many segments");
  for (std::int32_t rank = 0; rank < plan.schedule.ranks; ++rank) {
    plan.ranks.push_back(RankBuilder(plan, rank).build());
    RankPlan& made = plan.ranks.back();
    if (made.steps.size() > kMostSteps || made.lanes.size() > kMostLanes)
      throw UsageError("rank " + std::to_string(rank) + ": a schedule on a device has too many steps or lanes");
    const std::int64_t elements = (chunk.count + align - 1) / align * align;
    made.arena = lay_out(plan, made, elements, plan.schedule.programs[static_cast<std::size_t>(rank)].tmp_chunks);
  }
  return plan;
}

BoundEdges bind_edges(const DevicePlan& plan, std::int32_t rank, std::span<char* const> arenas) {
  const RankPlan& mine = plan.ranks[static_cast<std::size_t>(rank)];
  char* const arena = arenas[static_cast<std::size_t>(rank)];
  const auto find = [rank](const std::vector<EdgePlan>& edges, std::int32_t lane) {
    const auto found = std::find_if(edges.begin(), edges.end(),
                                    [&](const EdgePlan& edge) { return edge.lane == lane && edge.peer == rank; });
    if (found == edges.end()) throw ScheduleError("rank " + std::to_string(rank) + " has an edge its peer lacks");
    return static_cast<std::size_t>(found - edges.begin());
  };
  const auto word = [](char* at) { return reinterpret_cast<std::uint64_t*>(at); };
  BoundEdges bound;
  for (std::size_t i = 0; i < mine.in.size(); ++i) {
    const EdgePlan& edge = mine.in[i];
    const RankPlan& sender = plan.ranks[static_cast<std::size_t>(edge.peer)];
    char* const there = arenas[static_cast<std::size_t>(edge.peer)];
    bound.in.push_back({arena + mine.arena.slots[i], word(arena + mine.arena.arrived[i]),
                        word(there + sender.arena.taken[find(sender.out, edge.lane)]), edge.messages, edge.peer});
  }
  for (std::size_t i = 0; i < mine.out.size(); ++i) {
    const EdgePlan& edge = mine.out[i];
    const RankPlan& receiver = plan.ranks[static_cast<std::size_t>(edge.peer)];
    char* const there = arenas[static_cast<std::size_t>(edge.peer)];
    const std::size_t match = find(receiver.in, edge.lane);
    bound.out.push_back({there + receiver.arena.slots[match], word(there + receiver.arena.arrived[match]),
                         word(arena + mine.arena.taken[i]), edge.messages, edge.peer});
  }
  return bound;
}

EngineArguments arguments_of(const DevicePlan& plan, std::int32_t rank, char* arena) {
  const ArenaLayout& layout = plan.ranks[static_cast<std::size_t>(rank)].arena;
  EngineArguments arguments{};
  arguments.calls = reinterpret_cast<std::uint64_t*>(arena + layout.calls);
  arguments.progress = reinterpret_cast<std::uint64_t*>(arena + layout.progress);
  arguments.status = reinterpret_cast<std::uint64_t*>(arena + layout.status);
  arguments.tmp = arena + layout.tmp;
  arguments.contributors = plan.schedule.workers;
  arguments.slot_bytes = plan.slot_bytes;
  arguments.count = plan.count;
  arguments.chunks = plan.schedule.longest_run > 1 ? plan.schedule.chunks : 0;
  arguments.segments = plan.schedule.segments;
  arguments.form = plan.form;
  return arguments;
}

std::int64_t in_count(const DevicePlan& plan, std::int32_t rank) {
  return passed_count(plan, rank, plan.schedule.in_chunks);
}
std::int64_t out_count(const DevicePlan& plan, std::int32_t rank) {
  return passed_count(plan, rank, plan.schedule.out_chunks);
}

}  // namespace pycomm::device
