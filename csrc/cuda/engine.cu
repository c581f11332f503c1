// The engine kernel: runs one rank's part of any schedule. A block is a lane, all lanes of a rank are resident
// together.
//
// A step is done by all threads of the block and ends with a barrier, after which one thread says what others wait for:
// that a message is in the peer's queue, that a slot is free again, that another lane may go on. A message is copied
// into the receiver's memory at once, so a send holds its place no longer than its step and `wait` has nothing to do.
//
// Messages of an edge are numbered from 0 over all calls: number = (calls × iterations + iteration) × messages an
// iteration + place in the body. Number mod slots is the slot, number + 1 its flag; nothing else is stored between
// calls but the count of calls. In line form a flag has 32 bits; it cannot be mistaken for an older one, since each
// line of a slot is written anew long before 2^32 messages have passed.
#include "cuda/engine.hpp"
#include "cuda/staged_copy.cuh"
#include "cuda/units.cuh"

namespace pycomm::device {

namespace {

struct Position {  // of a lane in its schedule
  std::int32_t lane;
  std::int32_t step;
  std::int32_t segment;
  std::int32_t iteration;
  std::uint64_t calls;
  std::int32_t iterations;
};

__device__ inline void give_up(const EngineArguments& arguments, Position at, Waited::Reason reason, int peer) {
  claim(arguments.status, 0, pack_waited({reason, peer, at.lane, at.step, at.segment}));
}

// One thread: until *flag >= wanted, as signed distance.
template <class Load>
__device__ inline bool wait_for(const std::uint64_t* flag, std::uint64_t wanted, std::uint64_t patience_ns, Load load) {
  Patience patience(patience_ns);
  while (static_cast<std::int64_t>(load(flag) - wanted) < 0)
    if (!patience.more()) return false;
  return true;
}

__device__ inline bool wait_system(const std::uint64_t* flag, std::uint64_t wanted, std::uint64_t patience_ns) {
  return wait_for(flag, wanted, patience_ns, [](const std::uint64_t* at) { return load_acquire_system(at); });
}
__device__ inline bool wait_device(const std::uint64_t* flag, std::uint64_t wanted, std::uint64_t patience_ns) {
  return wait_for(flag, wanted, patience_ns, [](const std::uint64_t* at) { return load_acquire_device(at); });
}

// One thread, for a lane of this rank. A lane that is late may itself be waiting, for a silent peer: it began later, so
// it is given as long again to say for which.
__device__ inline bool wait_lane(const EngineArguments& arguments, std::int32_t lane, std::uint64_t wanted) {
  if (wait_device(arguments.progress + lane, wanted, arguments.patience_ns)) return true;
  Patience patience(arguments.patience_ns);
  while (load_acquire_device(arguments.status) == 0 && patience.more()) {
  }
  return false;
}

__device__ inline std::uint64_t message_number(const Edge& edge, Position at, std::int32_t message) {
  const std::uint64_t iteration =
      at.calls * static_cast<std::uint64_t>(at.iterations) + static_cast<std::uint64_t>(at.iteration);
  return iteration * static_cast<std::uint64_t>(edge.messages) + static_cast<std::uint64_t>(message);
}

__device__ inline char* slot_of(const EngineArguments& arguments, const Edge& edge, std::uint64_t number) {
  const auto slots = static_cast<std::uint64_t>(slots_of(arguments.form));
  return edge.slots + static_cast<std::int64_t>(number % slots) * arguments.slot_bytes;
}

__device__ inline char* base_of(const EngineArguments& arguments, Buffer buffer) {
  if (buffer == Buffer::in) return const_cast<char*>(arguments.in);
  return buffer == Buffer::out ? arguments.out : arguments.tmp;
}

struct Message {        // what a step works on
  std::int64_t offset;  // of the segment in its chunk, bytes
  std::int64_t bytes;
};

// A source with its address found out.
struct Reader {
  const char* from;
  std::uint32_t flag;
  bool lines;
  bool slot;

  // False when it waited too long.
  __device__ bool unit(std::int64_t unit, int bytes, int item, std::uint64_t patience_ns, Pack& value) const {
    if (lines) return load_lines(from, unit, flag, patience_ns, value);
    value = slot ? load_pack(from + unit * kUnitBytes) : load_unit(from + unit * kUnitBytes, bytes, item);
    return true;
  }
};

__device__ inline Reader reader_of(const EngineArguments& arguments, const DeviceLane& lane, const Source& source,
                                   Position at, Message message, int item) {
  if (source.edge < 0)
    return {base_of(arguments, source.buffer) + source.begin * item + message.offset, 0, false, false};
  const Edge& edge = arguments.edges_in[lane.first_in + source.edge];
  const std::uint64_t number = message_number(edge, at, source.message);
  return {slot_of(arguments, edge, number), static_cast<std::uint32_t>(number + 1), arguments.form == Form::line, true};
}

constexpr int kUnroll = 4;  // units a thread has in flight

// Moves a message, from the unit `begin` on, from a source to a place, or to a slot.
__device__ PYCOMM_OUT_OF_LINE bool move_units(Reader reader, char* to, bool to_slot, bool to_lines, std::uint32_t flag,
                                              std::int64_t begin, std::int64_t bytes, int item,
                                              std::uint64_t patience_ns) {
  const std::int64_t units = (bytes + kUnitBytes - 1) / kUnitBytes, threads = thread_count();
  for (std::int64_t first = begin + thread_index(); first < units; first += kUnroll * threads) {
    Pack packs[kUnroll];
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) {
      const std::int64_t unit = first + k * threads;
      if (unit < units && !reader.unit(unit, bytes_of_unit(unit, bytes), item, patience_ns, packs[k])) return false;
    }
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) {
      const std::int64_t unit = first + k * threads;
      if (unit >= units) break;
      if (to_lines)
        store_lines(to, unit, packs[k], flag);
      else if (to_slot)
        store_pack(to + unit * kUnitBytes, packs[k]);
      else
        store_unit(to + unit * kUnitBytes, bytes_of_unit(unit, bytes), item, packs[k]);
    }
  }
  return true;
}

// Returns the source it waited for too long, or -1.
template <DType dtype, Op op>
__device__ std::int32_t combine_units(const EngineArguments& arguments, const DeviceLane& lane, const DeviceStep& step,
                                      Position at, Message message, char* to) {
  using N = Number<dtype>;
  constexpr int item = static_cast<int>(sizeof(typename N::Stored)), elements = 16 / item;
  const std::int64_t units = (message.bytes + kUnitBytes - 1) / kUnitBytes;
  for (std::int64_t unit = thread_index(); unit < units; unit += thread_count()) {
    const int bytes = bytes_of_unit(unit, message.bytes);
    typename N::Wide sum[elements] = {};
    for (std::int32_t i = 0; i < step.sources; ++i) {
      const Reader reader = reader_of(arguments, lane, arguments.sources[step.first_source + i], at, message, item);
      Pack pack;
      if (!reader.unit(unit, bytes, item, arguments.patience_ns, pack)) return i;
      typename N::Stored stored[elements];
      memcpy(stored, &pack, sizeof pack);
#pragma unroll
      for (int k = 0; k < elements; ++k) sum[k] = i == 0 ? N::widen(stored[k]) : apply<op>(sum[k], N::widen(stored[k]));
    }
    typename N::Stored result[elements];
#pragma unroll
    for (int k = 0; k < elements; ++k) result[k] = N::narrow(sum[k]);
    store_unit(to + unit * kUnitBytes, bytes, item, bits_as<Pack>(result));
  }
  return -1;
}

template <DType dtype>
__device__ void scale_units(char* place, std::int64_t bytes, std::int64_t by) {
  using N = Number<dtype>;
  constexpr int item = static_cast<int>(sizeof(typename N::Stored)), elements = 16 / item;
  const std::int64_t units = (bytes + kUnitBytes - 1) / kUnitBytes;
  for (std::int64_t unit = thread_index(); unit < units; unit += thread_count()) {
    const int valid = bytes_of_unit(unit, bytes);
    typename N::Stored stored[elements];
    const Pack pack = load_unit(place + unit * kUnitBytes, valid, item);
    memcpy(stored, &pack, sizeof pack);
#pragma unroll
    for (int k = 0; k < elements; ++k) stored[k] = N::narrow(N::divide(N::widen(stored[k]), by));
    store_unit(place + unit * kUnitBytes, valid, item, bits_as<Pack>(stored));
  }
}

// In bulk form one thread waits until the messages of a step are here. Line form waits in each line.
__device__ inline bool await_arrivals(const EngineArguments& arguments, const DeviceLane& lane, const DeviceStep& step,
                                      Position at) {
  if (arguments.form == Form::line) return true;
  for (std::int32_t i = 0; i < step.sources; ++i) {
    const Source& source = arguments.sources[step.first_source + i];
    if (source.edge < 0) continue;
    const Edge& edge = arguments.edges_in[lane.first_in + source.edge];
    if (!wait_system(edge.arrived, message_number(edge, at, source.message) + 1, arguments.patience_ns)) {
      give_up(arguments, at, Waited::Reason::arrival, edge.peer);
      return false;
    }
  }
  return true;
}

// After the barrier that ends a step: its messages have been read.
__device__ inline void free_slots(const EngineArguments& arguments, const DeviceLane& lane, const DeviceStep& step,
                                  Position at) {
  for (std::int32_t i = 0; i < step.sources; ++i) {
    const Source& source = arguments.sources[step.first_source + i];
    if (source.edge < 0) continue;
    const Edge& edge = arguments.edges_in[lane.first_in + source.edge];
    const std::uint64_t taken = message_number(edge, at, source.message) + 1;
    if (taken % static_cast<std::uint64_t>(taken_every(arguments.form)) == 0) store_release_system(edge.taken, taken);
  }
}

__device__ PYCOMM_OUT_OF_LINE bool send(const EngineArguments& arguments, const DeviceLane& lane,
                                        const DeviceStep& step, Position at, Message message, int item,
                                        StagedCopy& staged) {
  const Edge& edge = arguments.edges_out[lane.first_out + step.edge];
  const std::uint64_t number = message_number(edge, at, step.message);
  const auto slots = static_cast<std::uint64_t>(slots_of(arguments.form));
  bool failed = false;
  if (thread_index() == 0 && !wait_system(edge.taken, number + 1 - slots, arguments.patience_ns)) {
    give_up(arguments, at, Waited::Reason::room, edge.peer);
    failed = true;
  }
  if (barrier_or(failed)) return false;
  const Reader reader = reader_of(arguments, lane, arguments.sources[step.first_source], at, message, item);
  const bool lines = arguments.form == Form::line;
  char* const slot = slot_of(arguments, edge, number);
  const std::int64_t moved = staged.move(reader.from, slot, message.bytes);
  move_units(reader, slot, true, lines, static_cast<std::uint32_t>(number + 1), moved, message.bytes, item,
             arguments.patience_ns);
  barrier();
  if (thread_index() == 0 && !lines) store_release_system(edge.arrived, number + 1);
  return true;
}

template <DType dtype>
__device__ bool receive(const EngineArguments& arguments, const DeviceLane& lane, const DeviceStep& step, Position at,
                        Message message, int item, StagedCopy& staged) {
  if (arguments.form == Form::bulk)
    if (barrier_or(thread_index() == 0 && !await_arrivals(arguments, lane, step, at))) return false;
  char* to = base_of(arguments, step.to) + step.to_begin * item + message.offset;
  std::int32_t late = -1;  // the source that did not come
  if (step.work == Work::move) {
    const Reader reader = reader_of(arguments, lane, arguments.sources[step.first_source], at, message, item);
    const std::int64_t moved = staged.move(reader.from, to, message.bytes);
    if (!move_units(reader, to, false, false, 0, moved, message.bytes, item, arguments.patience_ns)) late = 0;
  } else {
    switch (arguments.op) {
      case Op::prod: late = combine_units<dtype, Op::prod>(arguments, lane, step, at, message, to); break;
      case Op::min: late = combine_units<dtype, Op::min>(arguments, lane, step, at, message, to); break;
      case Op::max: late = combine_units<dtype, Op::max>(arguments, lane, step, at, message, to); break;
      default: late = combine_units<dtype, Op::sum>(arguments, lane, step, at, message, to); break;
    }
  }
  if (late >= 0) {
    const Source& source = arguments.sources[step.first_source + late];
    give_up(arguments, at, Waited::Reason::arrival, arguments.edges_in[lane.first_in + source.edge].peer);
  }
  if (barrier_or(late >= 0)) return false;
  if (thread_index() == 0) free_slots(arguments, lane, step, at);
  return true;
}

// Where the segment of a step lies: from the beginning of its chunk, or of the buffer where segments are cut first.
__device__ inline Extent extent_of(const EngineArguments& arguments, const DeviceStep& step, std::int32_t segment,
                                   std::int64_t align) {
  if (arguments.chunks == 0) return part_of({0, step.chunk_count}, arguments.segments, segment, align);
  const Extent whole = part_of({0, arguments.count}, arguments.segments, segment, align);
  const Extent first = part_of(whole, arguments.chunks, step.chunk, align);
  const Extent last = part_of(whole, arguments.chunks, step.chunk + step.chunks - 1, align);
  return {first.begin, last.begin + last.count - first.begin};
}

// False when the step gave up: then the whole block leaves.
template <DType dtype>
__device__ bool run_step(const EngineArguments& arguments, const DeviceLane& lane, const DeviceStep& step, Position at,
                         StagedCopy& staged) {
  constexpr int item = static_cast<int>(size_of(dtype));
  const Extent extent = extent_of(arguments, step, at.segment, align_of(dtype));
  const Message message{extent.begin * item, extent.count * item};
  bool going = true;
  switch (step.work) {
    case Work::nothing: break;
    case Work::send: going = send(arguments, lane, step, at, message, item, staged); break;
    case Work::move:
    case Work::combine: going = receive<dtype>(arguments, lane, step, at, message, item, staged); break;
    case Work::scale:
      if (arguments.op == Op::avg) {
        char* place = base_of(arguments, step.to) + step.to_begin * item + message.offset;
        scale_units<dtype>(place, message.bytes, arguments.contributors);
        barrier();
      }
      break;
    case Work::after: {
      const DeviceLane& other = arguments.lanes[step.lane];
      const auto iteration = static_cast<std::uint64_t>((at.segment - other.first_segment) / other.stride);
      const std::uint64_t wanted = (at.calls * static_cast<std::uint64_t>(other.iterations) + iteration) *
                                       static_cast<std::uint64_t>(other.steps) +
                                   static_cast<std::uint64_t>(step.step) + 1;
      bool failed = false;
      if (thread_index() == 0 && !wait_lane(arguments, step.lane, wanted)) {
        give_up(arguments, at, Waited::Reason::lane, step.lane);
        failed = true;
      }
      going = !barrier_or(failed);
      break;
    }
  }
  if (going && step.publish && thread_index() == 0) {
    const std::uint64_t done =
        (at.calls * static_cast<std::uint64_t>(lane.iterations) + static_cast<std::uint64_t>(at.iteration)) *
            static_cast<std::uint64_t>(lane.steps) +
        static_cast<std::uint64_t>(at.step) + 1;
    store_release_device(arguments.progress + at.lane, done);
  }
  return going;
}

}  // namespace

template <DType dtype>
__global__ void __launch_bounds__(kEngineThreads) engine_kernel(EngineArguments arguments) {
  const auto index = static_cast<std::int32_t>(block_index());
  const DeviceLane lane = arguments.lanes[index];
  // After a failure the queues hold what nobody knows: later calls end at once.
  if (barrier_or(thread_index() == 0 && load(arguments.status) != 0)) return;
  const std::uint64_t calls = load(arguments.calls + index);
  StagedCopy staged(arguments.form == Form::bulk ? arguments.stage_bytes : 0);
  for (std::int32_t iteration = 0; iteration < lane.iterations; ++iteration) {
    const std::int32_t segment = lane.first_segment + iteration * lane.stride;
    for (std::int32_t step = 0; step < lane.steps; ++step)
      if (!run_step<dtype>(arguments, lane, arguments.steps[lane.first_step + step],
                           {index, step, segment, iteration, calls, lane.iterations}, staged))
        return;
  }
  barrier();  // every thread has read `calls`
  if (thread_index() == 0) store(arguments.calls + index, calls + 1);
}

EngineKernel engine_kernel_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return engine_kernel<DType::f64>;
    case DType::f32: return engine_kernel<DType::f32>;
    case DType::f16: return engine_kernel<DType::f16>;
    case DType::bf16: return engine_kernel<DType::bf16>;
    case DType::i64: return engine_kernel<DType::i64>;
    case DType::i32: return engine_kernel<DType::i32>;
    case DType::i8: return engine_kernel<DType::i8>;
    case DType::u8: return engine_kernel<DType::u8>;
  }
  return nullptr;
}

}  // namespace pycomm::device
