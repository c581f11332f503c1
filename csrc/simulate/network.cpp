#include "simulate/network.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>

#include "base/error.hpp"
#include "schedule/text.hpp"
#include "simulate/event_heap.hpp"

namespace pycomm {

namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

enum class Kind : std::uint8_t { lane, head };

struct Event {
  double time_s;
  Kind kind;
  std::int32_t rank;       // the lane's; the sender's
  std::int32_t lane;       // within the rank
  std::uint32_t sequence;  // keeps messages of one lane in order
  std::int32_t subject;    // number of the lane, or of the message
  bool operator<(const Event& other) const {
    return std::tie(time_s, kind, rank, lane, sequence) <
           std::tie(other.time_s, other.kind, other.rank, other.lane, other.sequence);
  }
};

constexpr std::int32_t kNone = -1;

struct Message {
  double bytes;
  double beta;
  double delivered_s;
  std::int32_t queue;
  std::int32_t in_port;
  std::int32_t next = kNone;  // in its queue
};

struct Queue {                               // of one (from, to, lane)
  std::int32_t sender = kNone;               // number of the sending lane
  std::int32_t first = kNone, last = kNone;  // messages whose head has arrived and that have not been taken
  std::int32_t reader = kNone;               // lane that waits for a message
  std::int64_t sent = 0, taken = 0;
  bool sender_waits = false;
};

struct LaneState {
  std::int32_t rank = 0, lane = 0;
  std::int32_t segment = 0;
  std::int32_t step = 0;
  std::int32_t operand = 0;                            // how far a combine, or another step that reduces, has come
  std::int64_t position = 0;                           // steps done
  std::int32_t send_peer = kNone, send_queue = kNone;  // of the last send and receive
  std::int32_t receive_peer = kNone, receive_queue = kNone;
  bool over = false;
  std::vector<std::pair<std::int64_t, std::int32_t>> waiters;  // position needed, lane that waits
};

void check(const std::vector<LinkPiece>& link, const char* name) {
  for (std::size_t index = 0; index < link.size(); ++index) {
    const LinkPiece& piece = link[index];
    if (!(piece.alpha_s >= 0) || !(piece.beta_s_per_byte >= 0) || std::isinf(piece.alpha_s) ||
        std::isinf(piece.beta_s_per_byte))
      throw UsageError(std::string(name) + ": latency and time a byte must be finite and not negative");
    if (index == 0 ? piece.from_bytes != 0 : !(piece.from_bytes > link[index - 1].from_bytes))
      throw UsageError(std::string(name) + ": pieces must begin at 0 bytes and grow");
  }
}

class Run {
 public:
  Run(const Schedule& schedule, const Payload& payload, const Network& network)
      : schedule_(schedule), network_(network) {
    check(network.between, "between");
    check(network.inside, "inside");
    if (network.between.empty()) throw UsageError("between: a network needs a link");
    if (!(network.gamma_s_per_byte >= 0) || std::isinf(network.gamma_s_per_byte))
      throw UsageError("gamma must be finite and not negative");
    if (!network.hosts.empty() && network.hosts.size() != at(schedule.ranks))
      throw UsageError("hosts names " + std::to_string(network.hosts.size()) + " of " + std::to_string(schedule.ranks) +
                       " ranks");
    if (payload.count < 0 || payload.element_bytes < 1 || payload.align < 1)
      throw UsageError("a payload has a count of at least 0 and elements and borders of at least 1");
    cut(payload);
    std::int32_t hosts = 0;
    for (std::int32_t host : network.hosts) {
      if (host < 0) throw UsageError("hosts are numbered from 0");
      hosts = std::max(hosts, host + 1);
    }
    out_free_.assign(at(schedule.ranks) + at(hosts), 0.0);
    in_free_ = out_free_;
    result_.finish_s.assign(at(schedule.ranks), 0.0);
    result_.sent_bytes.assign(at(schedule.ranks), 0);
    result_.received_bytes.assign(at(schedule.ranks), 0);
    first_lane_.push_back(0);
    for (std::int32_t rank = 0; rank < schedule.ranks; ++rank) {
      const Program& program = schedule.programs[at(rank)];
      for (std::size_t lane = 0; lane < program.lanes.size(); ++lane) {
        LaneState state;
        state.rank = rank;
        state.lane = static_cast<std::int32_t>(lane);
        state.segment = program.lanes[lane].first;
        state.over = state.segment >= schedule.segments || program.steps(program.lanes[lane]).empty();
        lanes_.push_back(std::move(state));
      }
      first_lane_.push_back(static_cast<std::int32_t>(lanes_.size()));
    }
  }

  ScheduleTimes run() {
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane)
      if (!lanes_[lane].over) resume(static_cast<std::int32_t>(lane), 0.0);
    while (!events_.empty()) {
      const Event event = events_.pop();
      if (event.kind == Kind::lane)
        advance(event.subject, event.time_s);
      else
        arrive(event.subject, event.time_s);
    }
    for (const LaneState& lane : lanes_)
      if (!lane.over)
        throw ScheduleError("rank " + std::to_string(lane.rank) + " waits for ever in step " +
                            std::to_string(lane.step) + " of lane " + std::to_string(lane.lane) + ", segment " +
                            std::to_string(lane.segment));
    return std::move(result_);
  }

 private:
  void cut(const Payload& payload) {
    bytes_.resize(at(schedule_.chunks) * at(schedule_.segments));
    for (std::int32_t chunk = 0; chunk < schedule_.chunks; ++chunk)
      for (std::int32_t segment = 0; segment < schedule_.segments; ++segment)
        bytes_[at(chunk) * at(schedule_.segments) + at(segment)] =
            extent_of(schedule_, payload.count, payload.align, chunk, segment).count * payload.element_bytes;
  }

  // Of a step, or of all steps of its run: they are one message.
  std::int64_t bytes_of(std::span<const Step> run, std::int32_t segment) const {
    std::int64_t bytes = 0;
    for (const Step& step : run) bytes += bytes_[at(chunk_of(step)) * at(schedule_.segments) + at(segment)];
    return bytes;
  }

  void resume(std::int32_t lane, double time_s) {
    const LaneState& state = lanes_[at(lane)];
    events_.push({time_s, Kind::lane, state.rank, state.lane, sequence_++, lane});
  }

  std::int32_t queue_number(std::int32_t from, std::int32_t to, std::int32_t lane) {
    const std::uint64_t key = (static_cast<std::uint64_t>(from) * at(schedule_.ranks) + at(to)) << 20 | at(lane);
    const auto [found, fresh] = queue_numbers_.try_emplace(key, static_cast<std::int32_t>(queues_.size()));
    if (fresh) {
      queues_.emplace_back();
      if (first_lane_[at(from)] + lane < first_lane_[at(from) + 1])
        queues_.back().sender = first_lane_[at(from)] + lane;
    }
    return found->second;
  }

  // The queue to, or from, a peer; a lane that stays with one peer finds it at once.
  std::int32_t to_peer(LaneState& lane, std::int32_t peer) {
    if (lane.send_peer != peer) {
      lane.send_peer = peer;
      lane.send_queue = queue_number(lane.rank, peer, lane.lane);
    }
    return lane.send_queue;
  }

  std::int32_t from_peer(LaneState& lane, std::int32_t peer) {
    if (lane.receive_peer != peer) {
      lane.receive_peer = peer;
      lane.receive_queue = queue_number(peer, lane.rank, lane.lane);
    }
    return lane.receive_queue;
  }

  bool one_host(std::int32_t a, std::int32_t b) const {
    return !network_.hosts.empty() && network_.hosts[at(a)] == network_.hosts[at(b)];
  }

  std::int32_t port(std::int32_t rank, bool inside) const {
    return network_.hosts.empty() || inside ? rank : schedule_.ranks + network_.hosts[at(rank)];
  }

  void send(LaneState& lane, std::span<const Step> run, double time_s) {
    const Step& step = run.front();
    const std::int64_t bytes = bytes_of(run, lane.segment);
    const auto size = static_cast<double>(bytes);
    const bool inside = one_host(lane.rank, step.peer);
    const auto& link = inside && !network_.inside.empty() ? network_.inside : network_.between;
    const auto piece = std::find_if(link.rbegin(), link.rend(), [&](auto& it) { return it.from_bytes <= size; });
    double& free_s = out_free_[at(port(lane.rank, inside))];
    const double start_s = std::max(time_s, free_s);
    free_s = start_s + size * piece->beta_s_per_byte + (network_.alpha_occupies_port ? piece->alpha_s : 0.0);

    Message message{size, piece->beta_s_per_byte, 0.0, kNone, port(step.peer, inside)};
    message.queue = to_peer(lane, step.peer);
    ++queues_[at(message.queue)].sent;
    const auto number = static_cast<std::int32_t>(messages_.size());
    messages_.push_back(message);
    events_.push({start_s + piece->alpha_s, Kind::head, lane.rank, lane.lane, sequence_++, number});
    result_.sent_bytes[at(lane.rank)] += bytes;
    result_.received_bytes[at(step.peer)] += bytes;
    ++result_.messages;
  }

  void arrive(std::int32_t number, double time_s) {
    Message& message = messages_[at(number)];
    double& free_s = in_free_[at(message.in_port)];
    free_s = std::max(time_s, free_s) + message.bytes * message.beta;
    message.delivered_s = free_s;
    Queue& queue = queues_[at(message.queue)];
    (queue.first == kNone ? queue.first : messages_[at(queue.last)].next) = number;
    queue.last = number;
    if (queue.reader != kNone) resume(queue.reader, message.delivered_s);
    queue.reader = kNone;
  }

  // Takes the next message of `peer`, if it is there at this time; else the lane will be resumed.
  bool take(std::int32_t number, std::int32_t peer, double time_s) {
    Queue& queue = queues_[at(from_peer(lanes_[at(number)], peer))];
    if (queue.first == kNone) {
      queue.reader = number;
      return false;
    }
    const Message& message = messages_[at(queue.first)];
    if (message.delivered_s > time_s) {
      resume(number, message.delivered_s);
      return false;
    }
    queue.first = message.next;
    return true;
  }

  // The receiver is done with the oldest message it took.
  void taken(std::int32_t from, LaneState& lane, double time_s) {
    Queue& queue = queues_[at(from_peer(lane, from))];
    ++queue.taken;
    double& end_s = result_.finish_s[at(from)];
    end_s = std::max(end_s, time_s);
    if (queue.sender_waits && queue.taken == queue.sent) {
      queue.sender_waits = false;
      resume(queue.sender, time_s);
    }
  }

  void done(LaneState& lane, std::size_t steps_done, double time_s) {
    const Program& program = schedule_.programs[at(lane.rank)];
    const Lane& it = program.lanes[at(lane.lane)];
    lane.operand = 0;
    lane.position += static_cast<std::int64_t>(steps_done);
    lane.step += static_cast<std::int32_t>(steps_done);
    if (lane.step == static_cast<std::int32_t>(program.steps(it).size())) {
      lane.step = 0;
      lane.segment += it.stride;
      lane.over = lane.segment >= schedule_.segments;
      if (lane.over) result_.finish_s[at(lane.rank)] = std::max(result_.finish_s[at(lane.rank)], time_s);
    }
    for (std::size_t index = 0; index < lane.waiters.size();) {
      if (lane.waiters[index].first > lane.position) {
        ++index;
        continue;
      }
      resume(lane.waiters[index].second, time_s);
      lane.waiters.erase(lane.waiters.begin() + static_cast<std::ptrdiff_t>(index));
    }
  }

  // A reduction of `bytes` that ends the operand. True if it takes no time, so that the lane goes on at once.
  bool reduced(std::int32_t number, std::int64_t bytes, double time_s) {
    ++lanes_[at(number)].operand;
    const double busy_s = static_cast<double>(bytes) * network_.gamma_s_per_byte;
    if (busy_s == 0) return true;
    resume(number, time_s + busy_s);
    return false;
  }

  bool receive_and_reduce(std::int32_t number, std::span<const Step> run, double time_s) {
    const Step& step = run.front();
    LaneState& lane = lanes_[at(number)];
    if (lane.operand == 0) {
      if (!take(number, step.peer, time_s)) return false;
      if (!reduced(number, bytes_of(run, lane.segment), time_s)) return false;
    }
    taken(step.peer, lane, time_s);
    return true;
  }

  bool combine(std::int32_t number, std::span<const Step> run, double time_s) {
    const Step& step = run.front();
    LaneState& lane = lanes_[at(number)];
    const auto operands = schedule_.programs[at(lane.rank)].operands_of(step);
    const std::int64_t bytes = bytes_of(run, lane.segment);
    while (lane.operand < step.operands) {
      const Operand& operand = operands[at(lane.operand)];
      if (operand.peer >= 0) {
        if (!take(number, operand.peer, time_s)) return false;
        taken(operand.peer, lane,
              time_s + (lane.operand > 0 ? static_cast<double>(bytes) : 0.0) * network_.gamma_s_per_byte);
      }
      if (lane.operand == 0)
        ++lane.operand;
      else if (!reduced(number, bytes, time_s))
        return false;
    }
    return true;
  }

  bool after(std::int32_t number, const Step& step) {
    const LaneState& lane = lanes_[at(number)];
    const Program& program = schedule_.programs[at(lane.rank)];
    const Lane& other = program.lanes[at(step.lane)];
    LaneState& state = lanes_[at(first_lane_[at(lane.rank)] + step.lane)];
    const auto steps = static_cast<std::int64_t>(program.steps(other).size());
    const std::int64_t needed = (lane.segment - other.first) / other.stride * steps + step.step + 1;
    if (state.position >= needed) return true;
    state.waiters.emplace_back(needed, number);
    return false;
  }

  void advance(std::int32_t number, double time_s) {
    LaneState& lane = lanes_[at(number)];
    const Program& program = schedule_.programs[at(lane.rank)];
    while (!lane.over) {
      const auto steps = program.steps(program.lanes[at(lane.lane)]);
      const auto run = steps.subspan(at(lane.step), length_of_run(steps, at(lane.step)));
      const Step& step = run.front();
      switch (step.action) {
        case Action::send: send(lane, run, time_s); break;
        case Action::recv:
          if (!take(number, step.peer, time_s)) return;
          taken(step.peer, lane, time_s);
          break;
        case Action::recv_reduce:
          if (!receive_and_reduce(number, run, time_s)) return;
          break;
        case Action::reduce:
          if (lane.operand == 0 && !reduced(number, bytes_of(run, lane.segment), time_s)) return;
          break;
        case Action::combine:
          if (!combine(number, run, time_s)) return;
          break;
        case Action::wait: {
          Queue& queue = queues_[at(to_peer(lane, step.peer))];
          queue.sender_waits = queue.taken < queue.sent;
          if (queue.sender_waits) return;
          break;
        }
        case Action::after:
          if (!after(number, step)) return;
          break;
        case Action::copy:
        case Action::scale: break;
      }
      done(lane, run.size(), time_s);
    }
  }

  const Schedule& schedule_;
  const Network& network_;
  ScheduleTimes result_;
  std::vector<std::int64_t> bytes_;  // of chunk and segment
  std::vector<double> out_free_, in_free_;
  std::vector<LaneState> lanes_;
  std::vector<std::int32_t> first_lane_;
  std::unordered_map<std::uint64_t, std::int32_t> queue_numbers_;
  std::vector<Queue> queues_;
  std::vector<Message> messages_;
  EventHeap<Event> events_;
  std::uint32_t sequence_ = 0;
};

}  // namespace

ScheduleTimes simulate(const Schedule& schedule, const Payload& payload, const Network& network) {
  return Run(schedule, payload, network).run();
}

}  // namespace pycomm
