#include "cuda/emulator/engine_run.hpp"

#include <algorithm>

#include "cuda/engine.hpp"
#include "cuda/status.hpp"

namespace pycomm::emulator {

namespace {

constexpr std::uint8_t kFront = 0x5A;  // what lies before a shifted buffer, and must stay

std::size_t index_of(std::int32_t i) { return static_cast<std::size_t>(i); }

struct Buffers {  // of one rank and call
  char* in = nullptr;
  char* out = nullptr;
  std::size_t out_bytes = 0;
  std::vector<char*> fronts;
};

char* allocate(Machine& machine, int device, std::size_t bytes, std::size_t shift, const std::string& name,
               Buffers& buffers) {
  auto* base = static_cast<char*>(machine.memory().allocate(device, bytes + shift, name));
  if (shift > 0) machine.memory().fill(base, kFront, shift);
  buffers.fronts.push_back(base);
  return base + shift;
}

Buffers make_buffers(Machine& machine, const EngineCase& given, std::int32_t rank, std::size_t call) {
  const device::DevicePlan& plan = given.plan;
  const Schedule& schedule = plan.schedule;
  Buffers buffers;
  if (!schedule.programs[index_of(rank)].passes_buffers) return buffers;
  const std::size_t item = size_of(plan.dtype), shift = static_cast<std::size_t>(given.shift) * item;
  const std::size_t in_bytes = static_cast<std::size_t>(device::in_count(plan, rank)) * item;
  buffers.out_bytes = static_cast<std::size_t>(device::out_count(plan, rank)) * item;
  const std::string names = "of rank " + std::to_string(rank) + ", call " + std::to_string(call);
  const Bytes& input = given.inputs[call][index_of(rank)];
  if (!schedule.in_place) {
    buffers.in = allocate(machine, rank, in_bytes, shift, "in " + names, buffers);
    buffers.out = allocate(machine, rank, buffers.out_bytes, shift, "out " + names, buffers);
    if (!input.empty()) machine.memory().write(buffers.in, input.data(), input.size());
    return buffers;
  }
  char* whole = allocate(machine, rank, std::max(in_bytes, buffers.out_bytes), shift, "buffer " + names, buffers);
  const std::size_t in_offset = schedule.collective == Collective::allgather ? index_of(rank) * in_bytes : 0;
  const std::size_t out_offset =
      schedule.collective == Collective::reduce_scatter ? index_of(rank) * buffers.out_bytes : 0;
  buffers.in = whole + in_offset;
  buffers.out = whole + out_offset;
  if (!input.empty()) machine.memory().write(whole, input.data(), input.size());
  return buffers;
}

std::string difference(Memory& memory, const Buffers& buffers, const Bytes& expected, std::size_t item,
                       const std::string& where) {
  if (expected.empty()) return {};
  Bytes found(buffers.out_bytes);
  memory.read(found.data(), buffers.out, found.size());
  if (found.size() != expected.size()) return where + ": the test expects another size";
  const auto [wrong, wanted] = std::mismatch(found.begin(), found.end(), expected.begin());
  if (wrong == found.end()) return {};
  return where + ": element " + std::to_string(static_cast<std::size_t>(wrong - found.begin()) / item) + " is wrong";
}

// What one rank's kernel reads besides its buffers; kept until the run is over.
struct Tables {
  device::BoundEdges edges;
  device::EngineArguments arguments;
};

Tables make_tables(const EngineCase& given, std::int32_t rank, const std::vector<char*>& arenas) {
  const device::RankPlan& mine = given.plan.ranks[index_of(rank)];
  Tables tables{device::bind_edges(given.plan, rank, arenas),
                device::arguments_of(given.plan, rank, arenas[index_of(rank)])};
  tables.arguments.steps = mine.steps.data();
  tables.arguments.sources = mine.sources.data();
  tables.arguments.lanes = mine.lanes.data();
  tables.arguments.edges_in = tables.edges.in.data();
  tables.arguments.edges_out = tables.edges.out.data();
  tables.arguments.op = given.op;
  tables.arguments.patience_ns = given.patience;
  tables.arguments.stage_bytes = given.stage_bytes;
  return tables;
}

// An arena as it would be after first_call calls: counters, flags, and in line form lines with old flags.
char* make_arena(Machine& machine, const EngineCase& given, std::int32_t rank) {
  const device::RankPlan& mine = given.plan.ranks[index_of(rank)];
  const device::ArenaLayout& arena = mine.arena;
  Memory& memory = machine.memory();
  auto* base = static_cast<char*>(memory.allocate(rank, arena.bytes, "arena of rank " + std::to_string(rank)));
  memory.fill(base, 0, arena.words);
  const bool used = given.first_call > 0;  // then slots hold what old messages left
  if (arena.tmp > arena.words && (used || given.plan.form == device::Form::line))
    memory.fill(base + arena.words, used ? 0xEE : 0, arena.tmp - arena.words);
  const auto set = [&](std::size_t at, std::uint64_t value) { memory.write(base + at, &value, sizeof value); };
  const auto iterations = [&](const device::EdgePlan& edge) {
    return given.first_call * static_cast<std::uint64_t>(mine.lanes[index_of(edge.lane)].iterations) *
           static_cast<std::uint64_t>(edge.messages);
  };
  for (std::size_t i = 0; i < mine.in.size(); ++i) set(arena.arrived[i], iterations(mine.in[i]));
  for (std::size_t i = 0; i < mine.out.size(); ++i) set(arena.taken[i], iterations(mine.out[i]));
  for (std::size_t i = 0; i < mine.lanes.size(); ++i) {
    const device::DeviceLane& lane = mine.lanes[i];
    set(arena.calls + 8 * i, given.first_call);
    set(arena.progress + 8 * i,
        given.first_call * static_cast<std::uint64_t>(lane.iterations) * static_cast<std::uint64_t>(lane.steps));
  }
  return base;
}

std::string look_at(Machine& machine, const EngineCase& given, const std::vector<char*>& arenas,
                    const std::vector<std::vector<Buffers>>& buffers) {
  const device::DevicePlan& plan = given.plan;
  for (std::int32_t rank = 0; rank < plan.schedule.ranks; ++rank) {
    std::uint64_t status = 0;
    machine.memory().read(&status, arenas[index_of(rank)] + plan.ranks[index_of(rank)].arena.status, sizeof status);
    if (status != 0) return "rank " + std::to_string(rank) + " gave up waiting for " + device::describe(status);
  }
  for (std::size_t call = 0; call < buffers.size(); ++call)
    for (std::int32_t rank = 0; rank < plan.schedule.ranks; ++rank) {
      const Buffers& each = buffers[call][index_of(rank)];
      const std::string where = "call " + std::to_string(call) + ", rank " + std::to_string(rank);
      const std::size_t item = size_of(plan.dtype), shift = static_cast<std::size_t>(given.shift) * item;
      const Bytes front(shift, kFront);
      for (const char* base : each.fronts) {
        Bytes found(shift);
        machine.memory().read(found.data(), base, shift);
        if (found != front) return where + ": bytes before the buffer were written";
      }
      const std::string wrong = difference(machine.memory(), each, given.expected[call][index_of(rank)], item, where);
      if (!wrong.empty()) return wrong;
    }
  return {};
}

}  // namespace

std::string run_engine(Machine& machine, const EngineCase& given, std::uint64_t seed, Mutation mutation) {
  machine.reset(seed, mutation);
  const std::int32_t ranks = given.plan.schedule.ranks;
  std::vector<char*> arenas;
  for (std::int32_t rank = 0; rank < ranks; ++rank) arenas.push_back(make_arena(machine, given, rank));
  std::vector<Tables> tables;
  for (std::int32_t rank = 0; rank < ranks; ++rank) tables.push_back(make_tables(given, rank, arenas));
  std::vector<std::vector<Buffers>> buffers;
  for (std::size_t call = 0; call < given.inputs.size(); ++call) {
    buffers.emplace_back();
    for (std::int32_t rank = 0; rank < ranks; ++rank)
      buffers.back().push_back(make_buffers(machine, given, rank, call));
  }
  const device::EngineKernel kernel = device::engine_kernel_of(given.plan.dtype);
  for (const std::vector<Buffers>& call : buffers)
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
      if (rank == given.silent_rank) continue;
      device::EngineArguments arguments = tables[index_of(rank)].arguments;
      arguments.in = call[index_of(rank)].in;
      arguments.out = call[index_of(rank)].out;
      const auto lanes = static_cast<std::uint32_t>(given.plan.ranks[index_of(rank)].lanes.size());
      const std::uint32_t shared_bytes = device::stage_memory_bytes(given.stage_bytes);
      machine.launch(rank, lanes, given.threads, [=] { kernel(arguments); }, -1, shared_bytes);
    }
  try {
    machine.run();
    return look_at(machine, given, arenas, buffers);
  } catch (const Fault& fault) {
    return fault.what();
  }
}

Outcome try_engine(const EngineCase& given, std::uint64_t first, std::uint32_t seeds, Mutation mutation,
                   bool stop_at_failure) {
  Machine machine(first);
  return try_seeds(first, seeds, stop_at_failure,
                   [&](std::uint64_t seed) { return run_engine(machine, given, seed, mutation); });
}

}  // namespace pycomm::emulator
