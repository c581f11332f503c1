#include "schedule/fuse.hpp"

#include <cstddef>
#include <optional>
#include <vector>

namespace pycomm {

namespace {

// A step of a body, and for a combine the operand.
struct Position {
  std::size_t step = 0;
  std::size_t operand = 0;
};

class Fusing {
 public:
  explicit Fusing(Schedule& schedule) : schedule_(schedule) {}

  void run() {
    for (int rank = 0; rank < schedule_.ranks; ++rank) {
      const std::size_t lanes = program(rank).lanes.size();
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        const std::size_t steps = body(rank, lane).size();
        for (std::size_t step = 0; step < steps; ++step)
          if (body(rank, lane)[step].action == Action::combine && !begins_run(body(rank, lane), step))
            land_sends_after(rank, lane, step);
      }
    }
  }

 private:
  Program& program(int rank) { return schedule_.programs[static_cast<std::size_t>(rank)]; }
  std::vector<Step>& body(int rank, std::size_t lane) {
    Program& of = program(rank);
    return of.bodies[static_cast<std::size_t>(of.lanes[lane].body)];
  }

  void land_sends_after(int rank, std::size_t lane, std::size_t combine) {
    std::vector<Step>& steps = body(rank, lane);
    const Place place = steps[combine].to;
    if (place.buffer != Buffer::out) return;
    std::size_t next = combine + 1;
    if (next < steps.size() && steps[next].action == Action::scale && steps[next].to == place) ++next;
    for (; next < steps.size() && steps[next].action == Action::send && steps[next].from == place; ++next) {
      if (begins_run(steps, next)) return;
      const int peer = steps[next].peer;
      const auto received = receive_of(rank, lane, next, peer);
      if (!received) continue;
      Step& receive = body(peer, lane)[received->step];
      if (receive.action != Action::recv || receive.to != place) continue;
      if (!earlier_uses_are_over(rank, lane, combine, peer, received->step)) continue;
      steps[next].landed = true;
      receive.landed = true;
    }
  }

  // Whether every use of `place` by `peer` ahead of its step `receive` is known to be over to `rank` at its step
  // `combine`: a send to this rank whose message the combine, or a step before it, takes.
  bool earlier_uses_are_over(int rank, std::size_t lane, std::size_t combine, int peer, std::size_t receive) {
    const Place place = body(peer, lane)[receive].to;
    const auto& lanes = program(peer).lanes;
    for (std::size_t other = 0; other < lanes.size(); ++other) {
      const bool same = other == lane;
      if (!same && lanes[other].body == lanes[lane].body) continue;  // it has other segments
      const std::vector<Step>& steps = body(peer, other);
      for (std::size_t step = 0; step < (same ? receive : steps.size()); ++step) {
        if (!uses(peer, steps[step], place)) continue;
        if (!same || steps[step].action != Action::send || steps[step].peer != rank) return false;
        const auto taken = receive_of(peer, lane, step, rank);
        if (!taken || taken->step > combine) return false;
      }
    }
    return true;
  }

  bool uses(int rank, const Step& step, Place place) {
    const auto same = [&](Place other) {
      return same_memory(other, place, schedule_.collective, schedule_.in_place, rank);
    };
    switch (step.action) {
      case Action::send: return same(step.from);
      case Action::recv:
      case Action::recv_reduce:
      case Action::scale: return same(step.to);
      case Action::copy:
      case Action::reduce: return same(step.to) || same(step.from);
      case Action::combine:
        for (const Operand& operand : program(rank).operands_of(step))
          if (operand.peer < 0 && same(operand.place)) return true;
        return same(step.to);
      case Action::wait:
      case Action::after: return false;
    }
    return true;
  }

  // Where `peer` receives what `rank` sends it at `send`: the k-th send meets the k-th receive of the lane's body.
  std::optional<Position> receive_of(int rank, std::size_t lane, std::size_t send, int peer) {
    if (lane >= program(peer).lanes.size()) return std::nullopt;
    const std::vector<Step>& from = body(rank, lane);
    std::size_t ahead = 0;
    for (std::size_t step = 0; step < send; ++step)
      ahead += from[step].action == Action::send && from[step].peer == peer;
    const std::vector<Step>& to = body(peer, lane);
    for (std::size_t step = 0; step < to.size(); ++step) {
      if (to[step].action == Action::combine) {
        const auto operands = program(peer).operands_of(to[step]);
        for (std::size_t operand = 0; operand < operands.size(); ++operand)
          if (operands[operand].peer == rank && ahead-- == 0) return Position{step, operand};
      } else if (to[step].action == Action::recv || to[step].action == Action::recv_reduce) {
        if (to[step].peer == rank && ahead-- == 0) return Position{step, 0};
      }
    }
    return std::nullopt;
  }

  Schedule& schedule_;
};

}  // namespace

void fuse_landings(Schedule& schedule) { Fusing(schedule).run(); }

}  // namespace pycomm
