#include "engine/operation.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "schedule/text.hpp"

namespace pycomm {

namespace {

// Past this many bytes of a call, what is stored will not be found in a cache again.
constexpr std::size_t kStreamingBytes = std::size_t{8} << 20;

// A call of at most so many bytes is over in some tens of microseconds if its peers are there. It is tried until so
// many walks in a row, as long again, met no message; then its caller is asked to let others go on, whom Python itself
// lets wait for 5 ms.
constexpr std::size_t kBriefBytes = std::size_t{256} << 10;
constexpr int kPatience = 2000;

std::uint64_t fnv1a(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

std::size_t index_of(Buffer buffer) { return static_cast<std::size_t>(buffer); }

}  // namespace

Operation::Operation(std::shared_ptr<SharedMemory> memory, Plan plan, const void* in, void* out)
    : memory_(std::move(memory)), plan_(std::move(plan)) {
  const Call& call = plan_.call;
  const Schedule& schedule = plan_.schedule;
  signature_text_ = plan_.signature();
  signature_ = fnv1a(signature_text_);
  short_signature_ = static_cast<std::uint32_t>(signature_);
  const auto tmp_elements = static_cast<std::size_t>(plan_.tmp_stride() * schedule.tmp_chunks);
  if (tmp_elements > 0) tmp_ = memory_->region().allocate(tmp_elements * size_of(call.dtype));
  bases_[index_of(Buffer::tmp)] = static_cast<std::byte*>(tmp_);
  streaming_ = static_cast<std::size_t>(call.count) * size_of(call.dtype) >= kStreamingBytes;
  const bool brief = static_cast<std::size_t>(call.count) * size_of(call.dtype) <= kBriefBytes;
  // Where ranks are threads, or share cores, the peers may need just what the caller holds.
  if (brief && !memory_->config().one_process) patience_ = memory_->oversubscribed() ? 1 : kPatience;
  contributors_ = call.op == Op::avg ? schedule.workers : 0;
  kernels_ = &kernels(call.dtype, call.op);
  rebind(in, out);
}

void Operation::rebind(const void* in, void* out) {
  auto* in_base = static_cast<std::byte*>(const_cast<void*>(in));  // schedules only read it
  if (bound_ && bases_[index_of(Buffer::in)] == in_base && bases_[index_of(Buffer::out)] == out) return;
  bases_[index_of(Buffer::in)] = in_base;
  bases_[index_of(Buffer::out)] = static_cast<std::byte*>(out);
  lanes_.clear();
  inputs_.clear();
  landings_.clear();
  posting_.clear();
  bound_ = false;
  bind();
  bound_ = true;
}

Operation::~Operation() {
  if (tmp_ != nullptr) memory_->region().release(tmp_);
}

std::byte* Operation::address(Place place, std::int32_t segment) const {
  std::byte* base = bases_[index_of(place.buffer)];
  if (base == nullptr && plan_.call.count > 0)
    throw UsageError("rank " + std::to_string(memory_->rank()) + ": " + plan_.signature() + " uses " + text_of(place) +
                     ", and this rank was given no such buffer");
  const auto item = static_cast<std::int64_t>(size_of(plan_.call.dtype));
  if (place.buffer != Buffer::tmp) return base + plan_.extent(place.chunk, segment).begin * item;
  return base + (place.chunk * plan_.tmp_stride() + plan_.extent(0, segment).begin) * item;
}

void Operation::bind() {
  const Program& program = plan_.schedule.programs[static_cast<std::size_t>(memory_->rank())];
  const std::size_t item = size_of(plan_.call.dtype);
  for (const Lane& lane : program.lanes) {
    const auto lane_index = static_cast<int>(lanes_.size());
    LaneTasks& tasks = lanes_.emplace_back();
    const auto steps = program.steps(lane);
    for (std::int32_t segment = lane.first; segment < plan_.schedule.segments; segment += lane.stride) {
      for (std::size_t index = 0; index < steps.size(); ++index) {
        const Step& step = steps[index];
        Task task{.action = step.action};
        if (step.joined) {  // keeps the numbering of steps
          task.joined = true;
          tasks.tasks.push_back(task);
          continue;
        }
        const std::size_t together = length_of_run(steps, index);
        for (std::size_t k = 0; k < together; ++k)
          if (const std::int32_t chunk = chunk_of(steps[index + k]); chunk >= 0)
            task.count += static_cast<std::size_t>(plan_.extent(chunk, segment).count);
        task.bytes = task.count * item;
        switch (step.action) {
          case Action::send:
            task.from = address(step.from, segment);
            task.outbox = &memory_->outbox(step.peer, lane_index);
            task.landed = step.landed;
            task.posted = !task.landed && task.outbox->reaches(task.from, task.bytes);
            if (task.posted) posting_.emplace_back(task.outbox, step.peer);
            break;
          case Action::recv:
          case Action::recv_reduce:
            task.to = address(step.to, segment);
            task.inbox = &memory_->inbox(step.peer, lane_index);
            task.landed = step.landed;
            break;
          case Action::copy:
          case Action::reduce:
            task.to = address(step.to, segment);
            task.from = address(step.from, segment);
            break;
          case Action::combine:
            task.to = address(step.to, segment);
            task.first_input = static_cast<std::int32_t>(inputs_.size());
            task.inputs = step.operands;
            for (const Operand& operand : program.operands_of(step))
              inputs_.push_back(operand.peer < 0 ? Input{nullptr, address(operand.place, segment)}
                                                 : Input{&memory_->inbox(operand.peer, lane_index), nullptr});
            tasks.pointers.resize(std::max(tasks.pointers.size(), static_cast<std::size_t>(step.operands)));
            if (together == 1) fuse_what_follows(task, steps.subspan(index + 1), segment);
            tasks.outputs.resize(std::max(tasks.outputs.size(), static_cast<std::size_t>(task.sends) + 1));
            break;
          case Action::scale:
            task.to = address(step.to, segment);
            // Done by the combine ahead of it, or not wanted.
            if (contributors_ == 0 ||
                (index > 0 && steps[index - 1].to == step.to && tasks.tasks.back().contributors > 0))
              task.count = 0;
            break;
          case Action::wait: task.outbox = &memory_->outbox(step.peer, lane_index); break;
          case Action::after: {
            const Lane& other = program.lanes[static_cast<std::size_t>(step.lane)];
            const auto body = static_cast<std::int32_t>(program.steps(other).size());
            task.lane = step.lane;
            task.target = (segment - other.first) / other.stride * body + step.step + 1;
            break;
          }
        }
        tasks.tasks.push_back(task);
      }
    }
  }
  std::sort(posting_.begin(), posting_.end());
  posting_.erase(std::unique(posting_.begin(), posting_.end()), posting_.end());
}

// A combine also does the division that follows it, and stores for the sends behind that: into the outputs of peers
// where they have landed, into queues where there is room.
void Operation::fuse_what_follows(Task& task, std::span<const Step> following, std::int32_t segment) {
  task.first_landing = static_cast<std::int32_t>(landings_.size());
  std::size_t next = 0;
  const Place place = following.data()[-1].to;
  if (next < following.size() && following[next].action == Action::scale && following[next].to == place) {
    task.contributors = contributors_;
    ++next;
  }
  const auto offset = plan_.extent(place.chunk, segment).begin * static_cast<std::int64_t>(size_of(plan_.call.dtype));
  task.first_send = static_cast<std::int32_t>(next) + 1;
  for (; next < following.size() && following[next].action == Action::send && following[next].from == place; ++next) {
    if (begins_run(following, next)) break;
    if (following[next].landed) landings_.push_back({following[next].peer, static_cast<std::ptrdiff_t>(offset)});
    ++task.sends;
  }
  task.landings = static_cast<std::int32_t>(landings_.size()) - task.first_landing;
}

template <class Part>
auto Operation::guarded(Part part) {
  try {
    return part();
  } catch (const SignatureMismatch& mismatch) {
    memory_->fail("the ranks call different collectives");
    memory_->raise_mismatch(mismatch.peer);
  } catch (const std::exception& error) {
    memory_->fail(error.what());
    throw;
  }
}

bool Operation::start() {
  const Board& own = memory_->board(memory_->rank());
  const RankState state = own.state.load(std::memory_order_relaxed);
  if (state == RankState::departed) throw UsageError(signature_text_ + ": the communicator is closed");
  if (state != RankState::running)
    throw TransportError(std::string("this world ended with an earlier failure: ") + own.failure);
  if (!bound_) throw UsageError(signature_text_ + ": it has no buffers since they were last changed in vain");
  for (LaneTasks& lane : lanes_) lane.next = 0;
  memory_->enter(signature_, signature_text_, bases_[index_of(Buffer::out)]);
  return guarded([this] {
    for (int idle = 0; idle < patience_; ++idle) {
      const Walk walked = walk();
      if (walked.done && released()) return true;
      if (walked.progress)
        idle = 0;
      else
        Waiter::pause();
    }
    return false;
  });
}

void Operation::finish() {
  guarded([this] {
    Waiter waiter(*memory_, signature_);
    for (;;) {
      const Walk walked = walk();
      if (walked.done) break;
      if (walked.progress)
        waiter.progress();
      else
        waiter.idle([this] { return describe(); });
    }
    for (const auto& [outbox, peer] : posting_) {
      waiter.progress();
      while (!outbox->released())
        waiter.idle(
            [this, peer] { return Waiting{peer, plan_.signature() + ", until it has taken the last message"}; });
    }
  });
}

Operation::Walk Operation::walk() {
  Walk walked;
  for (LaneTasks& lane : lanes_) {
    if (lane.next == lane.tasks.size()) continue;
    walked.progress |= advance(lane);
    walked.done &= lane.next == lane.tasks.size();
  }
  return walked;
}

bool Operation::released() const {
  return std::all_of(posting_.begin(), posting_.end(), [](const auto& posted) { return posted.first->released(); });
}

bool Operation::advance(LaneTasks& lane) {
  const std::size_t before = lane.next;
  const std::size_t end = lane.tasks.size();
  while (lane.next < end && attempt(lane, lane.tasks[lane.next])) ++lane.next;
  return lane.next != before;
}

bool Operation::try_send(Task& task) {
  if (task.filled) {
    task.filled = false;
  } else if (task.posted) {
    if (!task.outbox->has_room(0)) return false;
    task.outbox->post(task.from, short_signature_);
    return true;
  } else {
    const std::size_t bytes = task.landed ? 0 : task.bytes;
    if (!task.outbox->has_room(bytes)) return false;
    copy(task.outbox->claim(bytes), task.from, bytes, false);
  }
  task.outbox->publish(short_signature_);
  return true;
}

bool Operation::attempt(LaneTasks& lane, Task& task) {
  if (task.joined) return true;
  switch (task.action) {
    case Action::send: return try_send(task);
    case Action::recv: {
      const void* message = task.inbox->peek(task.landed ? 0 : task.bytes, short_signature_);
      if (message == nullptr) return false;
      if (!task.landed) copy(task.to, message, task.bytes, streaming_);
      task.inbox->take();
      return true;
    }
    case Action::recv_reduce: {
      const void* message = task.inbox->peek(task.bytes, short_signature_);
      if (message == nullptr) return false;
      kernels_->reduce(task.to, task.to, message, task.count, streaming_);
      task.inbox->take();
      return true;
    }
    case Action::copy: copy(task.to, task.from, task.bytes, streaming_); return true;
    case Action::reduce: kernels_->reduce(task.to, task.to, task.from, task.count, streaming_); return true;
    case Action::combine: return try_combine(lane, task);
    case Action::scale:
      if (task.count > 0) kernels_->scale(task.to, task.count, contributors_);
      return true;
    case Action::wait: return task.outbox->released();
    case Action::after:
      return lanes_[static_cast<std::size_t>(task.lane)].next >= static_cast<std::size_t>(task.target);
  }
  return false;
}

bool Operation::try_combine(LaneTasks& lane, const Task& task) {
  const auto inputs =
      std::span(inputs_).subspan(static_cast<std::size_t>(task.first_input), static_cast<std::size_t>(task.inputs));
  for (; lane.ready_inputs < task.inputs; ++lane.ready_inputs) {
    const auto index = static_cast<std::size_t>(lane.ready_inputs);
    const Input& input = inputs[index];
    lane.pointers[index] = input.inbox == nullptr ? input.place : input.inbox->peek(task.bytes, short_signature_);
    if (lane.pointers[index] == nullptr && input.inbox != nullptr) return false;
  }
  std::size_t outputs = 0;
  lane.outputs[outputs++] = task.to;
  for (std::int32_t landing = 0; landing < task.landings; ++landing) {
    const auto& [peer, offset] = landings_[static_cast<std::size_t>(task.first_landing + landing)];
    std::byte* output = memory_->output_of(peer, signature_);
    if (output == nullptr) return false;
    lane.outputs[outputs++] = output + offset;
  }
  const std::size_t streamed = streaming_ ? outputs : 0;  // what lies in a queue is read again at once
  Task* const sends = lane.tasks.data() + lane.next + static_cast<std::size_t>(task.first_send);
  for (Task& send : std::span(sends, static_cast<std::size_t>(task.sends))) {
    // Only where there is room now: to wait for it here, with a message in hand, could close a circle.
    if (send.landed || send.posted || !send.outbox->has_room(send.bytes)) continue;
    lane.outputs[outputs++] = send.outbox->claim(send.bytes);
    send.filled = true;
  }
  lane.ready_inputs = 0;
  kernels_->combine(lane.outputs.data(), static_cast<int>(outputs), lane.pointers.data(), task.inputs, task.count,
                    task.contributors, static_cast<int>(streamed));
  for (const Input& input : inputs)
    if (input.inbox != nullptr) input.inbox->take();
  return true;
}

Waiting Operation::describe() const {
  const Program& program = plan_.schedule.programs[static_cast<std::size_t>(memory_->rank())];
  for (std::size_t index = 0; index < lanes_.size(); ++index) {
    const LaneTasks& lane = lanes_[index];
    if (lane.next == lane.tasks.size()) continue;
    const auto steps = program.steps(program.lanes[index]);
    const Step& step = steps[lane.next % steps.size()];
    if (step.action == Action::after) continue;  // another lane says what it waits for
    Waiting waiting{step.peer, plan_.signature() + ", lane " + std::to_string(index) + ", step " +
                                   std::to_string(lane.next % steps.size()) + " (" + text_of(program, step) + ")"};
    if (step.action == Action::combine && lane.ready_inputs < step.operands)  // else for a peer to enter
      waiting.peer = program.operands_of(step)[static_cast<std::size_t>(lane.ready_inputs)].peer;
    return waiting;
  }
  return {-1, plan_.signature()};
}

}  // namespace pycomm
