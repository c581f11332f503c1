// Task graphs and schedules, run by the simulators.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <string>

#include "algorithms/registry.hpp"
#include "base/error.hpp"
#include "bind/register.hpp"
#include "simulate/network.hpp"
#include "simulate/tasks.hpp"

namespace py = pybind11;

namespace pycomm::bind {

namespace {

template <typename Value>
using Array = py::array_t<Value, py::array::c_style | py::array::forcecast>;

template <typename Value>
std::vector<Value> copy_of(const Array<Value>& array) {
  return {array.data(), array.data() + array.size()};
}

// A read-only view of `values`, which live as long as `owner`.
template <typename Value>
py::array_t<Value> view(const std::vector<Value>& values, const py::object& owner) {
  py::array_t<Value> array({static_cast<py::ssize_t>(values.size())}, {static_cast<py::ssize_t>(sizeof(Value))},
                           values.data(), owner);
  array.attr("flags").attr("writeable") = false;
  return array;
}

Discipline discipline_from(const std::string& name) {
  if (name == "arrival") return Discipline::arrival;
  if (name == "priority") return Discipline::priority;
  if (name == "shared") return Discipline::shared;
  throw UsageError("unknown discipline '" + name + "': one of arrival, priority, shared");
}

Scope scope_from(const std::string& name) {
  if (name == "worker") return Scope::worker;
  if (name == "host") return Scope::host;
  if (name == "all") return Scope::all;
  throw UsageError("unknown scope '" + name + "': one of worker, host, all");
}

void bind_graph(py::module_& module) {
  py::class_<TaskGraph>(module, "TaskGraph", "Tasks with duration and resource, and the edges between them.")
      .def(py::init([](const Array<double>& duration_s, const Array<std::int32_t>& resource,
                       const Array<std::int32_t>& priority, const Array<std::int64_t>& edge_offsets,
                       const Array<std::int32_t>& edge_targets, const std::vector<std::string>& disciplines) {
             TaskGraph graph{copy_of(duration_s),   copy_of(resource),     copy_of(priority),
                             copy_of(edge_offsets), copy_of(edge_targets), {}};
             for (const std::string& name : disciplines) graph.disciplines.push_back(discipline_from(name));
             return graph;
           }),
           py::kw_only(), py::arg("duration_s"), py::arg("resource"), py::arg("priority"), py::arg("edge_offsets"),
           py::arg("edge_targets"), py::arg("disciplines"))
      .def_property_readonly("tasks", &TaskGraph::tasks)
      .def_property_readonly("duration_s",
                             [](const py::object& self) { return view(self.cast<TaskGraph&>().duration_s, self); })
      .def_property_readonly("resource",
                             [](const py::object& self) { return view(self.cast<TaskGraph&>().resource, self); })
      .def_property_readonly("edge_offsets",
                             [](const py::object& self) { return view(self.cast<TaskGraph&>().edge_offsets, self); })
      .def_property_readonly("edge_targets",
                             [](const py::object& self) { return view(self.cast<TaskGraph&>().edge_targets, self); });

  py::class_<Timeline>(module, "Timeline", "When each task starts and finishes, and what it waited for last.")
      .def_property_readonly("start_s",
                             [](const py::object& self) { return view(self.cast<Timeline&>().start_s, self); })
      .def_property_readonly("finish_s",
                             [](const py::object& self) { return view(self.cast<Timeline&>().finish_s, self); })
      .def_property_readonly("cause", [](const py::object& self) { return view(self.cast<Timeline&>().cause, self); })
      .def_property_readonly("cycle", [](const Timeline& self) { return self.cycle; });

  module.def("run_tasks", &run, py::arg("graph"), py::call_guard<py::gil_scoped_release>(),
             "Run a task graph. `cycle` of the result is not empty when tasks wait for each other.");
}

void bind_template(py::module_& module) {
  py::class_<Template>(module, "TaskTemplate", "The tasks of one iteration, repeated by `expand`.")
      .def(py::init<>())
      .def(
          "add_resource",
          [](Template& self, const std::string& scope, const std::string& discipline, bool scaled) {
            self.resources.push_back({scope_from(scope), discipline_from(discipline), scaled});
            return self.resources.size() - 1;
          },
          py::arg("scope"), py::arg("discipline") = "arrival", py::arg("scaled") = false)
      .def(
          "add_task",
          [](Template& self, double duration_s, std::int32_t resource, bool of_worker, std::int32_t priority) {
            self.tasks.push_back({duration_s, resource, priority, of_worker});
            return self.tasks.size() - 1;
          },
          py::arg("duration_s"), py::arg("resource") = kNoResource, py::arg("of_worker") = true,
          py::arg("priority") = 0)
      .def(
          "add_edge",
          [](Template& self, std::int32_t from, std::int32_t to, std::int32_t later) {
            self.edges.push_back({from, to, later});
          },
          py::arg("source"), py::arg("target"), py::arg("later") = 0)
      .def(
          "number",
          [](const Template& self, std::int32_t task, std::int32_t workers, std::int32_t worker,
             std::int32_t iteration) {
            if (task < 0 || static_cast<std::size_t>(task) >= self.tasks.size())
              throw UsageError("no task " + std::to_string(task));
            const bool of_worker = self.tasks[static_cast<std::size_t>(task)].of_worker;
            return layout_of(self, workers).number(task, of_worker, workers, worker, iteration);
          },
          py::arg("task"), py::arg("workers"), py::arg("worker"), py::arg("iteration"))
      .def(
          "expand",
          [](const Template& self, std::int32_t workers, std::int32_t iterations, std::int32_t workers_per_host,
             const std::vector<double>& slowness) {
            const py::gil_scoped_release release;
            return expand(self, {workers, workers_per_host, iterations, slowness});
          },
          py::kw_only(), py::arg("workers") = 1, py::arg("iterations") = 1, py::arg("workers_per_host") = 1,
          py::arg("slowness") = std::vector<double>{});
}

using Link = std::vector<std::tuple<double, double, double>>;

std::vector<LinkPiece> link_from(const Link& pieces) {
  std::vector<LinkPiece> link;
  for (const auto& [from_bytes, alpha_s, beta_s_per_byte] : pieces)
    link.push_back({from_bytes, alpha_s, beta_s_per_byte});
  return link;
}

void bind_network(py::module_& module) {
  module.def(
      "simulate_schedule",
      [](const std::string& algorithm, int ranks, const std::vector<std::int64_t>& counts, const Link& between,
         const Link& inside, double gamma_s_per_byte, bool alpha_occupies_port, const std::vector<int>& hosts,
         const Options& options, int segments, int lanes, std::int64_t element_bytes, std::int64_t align) {
        const py::gil_scoped_release release;
        Shape shape;
        shape.ranks = ranks;
        shape.segments = segments;
        shape.lanes = lanes;
        shape.options = options;
        shape.hosts = hosts;
        const Schedule schedule = build(algorithm, shape, kMaxSimulatedRanks);
        const Network network{link_from(between), link_from(inside), gamma_s_per_byte, alpha_occupies_port, hosts};
        std::vector<ScheduleTimes> times;
        for (std::int64_t count : counts) times.push_back(simulate(schedule, {count, element_bytes, align}, network));
        std::vector<std::tuple<std::vector<double>, std::vector<std::int64_t>, std::vector<std::int64_t>>> result;
        for (ScheduleTimes& time : times)
          result.emplace_back(std::move(time.finish_s), std::move(time.sent_bytes), std::move(time.received_bytes));
        return result;
      },
      py::kw_only(), py::arg("algorithm"), py::arg("ranks"), py::arg("counts"), py::arg("between"),
      py::arg("inside") = Link{}, py::arg("gamma_s_per_byte") = 0.0, py::arg("alpha_occupies_port") = false,
      py::arg("hosts") = std::vector<int>{}, py::arg("options") = Options{}, py::arg("segments") = 1,
      py::arg("lanes") = 1, py::arg("element_bytes") = 4, py::arg("align") = 1,
      "Time an all-reduce of the registry for each count: (finish_s, sent_bytes, received_bytes), each a rank.\n\n"
      "Links are pieces (from_bytes, alpha_s, beta_s_per_byte); see csrc/simulate/network.hpp.");
}

}  // namespace

void register_simulate(py::module_& module) {
  bind_graph(module);
  bind_template(module);
  bind_network(module);
}

}  // namespace pycomm::bind
