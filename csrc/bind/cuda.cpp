// Devices, their memory, and the operations that run on them, in Python: the whole of pycomm._cuda, and for tests of
// pycomm._cuda_emulated, which is compiled against the emulator's devices.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "bind/register.hpp"
#include "cuda/check.hpp"
#include "cuda/choose.hpp"
#include "cuda/copies.hpp"
#include "cuda/operation.hpp"
#include "cuda/packing.hpp"
#include "engine/runnable.hpp"

namespace py = pybind11;

namespace pycomm::bind {

namespace {

using namespace pycomm::device;  // NOLINT: the layer that is bound

cudaStream_t stream_from(std::uintptr_t stream) { return reinterpret_cast<cudaStream_t>(stream); }
std::uintptr_t address_of(const void* place) { return reinterpret_cast<std::uintptr_t>(place); }

// A stream for Python: a device's own, with the protocol `__cuda_stream__`.
class DeviceStream {
 public:
  explicit DeviceStream(int device) : device_(device) {
    const OnDevice on(device);
    stream_ = std::make_unique<Stream>();
  }
  std::uintptr_t handle() const { return address_of(static_cast<cudaStream_t>(*stream_)); }
  void synchronize() const {
    const OnDevice on(device_);
    check(cudaStreamSynchronize(*stream_), "cudaStreamSynchronize");
  }

 private:
  int device_;
  std::unique_ptr<Stream> stream_;
};

// The bytes of a contiguous host array, no more than `limit`.
std::pair<void*, std::size_t> host_bytes(const py::buffer& array, std::size_t limit, bool writable) {
  const py::buffer_info info = array.request(writable);
  py::ssize_t wanted = info.itemsize;
  for (std::size_t i = info.shape.size(); i-- > 0; wanted *= info.shape[i])
    if (info.shape[i] > 1 && info.strides[i] != wanted) throw UsageError("a host array is not contiguous");
  const auto bytes = static_cast<std::size_t>(info.size * info.itemsize);
  if (bytes > limit)
    throw UsageError("a host array has " + std::to_string(bytes) + " bytes, the device memory " +
                     std::to_string(limit));
  return {info.ptr, bytes};
}

void write_memory(DeviceMemory& memory, const py::buffer& array) {
  const auto [data, bytes] = host_bytes(array, memory.bytes(), false);
  const py::gil_scoped_release release;
  const OnDevice on(memory.device());
  check(cudaMemcpy(memory.data(), data, bytes, cudaMemcpyHostToDevice), "copy to the device");
}

void read_memory(const DeviceMemory& memory, const py::buffer& array) {
  const auto [data, bytes] = host_bytes(array, memory.bytes(), true);
  const py::gil_scoped_release release;
  const OnDevice on(memory.device());
  check(cudaMemcpy(data, memory.data(), bytes, cudaMemcpyDeviceToHost), "copy from the device");
}

std::unique_ptr<EngineOperation> make_engine(int device, const std::string& algorithm, const Options& options,
                                             const std::string& collective, int ranks, int rank, int root,
                                             const std::string& dtype, const std::string& op, std::int64_t count,
                                             bool in_place, double patience_s, int sharing, std::int64_t queue_bytes,
                                             int lanes, bool tma) {
  Shape shape;
  shape.collective = collective_from(collective);
  shape.ranks = ranks;
  shape.root = root;
  shape.in_place = in_place;
  shape.options = options;
  DevicePlan plan = choose_device_plan(algorithm, shape, dtype_from(dtype), count, {queue_bytes, lanes});
  return std::make_unique<EngineOperation>(device, std::move(plan), rank, op_from(op), patience_s, sharing, tma);
}

std::unique_ptr<ShotOperation> make_shot(int device, int hops, int ranks, int rank, const std::string& dtype,
                                         const std::string& op, std::int64_t count, double patience_s, int sharing,
                                         int lanes) {
  const DType type = dtype_from(dtype);
  const ShotLayout layout =
      choose_shot(hops == 1 ? Shot::one : Shot::two, ranks, count * static_cast<std::int64_t>(size_of(type)), lanes);
  return std::make_unique<ShotOperation>(device, layout, type, rank, op_from(op), patience_s, sharing);
}

py::array_t<std::int64_t> array_of(const std::vector<std::int64_t>& values) {
  return py::array_t<std::int64_t>(static_cast<py::ssize_t>(values.size()), values.data());
}
py::tuple tuple_of(const StreamTimes& times) {
  return py::make_tuple(array_of(times.event_ns), array_of(times.host_ns));
}

// A barrier of pycomm._core runs without the interpreter's lock, for which ranks that are threads would stand in line
// as they leave it; any other function of Python is called with it. None: none.
std::function<void()> barrier_from(const py::object& barrier) {
  if (barrier.is_none()) return {};
  if (py::isinstance<Runnable>(barrier)) return [&native = barrier.cast<Runnable&>()] { native.run(); };
  return [&barrier] {
    const py::gil_scoped_acquire acquire;
    barrier();
  };
}

// `launch` is called without the interpreter's lock.
py::tuple time_launches(int device, std::uintptr_t stream, const Sampling& sampling,
                        const std::function<void(cudaStream_t)>& launch) {
  StreamTimes times;
  {
    const py::gil_scoped_release release;
    times = time_stream(device, stream_from(stream), sampling, launch);
  }
  return tuple_of(times);
}

py::tuple time_operation(Operation& operation, std::uintptr_t in, std::uintptr_t out, std::uintptr_t stream,
                         std::size_t samples, std::size_t batch, bool graph, const py::object& barrier,
                         bool barrier_each) {
  const auto launch = [&](cudaStream_t on) {
    operation.launch(reinterpret_cast<const void*>(in), reinterpret_cast<void*>(out), on);
  };
  const Sampling sampling{samples, batch, graph, barrier_from(barrier), barrier_each};
  return time_launches(operation.arena().device(), stream, sampling, launch);
}

py::tuple time_packer(DevicePacker& packer, int device, std::uintptr_t buffer,
                      const std::vector<std::uintptr_t>& tensors, double factor, bool to_buffer, std::size_t samples,
                      std::size_t batch) {
  const auto launch = [&](cudaStream_t on) {
    auto* const place = reinterpret_cast<void*>(buffer);
    if (to_buffer)
      packer.pack(place, tensors, factor, on);
    else
      packer.unpack(place, tensors, factor, on);
  };
  const DeviceStream stream(device);
  return time_launches(device, stream.handle(), {.samples = samples, .batch = batch}, launch);
}

py::tuple time_calls(int device, std::uintptr_t stream, const py::function& call, std::size_t samples,
                     std::size_t batch, bool graph, const py::object& barrier, bool barrier_each) {
  const auto launch = [&](cudaStream_t on) {
    const py::gil_scoped_acquire acquire;
    call(address_of(on));
  };
  return time_launches(device, stream, {samples, batch, graph, barrier_from(barrier), barrier_each}, launch);
}

void connect(Operation& operation, const std::vector<std::uintptr_t>& arenas) {
  std::vector<char*> places;
  for (const std::uintptr_t arena : arenas) places.push_back(reinterpret_cast<char*>(arena));
  operation.connect(places);
}

void register_devices(py::module_& module) {
  module.def("missing_device", &missing_device, "Why no device can be used here; empty if one can.");
  module.def("runtime_version", [] { return CUDART_VERSION; });
  module.def("devices", [] {
    py::list result;
    for (const DeviceInfo& each : list_devices())
      result.append(py::dict(py::arg("name") = each.name, py::arg("uuid") = py::bytes(each.uuid),
                             py::arg("major") = each.major, py::arg("minor") = each.minor,
                             py::arg("processors") = each.processors, py::arg("memory_bytes") = each.memory_bytes));
    return result;
  });
  module.def(
      "device_of", [](std::uintptr_t address) { return device_of(reinterpret_cast<const void*>(address)); },
      py::arg("address"));
  module.def("enable_peer_access", &enable_peer_access, py::arg("device"), py::arg("peer"));
  // Local to the module: pycomm._cuda_emulated has classes of the same names.
  py::class_<DeviceStream>(module, "DeviceStream", py::module_local())
      .def(py::init<int>(), py::arg("device"))
      .def("__cuda_stream__", [](const DeviceStream& stream) { return py::make_tuple(0, stream.handle()); })
      .def("synchronize", &DeviceStream::synchronize, py::call_guard<py::gil_scoped_release>());
  py::class_<DeviceMemory>(module, "DeviceMemory", py::module_local())
      .def(py::init<int, std::size_t>(), py::arg("device"), py::arg("bytes"), py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("device", &DeviceMemory::device)
      .def_property_readonly("bytes", &DeviceMemory::bytes)
      .def_property_readonly("address", [](const DeviceMemory& memory) { return address_of(memory.data()); })
      .def("handle", [](const DeviceMemory& memory) { return py::bytes(memory.handle()); })
      .def("write", &write_memory, py::arg("array"), "Its first bytes become those of a contiguous host array.")
      .def("read", &read_memory, py::arg("array"), "Its first bytes, into a contiguous host array.");
  py::class_<PeerMemory>(module, "PeerMemory", py::module_local())
      .def(py::init([](int device, const py::bytes& handle) {
             return std::make_unique<PeerMemory>(device, std::string(handle));
           }),
           py::arg("device"), py::arg("handle"))
      .def_property_readonly("address", [](const PeerMemory& memory) { return address_of(memory.data()); });
}

void register_operations(py::module_& module) {
  py::class_<Operation>(module, "Operation", py::module_local())
      .def_property_readonly("arena", &Operation::arena, py::return_value_policy::reference_internal)
      .def("connect", &connect, py::arg("arenas"))
      .def(
          "launch",
          [](Operation& operation, std::uintptr_t in, std::uintptr_t out, std::uintptr_t stream) {
            operation.launch(reinterpret_cast<const void*>(in), reinterpret_cast<void*>(out), stream_from(stream));
          },
          py::arg("send"), py::arg("receive"), py::arg("stream"))
      .def("failure", &Operation::failure)
      .def("time", &time_operation, py::arg("send"), py::arg("receive"), py::arg("stream"), py::arg("samples"),
           py::arg("batch"), py::arg("graph"), py::arg("barrier"), py::arg("barrier_each"),
           "(events, host): nanoseconds of each sample of `batch` launches");
  py::class_<EngineOperation, Operation>(module, "EngineOperation", py::module_local())
      .def(py::init(&make_engine), py::kw_only(), py::arg("device"), py::arg("algorithm"), py::arg("options"),
           py::arg("collective"), py::arg("ranks"), py::arg("rank"), py::arg("root"), py::arg("dtype"), py::arg("op"),
           py::arg("count"), py::arg("in_place"), py::arg("patience_s"), py::arg("sharing"), py::arg("queue_bytes"),
           py::arg("lanes"), py::arg("tma"))
      .def_property_readonly("segments", [](const EngineOperation& o) { return o.plan().schedule.segments; });
  py::class_<ShotOperation, Operation>(module, "ShotOperation", py::module_local())
      .def(py::init(&make_shot), py::kw_only(), py::arg("device"), py::arg("hops"), py::arg("ranks"), py::arg("rank"),
           py::arg("dtype"), py::arg("op"), py::arg("count"), py::arg("patience_s"), py::arg("sharing"),
           py::arg("lanes"));
  py::class_<DevicePacker>(module, "DevicePacker", py::module_local())
      .def(py::init([](int device, std::vector<std::int64_t> begins, std::vector<std::int64_t> counts,
                       std::int64_t count, const std::string& tensor_dtype, const std::string& buffer_dtype) {
             return std::make_unique<DevicePacker>(device, std::move(begins), std::move(counts), count,
                                                   dtype_from(tensor_dtype), dtype_from(buffer_dtype));
           }),
           py::kw_only(), py::arg("device"), py::arg("begins"), py::arg("counts"), py::arg("count"),
           py::arg("tensor_dtype"), py::arg("buffer_dtype"))
      .def("pack",
           [](DevicePacker& packer, std::uintptr_t buffer, const std::vector<std::uintptr_t>& tensors, double factor,
              std::uintptr_t stream) {
             const py::gil_scoped_release release;
             packer.pack(reinterpret_cast<void*>(buffer), tensors, factor, stream_from(stream));
           })
      .def("unpack",
           [](DevicePacker& packer, std::uintptr_t buffer, const std::vector<std::uintptr_t>& tensors, double factor,
              std::uintptr_t stream) {
             const py::gil_scoped_release release;
             packer.unpack(reinterpret_cast<void*>(buffer), tensors, factor, stream_from(stream));
           })
      .def("time", &time_packer, py::arg("device"), py::arg("buffer"), py::arg("tensors"), py::arg("factor"),
           py::arg("to_buffer"), py::arg("samples"), py::arg("batch"));
  module.def("time_calls", &time_calls, py::kw_only(), py::arg("device"), py::arg("stream"), py::arg("call"),
             py::arg("samples"), py::arg("batch"), py::arg("graph"), py::arg("barrier"), py::arg("barrier_each"),
             "(events, host): nanoseconds of each sample of `batch` calls, each given the handle of the stream");
  module.def(
      "time_copies",
      [](const std::string& kind, int device, int peer, bool pinned, std::size_t bytes, std::size_t samples,
         std::size_t batch) {
        const CopyCase given{copy_kind_from(kind), device, peer, pinned, bytes};
        StreamTimes times;
        {
          py::gil_scoped_release release;
          times = time_copies(given, samples, batch);
        }
        return tuple_of(times);
      },
      py::kw_only(), py::arg("kind"), py::arg("device"), py::arg("peer"), py::arg("pinned"), py::arg("bytes"),
      py::arg("samples"), py::arg("batch"));
}

}  // namespace

void register_cuda(py::module_& module) {
  register_errors(module);
  register_devices(module);
  register_operations(module);
}

}  // namespace pycomm::bind
