#include "schedule/wellformed.hpp"

#include <algorithm>

#include "schedule/layout.hpp"
#include "schedule/refuse.hpp"
#include "schedule/text.hpp"

namespace pycomm {

namespace {

bool does(const Lane& lane, std::int32_t segment) {
  return segment >= lane.first && (segment - lane.first) % lane.stride == 0;
}

bool next_chunk(Place after, Place before) {
  return after.buffer != Buffer::tmp && after.buffer == before.buffer && after.chunk == before.chunk + 1;
}

// A joined step does to the next chunk, with the same peers, what the step before it does.
bool continues(const Program& program, const Step& step, const Step& before) {
  if (step.action != before.action || step.landed || before.landed || step.chunk >= 0 || before.chunk >= 0)
    return false;
  switch (step.action) {
    case Action::send: return step.peer == before.peer && next_chunk(step.from, before.from);
    case Action::recv:
    case Action::recv_reduce: return step.peer == before.peer && next_chunk(step.to, before.to);
    case Action::combine: {
      const auto same = [&](const Operand& a, const Operand& b) {
        // Of its own chunk, since a run is done as one array: no step may read what another of the run has written.
        return a.peer == b.peer && (a.peer >= 0 || (next_chunk(a.place, b.place) && a.place.chunk == step.to.chunk));
      };
      const auto now = program.operands_of(step), then = program.operands_of(before);
      return next_chunk(step.to, before.to) && std::equal(now.begin(), now.end(), then.begin(), then.end(), same);
    }
    default: return false;
  }
}

std::int32_t size_of(const std::vector<Lane>& lanes) { return static_cast<std::int32_t>(lanes.size()); }

void check_step(const Schedule& schedule, const Program& program, const Layout& layout, const Site& site,
                const Step& step) {
  const auto need = [&](bool right, const char* what) {
    if (!right) refuse(schedule, 0, site, what);
  };
  const auto peer = [&](std::int32_t rank) {
    need(rank >= 0 && rank < schedule.ranks && rank != site.rank, "the peer must be another rank");
  };
  const auto writes = [&](Place place) {
    need(place.buffer != Buffer::in, "`in` is read only");
    need(layout.has(place), "this rank has no such place");
  };
  const auto reads = [&](Place place) { need(layout.has(place), "this rank has no such place"); };
  switch (step.action) {
    case Action::send: return reads(step.from), peer(step.peer);
    case Action::recv:
    case Action::recv_reduce: return writes(step.to), peer(step.peer);
    case Action::copy:
    case Action::reduce: return writes(step.to), reads(step.from);
    case Action::scale: return writes(step.to);
    case Action::wait: return peer(step.peer);
    case Action::combine: {
      writes(step.to);
      need(step.operands >= 2 && step.first_operand >= 0 &&
               static_cast<std::size_t>(step.first_operand + step.operands) <= program.operands.size(),
           "a combine has at least two operands");
      for (const Operand& operand : program.operands_of(step))
        operand.peer < 0 ? reads(operand.place) : peer(operand.peer);
      return;
    }
    case Action::after: {
      need(step.lane >= 0 && step.lane < size_of(program.lanes) && step.lane != site.lane,
           "`after` must name another lane of this rank");
      const Lane& other = program.lanes[static_cast<std::size_t>(step.lane)];
      const Lane& mine = program.lanes[static_cast<std::size_t>(site.lane)];
      need(step.step >= 0 && static_cast<std::size_t>(step.step) < program.steps(other).size(),
           "`after` must name a step of that lane");
      need(other.first == mine.first && other.stride == mine.stride, "that lane takes other segments");
    }
  }
}

// The lanes, over all ranks, that do a segment.
std::vector<std::int32_t> lanes_doing(const Schedule& schedule, std::int32_t segment) {
  std::vector<std::int32_t> found;
  for (const Program& program : schedule.programs)
    for (std::int32_t l = 0; l < size_of(program.lanes); ++l)
      if (does(program.lanes[static_cast<std::size_t>(l)], segment)) found.push_back(l);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

bool same_steps(const Program& one, std::span<const Step> a, const Program& other, std::span<const Step> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](Step x, Step y) {
    if (x.action == Action::combine && y.action == Action::combine) {
      const auto p = one.operands_of(x), q = other.operands_of(y);
      if (!std::equal(p.begin(), p.end(), q.begin(), q.end())) return false;
      x.first_operand = y.first_operand = 0;
    }
    return x == y;
  });
}

}  // namespace

void check_well_formed(const Schedule& schedule) {
  for (std::int32_t rank = 0; rank < schedule.ranks; ++rank) {
    const Program& program = schedule.programs[static_cast<std::size_t>(rank)];
    const Layout layout(schedule, rank);
    std::vector<bool> seen(program.bodies.size(), false);
    for (std::int32_t l = 0; l < size_of(program.lanes); ++l) {
      const Lane& lane = program.lanes[static_cast<std::size_t>(l)];
      Site site{.rank = rank, .lane = l};
      if (lane.body < 0 || static_cast<std::size_t>(lane.body) >= program.bodies.size() || lane.first < 0 ||
          lane.stride < 1)
        refuse(schedule, 0, Site{.rank = rank, .lane = size_of(program.lanes)},
               "lane " + std::to_string(l) + " needs a body, a first segment and a stride of at least 1");
      const auto steps = program.steps(lane);
      const bool again = seen[static_cast<std::size_t>(lane.body)];  // but what `after` means depends on the lane
      seen[static_cast<std::size_t>(lane.body)] = true;
      std::int32_t run = 0;  // steps of it so far
      for (const Step& step : steps) {
        if (!again || step.action == Action::after) check_step(schedule, program, layout, site, step);
        if (!again && step.joined && (site.step == 0 || !continues(program, step, *(&step - 1))))
          refuse(schedule, 0, site, "it is joined to the step before, which is not the same on the chunk before");
        run = step.joined ? run + 1 : 1;
        if (run > schedule.longest_run || (run > 1 && schedule.tmp_chunks > 0))
          refuse(schedule, 0, site,
                 "its run has " + std::to_string(run) + " chunks: the schedule says " +
                     std::to_string(schedule.longest_run) + " at most, and none beside tmp");
        ++site.step;
      }
    }
  }
}

bool edges_balance(const Schedule& schedule) {
  const auto ranks = static_cast<std::size_t>(schedule.ranks);
  std::size_t lanes = 0;
  for (const Program& program : schedule.programs) lanes = std::max(lanes, program.lanes.size());
  std::vector<std::int32_t> surplus(ranks * ranks, 0);
  for (std::size_t l = 0; l < lanes; ++l) {
    const Lane* first = nullptr;
    bool repeats = l > 0;  // lane l - 1 says the same
    for (const Program& program : schedule.programs) {
      if (l >= program.lanes.size()) {
        repeats = repeats && l - 1 >= program.lanes.size();
        continue;
      }
      const Lane& lane = program.lanes[l];
      if (first == nullptr) first = &lane;
      if (lane.first != first->first || lane.stride != first->stride) return false;
      repeats = repeats && program.lanes[l - 1].body == lane.body;
    }
    if (repeats) continue;
    for (std::size_t r = 0; r < ranks; ++r) {
      const Program& program = schedule.programs[r];
      if (l >= program.lanes.size()) continue;
      for (const Step& step : program.steps(program.lanes[l])) {
        const auto peer = static_cast<std::size_t>(step.peer);
        if (step.action == Action::send) ++surplus[r * ranks + peer];
        if (step.action == Action::recv || step.action == Action::recv_reduce) --surplus[peer * ranks + r];
        if (step.action == Action::combine)
          for (const Operand& operand : program.operands_of(step))
            if (operand.peer >= 0) --surplus[static_cast<std::size_t>(operand.peer) * ranks + r];
      }
    }
    if (std::any_of(surplus.begin(), surplus.end(), [](std::int32_t count) { return count != 0; })) return false;
  }
  return true;
}

bool same_segment(const Schedule& one, std::int32_t a, const Schedule& other, std::int32_t b) {
  const auto here = lanes_doing(one, a), there = lanes_doing(other, b);
  if (here.size() != there.size()) return false;
  for (std::size_t r = 0; r < one.programs.size(); ++r) {
    const Program& p = one.programs[r];
    const Program& q = other.programs[r];
    if (p.tmp_chunks != q.tmp_chunks || p.passes_buffers != q.passes_buffers) return false;
    for (std::size_t k = 0; k < here.size(); ++k) {
      const auto l = static_cast<std::size_t>(here[k]), m = static_cast<std::size_t>(there[k]);
      const bool has = l < p.lanes.size() && does(p.lanes[l], a);
      if (has != (m < q.lanes.size() && does(q.lanes[m], b))) return false;
      if (!has) continue;
      const auto x = p.steps(p.lanes[l]), y = q.steps(q.lanes[m]);
      if (x.data() != y.data() && !same_steps(p, x, q, y)) return false;
      const auto names_lane = [](const Step& step) { return step.action == Action::after; };
      if (here != there && std::any_of(x.begin(), x.end(), names_lane)) return false;
    }
  }
  return true;
}

std::vector<std::int32_t> kinds_of_segments(const Schedule& schedule) {
  std::vector<std::int32_t> chosen;
  for (std::int32_t segment = 0; segment < schedule.segments; ++segment)
    if (std::none_of(chosen.begin(), chosen.end(),
                     [&](std::int32_t earlier) { return same_segment(schedule, earlier, schedule, segment); }))
      chosen.push_back(segment);
  return chosen;
}

}  // namespace pycomm
