// The Python module pycomm._cuda_emulated, for tests: pycomm._cuda compiled against emulated devices.
#include <pybind11/pybind11.h>

#include "bind/register.hpp"
#include "cuda/emulator/runtime/runtime.hpp"

namespace py = pybind11;

PYBIND11_MODULE(_cuda_emulated, module) {
  module.doc() = "pycomm._cuda over devices of the emulator, for tests: see csrc/cuda/emulator/runtime";
  pycomm::bind::register_cuda(module);
  module.def("emulate_devices", &pycomm::emulator::emulate_devices, py::arg("devices"), py::arg("seed") = 0,
             py::arg("processors") = 16, py::arg("major") = 9,
             "From now on there are so many new devices, with nothing on them.");
  module.def("bulk_copies", &pycomm::emulator::bulk_copies, "How many bulk copies kernels have started on them.");
}
