// _core.Schedule, _core.Step, build_schedule, prove_algorithm, algorithm_rows: the schedule as data.
#include "schedule/schedule.hpp"

#include <pybind11/stl.h>

#include <algorithm>
#include <utility>

#include "algorithms/prove.hpp"
#include "algorithms/registry.hpp"
#include "base/error.hpp"
#include "bind/register.hpp"
#include "schedule/count.hpp"
#include "schedule/fuse.hpp"
#include "schedule/text.hpp"
#include "schedule/verify.hpp"

namespace py = pybind11;

namespace pycomm::bind {

namespace {

constexpr std::array<const char*, 9> kActions = {"send",    "recv",  "recv_reduce", "copy", "reduce",
                                                 "combine", "scale", "wait",        "after"};
constexpr std::array<const char*, 3> kBuffers = {"in", "out", "tmp"};

using PlaceText = std::pair<std::string, std::int32_t>;  // ("out", 2)

PlaceText place_to_python(Place place) { return {kBuffers[static_cast<std::size_t>(place.buffer)], place.chunk}; }

Place place_from_python(const PlaceText& place) {
  const auto found = std::find(kBuffers.begin(), kBuffers.end(), place.first);
  if (found == kBuffers.end()) throw UsageError("unknown buffer '" + place.first + "': one of in, out, tmp");
  return {static_cast<Buffer>(found - kBuffers.begin()), place.second};
}

// A step with its operands, apart from the program that has it.
struct LooseStep {
  Step step;
  std::vector<Operand> operands;
};

std::vector<LooseStep> body_of(const Schedule& schedule, std::size_t rank, std::size_t body) {
  const Program& program = schedule.programs.at(rank);
  std::vector<LooseStep> steps;
  for (const Step& step : program.bodies.at(body)) {
    steps.push_back({step, {}});
    if (step.action != Action::combine) continue;
    const auto operands = program.operands_of(step);
    steps.back().operands.assign(operands.begin(), operands.end());
  }
  return steps;
}

Schedule with_body(const Schedule& schedule, std::size_t rank, std::size_t body, const std::vector<LooseStep>& steps) {
  Schedule changed = schedule;
  Program& program = changed.programs.at(rank);
  auto& written = program.bodies.at(body);
  written.clear();
  for (const LooseStep& loose : steps) {
    Step step = loose.step;
    if (step.action == Action::combine) {
      step.first_operand = static_cast<std::int32_t>(program.operands.size());
      step.operands = static_cast<std::int32_t>(loose.operands.size());
      program.operands.insert(program.operands.end(), loose.operands.begin(), loose.operands.end());
    }
    written.push_back(step);
  }
  return changed;
}

std::vector<std::tuple<std::int32_t, std::int32_t, std::int32_t>> lanes_of(const Schedule& schedule, std::size_t rank) {
  std::vector<std::tuple<std::int32_t, std::int32_t, std::int32_t>> lanes;
  for (const Lane& lane : schedule.programs.at(rank).lanes) lanes.emplace_back(lane.body, lane.first, lane.stride);
  return lanes;
}

Shape shape_of(const std::string& collective, int ranks, int segments, int lanes, bool in_place, int root,
               const Options& options, std::vector<int> hosts = {}) {
  Shape shape;
  shape.collective = collective_from(collective);
  shape.ranks = ranks;
  shape.segments = segments;
  shape.lanes = lanes;
  shape.in_place = in_place;
  shape.root = root;
  shape.options = options;
  shape.hosts = std::move(hosts);
  return shape;
}

py::dict facts_to_python(const Facts& facts) {
  py::dict dict;
  dict["steps"] = facts.steps;
  dict["messages"] = facts.messages;
  dict["landings"] = facts.landings;
  dict["expressions"] = facts.expressions;
  dict["segments_followed"] = facts.followed;
  dict["calls"] = facts.calls;
  dict["depth"] = facts.depth;
  return dict;
}

py::dict row_to_python(const AlgorithmRow& row) {
  py::dict dict;
  std::vector<std::string> collectives;
  for (const Variant& variant : row.variants) collectives.emplace_back(name_of(variant.collective));
  std::vector<std::tuple<std::string, std::string, int>> options;
  for (const OptionRow& option : row.options) options.emplace_back(option.name, option.summary, option.otherwise);
  dict["name"] = row.name;
  dict["alias"] = row.alias;
  dict["display"] = row.display;
  dict["summary"] = row.summary;
  dict["source"] = row.source;
  dict["collectives"] = collectives;
  dict["options"] = options;
  return dict;
}

void register_step(py::module_& module) {
  py::class_<LooseStep>(module, "Step",
                        "One step of a rank; places are (buffer, chunk), operands (peer, buffer, chunk).")
      .def(py::init<const LooseStep&>())
      .def_property(
          "action", [](const LooseStep& s) { return kActions[static_cast<std::size_t>(s.step.action)]; },
          [](LooseStep& s, const std::string& name) {
            const auto found = std::find(kActions.begin(), kActions.end(), name);
            if (found == kActions.end()) throw UsageError("unknown action '" + name + "'");
            s.step.action = static_cast<Action>(found - kActions.begin());
          })
      .def_property(
          "to", [](const LooseStep& s) { return place_to_python(s.step.to); },
          [](LooseStep& s, const PlaceText& place) { s.step.to = place_from_python(place); })
      .def_property(
          "source", [](const LooseStep& s) { return place_to_python(s.step.from); },
          [](LooseStep& s, const PlaceText& place) { s.step.from = place_from_python(place); })
      .def_property(
          "operands",
          [](const LooseStep& s) {
            std::vector<std::tuple<std::int32_t, std::string, std::int32_t>> operands;
            for (const Operand& operand : s.operands) {
              const auto [buffer, chunk] = place_to_python(operand.place);
              operands.emplace_back(operand.peer, buffer, chunk);
            }
            return operands;
          },
          [](LooseStep& s, const std::vector<std::tuple<std::int32_t, std::string, std::int32_t>>& operands) {
            s.operands.clear();
            for (const auto& [peer, buffer, chunk] : operands)
              s.operands.push_back({peer, place_from_python({buffer, chunk})});
          })
      .def_property(
          "peer", [](const LooseStep& s) { return s.step.peer; },
          [](LooseStep& s, std::int32_t peer) { s.step.peer = peer; })
      .def_property(
          "chunk", [](const LooseStep& s) { return chunk_of(s.step); },
          [](LooseStep& s, std::int32_t chunk) { s.step.chunk = chunk; })
      .def_property(
          "landed", [](const LooseStep& s) { return s.step.landed; },
          [](LooseStep& s, bool landed) { s.step.landed = landed; })
      .def_property(
          "joined", [](const LooseStep& s) { return s.step.joined; },
          [](LooseStep& s, bool joined) { s.step.joined = joined; })
      .def_property_readonly("after", [](const LooseStep& s) { return std::pair(s.step.lane, s.step.step); })
      .def_property_readonly("text", [](const LooseStep& s) {
        Program program;
        program.operands = s.operands;
        Step step = s.step;
        step.first_operand = 0;
        step.operands = static_cast<std::int32_t>(s.operands.size());
        return text_of(program, step);
      });
}

}  // namespace

void register_schedule(py::module_& module) {
  register_step(module);
  const py::call_guard<py::gil_scoped_release> released;
  py::class_<Schedule>(module, "Schedule", "What every rank does, as data.")
      .def_readonly("algorithm", &Schedule::algorithm)
      .def_readonly("options", &Schedule::options)
      .def_property_readonly("collective", [](const Schedule& s) { return name_of(s.collective); })
      .def_readonly("ranks", &Schedule::ranks)
      .def_readonly("workers", &Schedule::workers)
      .def_readonly("root", &Schedule::root)
      .def_readonly("chunks", &Schedule::chunks)
      .def_readonly("in_chunks", &Schedule::in_chunks)
      .def_readonly("out_chunks", &Schedule::out_chunks)
      .def_readonly("tmp_chunks", &Schedule::tmp_chunks)
      .def_readonly("segments", &Schedule::segments)
      .def_readonly("in_place", &Schedule::in_place)
      .def("lanes", &lanes_of, py::arg("rank"), "(body, first segment, stride) of each lane.")
      .def(
          "bodies", [](const Schedule& s, std::size_t rank) { return s.programs.at(rank).bodies.size(); },
          py::arg("rank"))
      .def("body", &body_of, py::arg("rank"), py::arg("body"), "A copy of its steps.")
      .def(
          "with_landings",
          [](const Schedule& s) {
            Schedule landing = s;
            fuse_landings(landing);
            return landing;
          },
          "As the engine runs it where peers can reach the buffers.")
      .def("with_body", &with_body, py::arg("rank"), py::arg("body"), py::arg("steps"), "A copy with other steps.")
      .def(
          "verify",
          [](const Schedule& s, bool all) {
            Facts facts;
            {
              const py::gil_scoped_release unlocked;
              facts = verify(s, all ? Depth::all : Depth::kinds);
            }
            return facts_to_python(facts);
          },
          py::arg("all") = false, "Proves the five facts; `all`: follows every segment, and two calls.")
      .def(
          "counts",
          [](const Schedule& s) {
            const Counts counts = counts_of(s);
            return std::pair(counts.steps, counts.messages);
          },
          "Steps, and messages, of the rank with most.")
      .def(
          "traffic",
          [](const Schedule& s, std::int64_t count, std::int64_t item_bytes) {
            Traffic traffic = traffic_of(s, count, item_bytes);
            return std::pair(std::move(traffic.sent), std::move(traffic.received));
          },
          py::arg("count"), py::arg("item_bytes"), "Bytes sent, and received, by each rank.")
      .def(
          "messages",
          [](const Schedule& s) {
            std::vector<Message> messages;
            {
              const py::gil_scoped_release unlocked;
              messages = messages_of(s);
            }
            py::list list;
            for (const Message& m : messages)
              list.append(py::make_tuple(m.round, m.from, m.to, m.lane, m.segment,
                                         kBuffers[static_cast<std::size_t>(m.source.buffer)], m.chunk, m.adds,
                                         m.chunks));
            return list;
          },
          "(round, sender, receiver, lane, segment, sender's buffer, first chunk, whether the receiver adds it, "
          "chunks), in order.");

  module.def(
      "build_schedule",
      [](const std::string& algorithm, const std::string& collective, int ranks, int segments, int lanes, bool in_place,
         int root, const Options& options, std::vector<int> hosts) {
        return build(algorithm,
                     shape_of(collective, ranks, segments, lanes, in_place, root, options, std::move(hosts)));
      },
      py::arg("algorithm"), py::arg("collective"), py::arg("ranks"), py::arg("segments"), py::arg("lanes"),
      py::arg("in_place"), py::arg("root"), py::arg("options"), py::arg("hosts") = std::vector<int>{}, released);
  module.def(
      "prove_algorithm",
      [](const std::string& algorithm, const std::string& collective, int ranks, int root, const Options& options,
         std::vector<int> hosts) {
        Proof proof;
        {
          const py::gil_scoped_release unlocked;
          proof = prove(algorithm, shape_of(collective, ranks, 1, 1, false, root, options, std::move(hosts)));
        }
        py::dict dict = facts_to_python(proof.facts);
        dict["schedules"] = proof.schedules;
        dict["landings"] = proof.landings;
        dict["schedules_followed"] = proof.followed;
        return dict;
      },
      py::arg("algorithm"), py::arg("collective"), py::arg("ranks"), py::arg("root"), py::arg("options"),
      py::arg("hosts") = std::vector<int>{}, "Proves it out of place and in place, for 1, 2, 3 and 5 segments.");
  module.def("algorithm_rows", [] {
    py::list rows;
    for (const AlgorithmRow& row : registry()) rows.append(row_to_python(row));
    return rows;
  });
  module.def(
      "algorithm_options",
      [](const std::string& algorithm, const Options& options) {
        return canonical_options(algorithm_row(algorithm), options);
      },
      py::arg("algorithm"), py::arg("options"),
      "Their canonical text; raises UsageError for what the row does not have.");
  module.def(
      "algorithm_refusal",
      [](const std::string& algorithm, const std::string& collective, int ranks, const Options& options) {
        return refusal(algorithm_row(algorithm), shape_of(collective, ranks, 1, 1, false, 0, options));
      },
      py::arg("algorithm"), py::arg("collective"), py::arg("ranks"), py::arg("options"),
      "Why it cannot run there, or None.");
}

}  // namespace pycomm::bind
