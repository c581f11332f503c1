// The Python module pycomm._core. One register_* function a layer, each in its own file.
#include "bind/register.hpp"

PYBIND11_MODULE(_core, module) {
  module.doc() = "pycomm's native layers";
  pycomm::bind::register_errors(module);
  pycomm::bind::register_schedule(module);
  pycomm::bind::register_timing(module);
  pycomm::bind::register_engine(module);
  pycomm::bind::register_reduce(module);
  pycomm::bind::register_pack(module);
  pycomm::bind::register_simulate(module);
}
