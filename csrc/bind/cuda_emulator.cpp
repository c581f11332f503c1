// The Python module pycomm._emulator: the CUDA kernels on this machine's CPU, under chosen interleavings. For tests.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "algorithms/registry.hpp"
#include "bind/register.hpp"
#include "cuda/choose.hpp"
#include "cuda/emulator/engine_run.hpp"
#include "cuda/emulator/litmus.hpp"
#include "cuda/emulator/pack_run.hpp"
#include "cuda/emulator/shot_run.hpp"

namespace py = pybind11;

namespace pycomm::bind {

namespace {

using emulator::Bytes;
using emulator::EngineCase;
using emulator::Mutation;
using emulator::Outcome;

// One bytes object a call and rank.
using Buffers = std::vector<std::vector<py::bytes>>;

std::vector<Bytes> bytes_of(const std::vector<py::bytes>& given) {
  std::vector<Bytes> result;
  for (const py::bytes& buffer : given) {
    const std::string_view view = buffer;
    result.emplace_back(view.begin(), view.end());
  }
  return result;
}
std::vector<std::vector<Bytes>> bytes_of(const Buffers& given) {
  std::vector<std::vector<Bytes>> result;
  for (const auto& call : given) result.push_back(bytes_of(call));
  return result;
}

device::Form form_from(const std::string& name) {
  if (name == "line") return device::Form::line;
  if (name == "bulk") return device::Form::bulk;
  throw UsageError("unknown form '" + name + "': one of line, bulk");
}

Mutation mutation_from(const std::string& name) {
  if (name.empty()) return Mutation::none;
  if (name == "no_fence") return Mutation::no_fence;
  if (name == "no_acquire") return Mutation::no_acquire;
  if (name == "torn_line") return Mutation::torn_line;
  if (name == "no_barrier") return Mutation::no_barrier;
  if (name == "no_fence_to_async") return Mutation::no_fence_to_async;
  if (name == "no_fence_from_async") return Mutation::no_fence_from_async;
  if (name == "no_wait") return Mutation::no_wait;
  if (name == "read_wait") return Mutation::read_wait;
  if (name == "no_stage_wait") return Mutation::no_stage_wait;
  if (name == "no_load_wait") return Mutation::no_load_wait;
  throw UsageError("unknown mutation '" + name + "'");
}

EngineCase engine_case(const std::string& algorithm, const Options& options, const std::string& collective, int ranks,
                       int root, int segments, int lanes, bool in_place, const std::string& dtype,
                       const std::string& op, std::int64_t count, const std::string& form, const Buffers& inputs,
                       const Buffers& expected, int shift, std::uint32_t threads, std::int32_t stage_bytes,
                       std::uint64_t first_call, std::uint64_t patience, int silent_rank) {
  Shape shape;
  shape.collective = collective_from(collective);
  shape.ranks = ranks;
  shape.segments = segments;
  shape.lanes = lanes;
  shape.in_place = in_place;
  shape.root = root;
  shape.options = options;
  EngineCase made{
      .plan = device::make_device_plan(build(algorithm, shape), dtype_from(dtype), count, form_from(form)),
      .op = op_from(op),
      .inputs = bytes_of(inputs),
      .expected = bytes_of(expected),
      .shift = shift,
      .threads = threads,
      .stage_bytes = stage_bytes,
      .first_call = first_call,
      .patience = patience,
      .silent_rank = silent_rank,
  };
  for (const auto* buffers : {&made.inputs, &made.expected})
    for (const auto& call : *buffers)
      if (call.size() != static_cast<std::size_t>(ranks)) throw UsageError("a call needs one buffer a rank");
  if (made.inputs.size() != made.expected.size()) throw UsageError("expected: one list a call");
  return made;
}

}  // namespace

}  // namespace pycomm::bind

PYBIND11_MODULE(_emulator, module) {
  using namespace pycomm;
  using namespace pycomm::bind;
  module.doc() = "the CUDA kernels on the CPU, one thread at a time, in an order that a seed chooses";
  register_errors(module);

  py::class_<Outcome>(module, "Outcome")
      .def_readonly("seeds", &Outcome::seeds)
      .def_readonly("failed", &Outcome::failed)
      .def_readonly("first_failed_seed", &Outcome::first_failed_seed)
      .def_readonly("first_failure", &Outcome::first_failure);

  module.def("litmus_names", &emulator::litmus_names);
  module.def("run_litmus", &emulator::run_litmus, py::arg("name"), py::arg("seed"));
  module.def("algorithms", [] {
    std::vector<std::pair<std::string, std::vector<std::string>>> rows;  // name, collectives
    for (const AlgorithmRow& row : registry()) {
      rows.emplace_back(row.name, std::vector<std::string>{});
      for (const Variant& variant : row.variants) rows.back().second.emplace_back(name_of(variant.collective));
    }
    return rows;
  });

  module.def(
      "attempt_pack",
      [](const std::string& to, const std::string& from, bool to_buffer, double factor, std::int64_t count,
         const std::vector<std::int64_t>& begins, const std::vector<py::bytes>& inputs,
         const std::vector<py::bytes>& expected, int shift, std::uint32_t blocks, std::uint32_t threads,
         std::uint64_t first_seed, std::uint32_t seeds) {
        const emulator::PackCase given{dtype_from(to),   dtype_from(from),   to_buffer, factor, count,  begins,
                                       bytes_of(inputs), bytes_of(expected), shift,     blocks, threads};
        py::gil_scoped_release release;
        return emulator::try_pack(given, first_seed, seeds);
      },
      py::kw_only(), py::arg("to"), py::arg("from_"), py::arg("to_buffer"), py::arg("factor"), py::arg("count"),
      py::arg("begins"), py::arg("inputs"), py::arg("expected"), py::arg("shift"), py::arg("blocks"),
      py::arg("threads"), py::arg("first_seed"), py::arg("seeds"));

  module.def(
      "attempt_shot",
      [](const std::string& shot, const std::string& form, int ranks, int blocks, const std::string& dtype,
         const std::string& op, bool in_place, const Buffers& inputs, const Buffers& expected, int shift,
         std::uint32_t threads, std::uint64_t first_call, std::uint64_t patience, int silent_rank,
         std::uint64_t first_seed, std::uint32_t seeds, const std::string& mutation) {
        emulator::ShotCase given;
        given.inputs = bytes_of(inputs);
        given.expected = bytes_of(expected);
        given.layout = {shot == "one" ? device::Shot::one : device::Shot::two, form_from(form), ranks, blocks,
                        static_cast<std::int64_t>(given.inputs.at(0).at(0).size())};
        given.dtype = dtype_from(dtype);
        given.op = op_from(op);
        given.in_place = in_place;
        given.shift = shift;
        given.threads = threads;
        given.first_call = first_call;
        given.patience = patience;
        given.silent_rank = silent_rank;
        const Mutation chosen = mutation_from(mutation);
        py::gil_scoped_release release;
        return emulator::try_shot(given, first_seed, seeds, chosen, true);
      },
      py::kw_only(), py::arg("shot"), py::arg("form"), py::arg("ranks"), py::arg("blocks"), py::arg("dtype"),
      py::arg("op"), py::arg("in_place"), py::arg("inputs"), py::arg("expected"), py::arg("shift") = 0,
      py::arg("threads") = 4, py::arg("first_call") = 0, py::arg("patience") = 10'000'000, py::arg("silent_rank") = -1,
      py::arg("first_seed") = 0, py::arg("seeds") = 1, py::arg("mutation") = "");

  module.def(
      "refusal",
      [](const std::string& algorithm, const std::string& collective, int ranks, const Options& options) {
        Shape shape;
        shape.collective = collective_from(collective);
        shape.ranks = ranks;
        shape.options = options;
        return refusal(algorithm_row(algorithm), shape).value_or("");
      },
      py::arg("algorithm"), py::arg("collective"), py::arg("ranks"), py::arg("options"));
  module.def(
      "choose",
      [](const std::string& algorithm, int ranks, const std::string& dtype, std::int64_t count,
         std::int64_t queue_bytes, int lanes) {
        Shape shape;
        shape.ranks = ranks;
        const device::DevicePlan plan =
            device::choose_device_plan(algorithm, shape, dtype_from(dtype), count, {queue_bytes, lanes});
        std::size_t most_in = 0, most_lanes = 0;
        for (const device::RankPlan& rank : plan.ranks) {
          most_in = std::max(most_in, rank.in.size());
          most_lanes = std::max(most_lanes, rank.lanes.size());
        }
        const auto queues = static_cast<std::int64_t>(most_in) * device::slots_of(plan.form) * plan.slot_bytes;
        return py::dict(py::arg("form") = plan.form == device::Form::line ? "line" : "bulk",
                        py::arg("segments") = plan.schedule.segments, py::arg("lanes") = most_lanes,
                        py::arg("slot_bytes") = plan.slot_bytes, py::arg("queue_bytes") = queues);
      },
      py::arg("algorithm"), py::arg("ranks"), py::arg("dtype"), py::arg("count"), py::arg("queue_bytes"),
      py::arg("lanes"));

  py::class_<EngineCase>(module, "EngineCase")
      .def(py::init(&engine_case), py::kw_only(), py::arg("algorithm"), py::arg("options") = Options{},
           py::arg("collective") = "allreduce", py::arg("ranks"), py::arg("root") = 0, py::arg("segments") = 1,
           py::arg("lanes") = 1, py::arg("in_place") = false, py::arg("dtype") = "float32", py::arg("op") = "sum",
           py::arg("count"), py::arg("form"), py::arg("inputs"), py::arg("expected"), py::arg("shift") = 0,
           py::arg("threads") = 4, py::arg("stage_bytes") = 0, py::arg("first_call") = 0,
           py::arg("patience") = 10'000'000, py::arg("silent_rank") = -1)
      .def(
          "attempt",
          [](const EngineCase& given, std::uint64_t first_seed, std::uint32_t seeds, const std::string& mutation,
             bool stop_at_failure) {
            const Mutation chosen = mutation_from(mutation);
            py::gil_scoped_release release;
            return emulator::try_engine(given, first_seed, seeds, chosen, stop_at_failure);
          },
          py::arg("first_seed"), py::arg("seeds"), py::arg("mutation") = "", py::arg("stop_at_failure") = true);
}
