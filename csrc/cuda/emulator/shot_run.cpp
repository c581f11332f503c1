#include "cuda/emulator/shot_run.hpp"

#include <algorithm>

#include "cuda/status.hpp"

namespace pycomm::emulator {

namespace {

char* make_inbox(Machine& machine, const ShotCase& given, std::int32_t rank) {
  const device::ShotLayout& layout = given.layout;
  const auto bytes = static_cast<std::size_t>(layout.inbox_bytes());
  auto* inbox = static_cast<char*>(machine.memory().allocate(rank, bytes, "inbox of rank " + std::to_string(rank)));
  const auto flags = static_cast<std::size_t>(layout.flags_end());
  machine.memory().fill(inbox, 0, flags);
  const auto set = [&](std::int64_t at, std::uint64_t value) { machine.memory().write(inbox + at, &value, 8); };
  for (std::int64_t flag = 0; flag < layout.calls(); flag += 128) set(flag, given.first_call);
  for (std::int32_t block = 0; block < layout.blocks; ++block) set(layout.calls() + 8 * block, given.first_call);
  if (bytes > flags && (layout.form == device::Form::line || given.first_call > 0))
    machine.memory().fill(inbox + flags, given.first_call > 0 ? 0xEE : 0, bytes - flags);
  return inbox;
}

std::string run_shot(Machine& machine, const ShotCase& given, std::uint64_t seed, Mutation mutation) {
  machine.reset(seed, mutation);
  Memory& memory = machine.memory();
  const std::int32_t ranks = given.layout.ranks;
  std::vector<char*> inboxes;
  for (std::int32_t rank = 0; rank < ranks; ++rank) inboxes.push_back(make_inbox(machine, given, rank));
  const device::ShotKernel kernel = device::shot_kernel_of(given.layout.shot, given.dtype);
  std::vector<std::vector<char*>> outputs;
  for (const auto& call : given.inputs) {
    outputs.emplace_back();
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
      const Bytes& input = call[static_cast<std::size_t>(rank)];
      const std::size_t shift = static_cast<std::size_t>(given.shift) * size_of(given.dtype);
      const std::string name = " of rank " + std::to_string(rank) + ", call " + std::to_string(outputs.size() - 1);
      auto* in = static_cast<char*>(memory.allocate(rank, input.size() + shift, "in" + name)) + shift;
      if (!input.empty()) memory.write(in, input.data(), input.size());
      char* out = in;
      if (!given.in_place) out = static_cast<char*>(memory.allocate(rank, input.size() + shift, "out" + name)) + shift;
      outputs.back().push_back(out);
      if (rank == given.silent_rank) continue;
      const device::ShotArguments arguments{given.layout, inboxes.data(), in, out, rank, given.op, given.patience};
      machine.launch(rank, static_cast<std::uint32_t>(given.layout.blocks), given.threads, [=] { kernel(arguments); });
    }
  }
  try {
    machine.run();
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
      std::uint64_t status = 0;
      memory.read(&status, inboxes[static_cast<std::size_t>(rank)] + given.layout.status(), sizeof status);
      if (status != 0) return "rank " + std::to_string(rank) + " gave up waiting for " + device::describe(status);
    }
    for (std::size_t call = 0; call < outputs.size(); ++call)
      for (std::size_t rank = 0; rank < outputs[call].size(); ++rank) {
        const Bytes& expected = given.expected[call][rank];
        Bytes found(expected.size());
        memory.read(found.data(), outputs[call][rank], found.size());
        const auto wrong = std::mismatch(found.begin(), found.end(), expected.begin()).first;
        if (wrong != found.end())
          return "call " + std::to_string(call) + ", rank " + std::to_string(rank) + ": element " +
                 std::to_string(static_cast<std::size_t>(wrong - found.begin()) / size_of(given.dtype)) + " is wrong";
      }
  } catch (const Fault& fault) {
    return fault.what();
  }
  return {};
}

}  // namespace

Outcome try_shot(const ShotCase& given, std::uint64_t first, std::uint32_t seeds, Mutation mutation,
                 bool stop_at_failure) {
  Machine machine(first);
  return try_seeds(first, seeds, stop_at_failure,
                   [&](std::uint64_t seed) { return run_shot(machine, given, seed, mutation); });
}

}  // namespace pycomm::emulator
