// _core.Runnable, _core.time_loop and _core.clock_tick_ns.
#include <pybind11/numpy.h>

#include <exception>
#include <utility>

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

thread_local std::exception_ptr failure;  // of run(), on its way to pybind11, which makes Python's exception of it

PyObject* raise_failure() {
  static const py::handle rethrow =
      py::cpp_function([] { std::rethrow_exception(std::exchange(failure, nullptr)); }).release();
  return PyObject_CallNoArgs(rethrow.ptr());
}

// Runnable.run. A plain C function, and it keeps Python's lock while it can: to dispatch a call through pybind11, or to
// give the lock up and take it again, costs as much as a small message.
PyObject* run(PyObject* self, PyObject* /*no arguments*/) {
  try {
    auto& runnable = py::cast<Runnable&>(py::handle(self));
    if (!runnable.start()) {
      const py::gil_scoped_release released;
      runnable.finish();
    }
  } catch (...) {
    failure = std::current_exception();
    return raise_failure();
  }
  Py_RETURN_NONE;
}

}  // namespace

void register_timing(py::module_& module) {
  py::class_<Runnable> runnable(module, "Runnable", "Anything that can be run again and again.");
  static PyMethodDef method = {"run", &run, METH_NOARGS, "Run once."};
  runnable.attr("run") =
      py::reinterpret_steal<py::object>(PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(runnable.ptr()), &method));
  module.def("time_loop", &time_loop_into, py::arg("operation"), py::arg("barrier"), py::arg("barrier_each"),
             py::arg("samples_ns").noconvert(), py::arg("batch"),
             "Fill samples_ns (int64) with the nanoseconds of `batch` calls each, the barrier outside the sample.");
  module.def("clock_tick_ns", &clock_tick_ns, "The smallest step the clock shows, in nanoseconds.");
}

}  // namespace pycomm::bind
