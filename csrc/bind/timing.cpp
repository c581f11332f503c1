// _core.Runnable, _core.time_loop and _core.clock_tick_ns.
#include <pybind11/numpy.h>

#include "bind/register.hpp"
#include "timing/loop.hpp"

namespace py = pybind11;

namespace pycomm::bind {

namespace {

using Samples = py::array_t<std::int64_t, py::array::c_style>;

void time_loop_into(Runnable& operation, Runnable& barrier, bool barrier_each, Samples& samples_ns,
                    std::int64_t batch) {
  const std::span<std::int64_t> samples(samples_ns.mutable_data(), static_cast<std::size_t>(samples_ns.size()));
  const py::gil_scoped_release released;
  time_loop(operation, barrier, barrier_each, samples, batch);
}

}  // namespace

void register_timing(py::module_& module) {
  py::class_<Runnable>(module, "Runnable", "Anything that can be run again and again.")
      .def("run", &Runnable::run, py::call_guard<py::gil_scoped_release>());
  module.def("time_loop", &time_loop_into, py::arg("operation"), py::arg("barrier"), py::arg("barrier_each"),
             py::arg("samples_ns").noconvert(), py::arg("batch"),
             "Fill samples_ns (int64) with the nanoseconds of `batch` calls each, the barrier outside the sample.");
  module.def("clock_tick_ns", &clock_tick_ns, "The smallest step the clock shows, in nanoseconds.");
}

}  // namespace pycomm::bind
