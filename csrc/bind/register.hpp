// The binding functions, one a layer.
#pragma once

#include <pybind11/pybind11.h>

namespace pycomm::bind {

void register_errors(pybind11::module_& module);
void register_schedule(pybind11::module_& module);
void register_engine(pybind11::module_& module);
void register_pack(pybind11::module_& module);
void register_reduce(pybind11::module_& module);
void register_timing(pybind11::module_& module);  // before any layer whose classes are Runnable
void register_simulate(pybind11::module_& module);
void register_cuda(pybind11::module_& module);  // a module of its own

}  // namespace pycomm::bind
