// Turns the exceptions of base/error.hpp into the classes of pycomm/errors.py.
#include "base/error.hpp"
#include "bind/register.hpp"

namespace py = pybind11;

namespace pycomm::bind {

namespace {

void raise_as(const char* name, const char* message) {
  const py::object type = py::module_::import("pycomm.errors").attr(name);
  PyErr_SetString(type.ptr(), message);
}

}  // namespace

void register_errors(py::module_&) {
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const UsageError& error) {
      raise_as("UsageError", error.what());
    } catch (const Unavailable& error) {
      raise_as("Unavailable", error.what());
    } catch (const TransportError& error) {
      raise_as("TransportError", error.what());
    } catch (const DeviceError& error) {
      raise_as("DeviceError", error.what());
    } catch (const ScheduleError& error) {
      raise_as("ScheduleError", error.what());
    } catch (const Error& error) {
      raise_as("Error", error.what());
    }
  });
}

}  // namespace pycomm::bind
