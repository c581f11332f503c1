// The reduction kernels, for tests and benchmarks: NumPy arrays in, checked, and one call.
#include "reduce/reduce.hpp"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <vector>

#include "bind/register.hpp"

namespace py = pybind11;

namespace pycomm::bind {

namespace {

DType dtype_of(const py::array& array) { return dtype_from(py::str(array.dtype()).cast<std::string>()); }

// The common type and count of contiguous arrays; those written to must be writable.
struct Batch {
  DType dtype;
  std::size_t count;

  explicit Batch(const py::array& first) : dtype(dtype_of(first)), count(static_cast<std::size_t>(first.size())) {}

  void add(const py::array& array, const char* name) const {
    if (dtype_of(array) != dtype || static_cast<std::size_t>(array.size()) != count)
      throw UsageError(std::string(name) + ": found " + std::to_string(array.size()) + " of " +
                       std::string(name_of(dtype_of(array))) + ", wanted " + std::to_string(count) + " of " +
                       std::string(name_of(dtype)));
    if (!(array.flags() & py::array::c_style)) throw UsageError(std::string(name) + ": not contiguous");
  }
  void* output(py::array& array, const char* name) const {
    add(array, name);
    if (!array.writeable()) throw UsageError(std::string(name) + ": read-only");
    return array.mutable_data();
  }
  const void* input(const py::array& array, const char* name) const {
    add(array, name);
    return array.data();
  }
};

Isa isa_from(const std::optional<std::string>& name) {
  if (!name) return best_isa();
  for (Isa isa : {Isa::portable, Isa::avx2, Isa::avx512})
    if (name_of(isa) == *name) return isa;
  throw UsageError("isa: found '" + *name + "', wanted avx512, avx2 or portable");
}

void reduce_arrays(const std::string& op, py::array to, const py::array& a, const py::array& b, bool streaming,
                   const std::optional<std::string>& isa) {
  const Batch batch(to);
  void* output = batch.output(to, "to");
  const void* first = batch.input(a, "a");
  const void* second = batch.input(b, "b");
  const Kernels& chosen = kernels(batch.dtype, op_from(op), isa_from(isa));
  const py::gil_scoped_release release;
  chosen.reduce(output, first, second, batch.count, streaming);
}

void combine_arrays(const std::string& op, std::vector<py::array> to, const std::vector<py::array>& operands,
                    std::int64_t contributors, bool streaming, const std::optional<std::string>& isa) {
  if (to.empty()) throw UsageError("to: found no array, wanted at least 1");
  if (operands.empty()) throw UsageError("operands: found no array, wanted at least 1");
  if (contributors < 0 || (contributors > 0 && op != "avg"))
    throw UsageError("contributors: found " + std::to_string(contributors) + " for " + op +
                     ", wanted 0, or at least 1 with avg");
  const Batch batch(to[0]);
  std::vector<void*> outputs;
  std::vector<const void*> inputs;
  for (py::array& array : to) outputs.push_back(batch.output(array, "to"));
  for (const py::array& array : operands) inputs.push_back(batch.input(array, "operands"));
  const Kernels& chosen = kernels(batch.dtype, op_from(op), isa_from(isa));
  const py::gil_scoped_release release;
  chosen.combine(outputs.data(), static_cast<int>(outputs.size()), inputs.data(), static_cast<int>(inputs.size()),
                 batch.count, contributors, streaming ? static_cast<int>(outputs.size()) : 0);
}

void scale_array(py::array to, std::int64_t contributors, const std::optional<std::string>& isa) {
  if (contributors < 1) throw UsageError("contributors: found " + std::to_string(contributors) + ", wanted at least 1");
  const Batch batch(to);
  void* output = batch.output(to, "to");
  const Kernels& chosen = kernels(batch.dtype, Op::avg, isa_from(isa));
  const py::gil_scoped_release release;
  chosen.scale(output, batch.count, contributors);
}

void copy_array(py::array to, const py::array& from, bool streaming) {
  const Batch batch(to);
  void* output = batch.output(to, "to");
  const void* input = batch.input(from, "from");
  const py::gil_scoped_release release;
  copy(output, input, batch.count * size_of(batch.dtype), streaming);
}

}  // namespace

void register_reduce(py::module_& module) {
  module.def(
      "cpu_isa", [] { return std::string(name_of(best_isa())); },
      "The instruction set the CPU kernels use: avx512, avx2 or portable. PYCOMM_CPU forces one.");
  module.def(
      "cpu_isas",
      [] {
        std::vector<std::string> names;
        for (Isa isa : available_isas()) names.emplace_back(name_of(isa));
        return names;
      },
      "The instruction sets that this CPU runs.");
  const auto none = py::none();
  module.def("reduce_arrays", &reduce_arrays, py::arg("op"), py::arg("to").noconvert(), py::arg("a").noconvert(),
             py::arg("b").noconvert(), py::kw_only(), py::arg("streaming") = false, py::arg("isa") = none,
             "to = a op b, element by element, rounded to the type. Arrays of one type and size.");
  module.def("combine_arrays", &combine_arrays, py::arg("op"), py::arg("to").noconvert(),
             py::arg("operands").noconvert(), py::kw_only(), py::arg("contributors") = 0, py::arg("streaming") = false,
             py::arg("isa") = none,
             "Every array of `to` = the operands joined by op in order, rounded once, then divided by contributors.");
  module.def("scale_array", &scale_array, py::arg("to").noconvert(), py::arg("contributors"), py::kw_only(),
             py::arg("isa") = none, "to = to / contributors, the division of avg.");
  module.def("copy_array", &copy_array, py::arg("to").noconvert(), py::arg("source").noconvert(), py::kw_only(),
             py::arg("streaming") = false, "Copies an array; streaming stores past the cache.");
}

}  // namespace pycomm::bind
