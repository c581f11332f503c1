// Packing: NumPy arrays checked against the plan, then one native call without the GIL.
#include "pack/pack.hpp"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "bind/register.hpp"

namespace py = pybind11;

namespace pycomm::bind {

namespace {

using Shape = std::vector<py::ssize_t>;

std::string text_of(const Shape& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

std::vector<std::size_t> counts_of(const std::vector<Shape>& shapes) {
  std::vector<std::size_t> counts;
  for (const Shape& shape : shapes) {
    std::size_t count = 1;
    for (py::ssize_t extent : shape) {
      if (extent < 0) throw UsageError("packing: shape " + text_of(shape) + ": negative");
      if (__builtin_mul_overflow(count, static_cast<std::size_t>(extent), &count) || count > std::size_t{1} << 60)
        throw UsageError("packing: shape " + text_of(shape) + ": too many elements");
    }
    counts.push_back(count);
  }
  return counts;
}

class PackPlan {
 public:
  PackPlan(std::vector<Shape> shapes, const py::dtype& tensor_dtype, const py::dtype& buffer_dtype,
           std::size_t alignment_bytes)
      : shapes_(std::move(shapes)),
        tensor_dtype_(tensor_dtype),
        buffer_dtype_(buffer_dtype),
        packer_(counts_of(shapes_), named(tensor_dtype), named(buffer_dtype), alignment_bytes) {}

  std::size_t count() const { return packer_.count(); }
  std::vector<std::size_t> offsets() const { return packer_.offsets(); }

  void pack(py::array& buffer, const py::sequence& tensors, double factor) const {
    void* target = checked_buffer(buffer, true);
    std::vector<const void*> places;
    for (std::size_t i = 0; i < checked_size(tensors); ++i)
      places.push_back(checked_tensor(tensors, i, buffer, false).data());
    const py::gil_scoped_release release;
    packer_.pack(target, places, factor);
  }

  void unpack(py::array& buffer, const py::sequence& tensors, double factor) const {
    const void* source = checked_buffer(buffer, false);
    std::vector<void*> places;
    for (std::size_t i = 0; i < checked_size(tensors); ++i)
      places.push_back(checked_tensor(tensors, i, buffer, true).mutable_data());
    const py::gil_scoped_release release;
    packer_.unpack(places, source, factor);
  }

 private:
  static std::string name_of_dtype(const py::dtype& dtype) { return py::str(dtype).cast<std::string>(); }
  static DType named(const py::dtype& dtype) { return dtype_from(name_of_dtype(dtype)); }
  static bool same(const py::dtype& found, const py::dtype& wanted) { return found.is(wanted) || found.equal(wanted); }

  std::size_t checked_size(const py::sequence& tensors) const {
    if (tensors.size() != shapes_.size())
      throw UsageError("packing: found " + std::to_string(tensors.size()) + " tensors, wanted " +
                       std::to_string(shapes_.size()));
    return shapes_.size();
  }

  py::array checked_tensor(const py::sequence& tensors, std::size_t index, const py::array& buffer,
                           bool is_output) const {
    const auto name = [index] { return "packing: tensor " + std::to_string(index) + ": "; };
    const py::object item = tensors[index];
    if (!py::isinstance<py::array>(item)) throw UsageError(name() + "not a NumPy array");
    auto array = py::reinterpret_borrow<py::array>(item);
    if (!same(array.dtype(), tensor_dtype_))
      throw UsageError(name() + "found " + name_of_dtype(array.dtype()) + ", wanted " + name_of_dtype(tensor_dtype_));
    const Shape& wanted = shapes_[index];
    const Shape found(array.shape(), array.shape() + array.ndim());
    if (found != wanted) throw UsageError(name() + "found shape " + text_of(found) + ", wanted " + text_of(wanted));
    if (!(array.flags() & py::array::c_style)) throw UsageError(name() + "not contiguous");
    if (is_output && !array.writeable()) throw UsageError(name() + "read-only");
    const auto* begin = static_cast<const char*>(array.data());
    const auto* buffer_begin = static_cast<const char*>(buffer.data());
    if (begin < buffer_begin + buffer.nbytes() && buffer_begin < begin + array.nbytes())
      throw UsageError(name() + "overlaps the buffer");
    return array;
  }

  void* checked_buffer(py::array& buffer, bool is_output) const {
    if (!same(buffer.dtype(), buffer_dtype_))
      throw UsageError("packing: buffer: found " + name_of_dtype(buffer.dtype()) + ", wanted " +
                       name_of_dtype(buffer_dtype_));
    if (buffer.ndim() != 1 || static_cast<std::size_t>(buffer.size()) != packer_.count())
      throw UsageError("packing: buffer: found " + std::to_string(buffer.size()) + " elements in " +
                       std::to_string(buffer.ndim()) + " dimensions, wanted " + std::to_string(packer_.count()) +
                       " in 1");
    if (!(buffer.flags() & py::array::c_style)) throw UsageError("packing: buffer: not contiguous");
    if (is_output && !buffer.writeable()) throw UsageError("packing: buffer: read-only");
    return const_cast<void*>(buffer.data());
  }

  std::vector<Shape> shapes_;
  py::dtype tensor_dtype_, buffer_dtype_;
  Packer packer_;
};

}  // namespace

void register_pack(py::module_& module) {
  py::class_<PackPlan>(module, "PackPlan", "Where tensors lie in a buffer; used by pycomm.GradientPacker.")
      .def(py::init<std::vector<Shape>, py::dtype, py::dtype, std::size_t>(), py::arg("shapes"),
           py::arg("tensor_dtype"), py::arg("buffer_dtype"), py::arg("alignment_bytes"))
      .def_property_readonly("count", &PackPlan::count)
      .def_property_readonly("offsets", &PackPlan::offsets)
      .def("pack", &PackPlan::pack, py::arg("buffer").noconvert(), py::arg("tensors"), py::arg("factor"))
      .def("unpack", &PackPlan::unpack, py::arg("buffer").noconvert(), py::arg("tensors"), py::arg("factor"));
}

}  // namespace pycomm::bind
