// The Python module pycomm._cuda. It imports where there is no driver: the CUDA runtime is linked in and looks for the
// driver at the first call.
#include <pybind11/pybind11.h>

#include "bind/register.hpp"

PYBIND11_MODULE(_cuda, module) {
  module.doc() = "the CUDA kernels on GPUs";
  pycomm::bind::register_cuda(module);
}
