// _core.Region, _core.SharedMemory, _core.Barrier, _core.Operation: the memory ranks share and what runs on it.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <optional>

#include "bind/register.hpp"
#include "engine/operation.hpp"
#include "engine/runnable.hpp"
#include "transport/shared_memory.hpp"

namespace py = pybind11;

namespace pycomm::bind {

namespace {

// Runs Python's signal handlers, so that an interrupt ends a rank that waits inside a collective.
void check_interrupt() {
  const py::gil_scoped_acquire acquired;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

// With the arrays it works on, so that who holds the operation, or its `run` alone, holds them too.
struct HoldingOperation final : Operation {
  using Operation::Operation;
  py::object buffers = py::none();
};

class Barrier final : public Runnable {
 public:
  explicit Barrier(std::shared_ptr<SharedMemory> memory) : memory_(std::move(memory)) {}
  bool start() override { return false; }
  void finish() override { memory_->barrier(); }

 private:
  std::shared_ptr<SharedMemory> memory_;
};

std::shared_ptr<SharedMemory> make_memory(int rank, const std::vector<std::pair<int, std::string>>& members,
                                          std::vector<std::shared_ptr<Region>> regions, bool one_process,
                                          double timeout_s, std::size_t queue_bytes, std::size_t largest_slot,
                                          int cores) {
  SharedMemoryConfig config;
  config.rank = rank;
  for (const auto& [pid, host] : members) config.members.push_back({pid, host});
  config.regions = std::move(regions);
  config.one_process = one_process;
  config.timeout_s = timeout_s;
  config.queue_bytes = queue_bytes;
  config.largest_slot = largest_slot;
  config.cores = cores;
  config.check_interrupt = &check_interrupt;
  return std::make_shared<SharedMemory>(std::move(config));
}

py::array_t<std::uint8_t> empty_in(const std::shared_ptr<Region>& region, std::size_t bytes) {
  struct Block {
    std::shared_ptr<Region> region;
    void* data;
  };
  auto block = std::make_unique<Block>(Block{region, region->allocate(bytes)});
  void* data = block->data;
  const py::capsule owner(block.release(), [](void* pointer) {
    const std::unique_ptr<Block> held(static_cast<Block*>(pointer));
    held->region->release(held->data);
  });
  return py::array_t<std::uint8_t>(static_cast<py::ssize_t>(bytes), static_cast<std::uint8_t*>(data), owner);
}

const void* data_of(const std::optional<py::array>& array) { return array ? array->data() : nullptr; }
void* mutable_data_of(std::optional<py::array>& array) { return array ? array->mutable_data() : nullptr; }

std::unique_ptr<HoldingOperation> prepare(std::shared_ptr<SharedMemory> memory, const std::string& collective,
                                          const std::string& algorithm, const Options& options, const std::string& op,
                                          const std::string& dtype, std::int64_t count, int root, bool in_place,
                                          bool symmetric, std::optional<py::array> in, std::optional<py::array> out) {
  Call call;
  call.collective = collective_from(collective);
  call.root = root;
  call.algorithm = algorithm;
  call.options = options;
  call.op = op_from(op);
  call.dtype = dtype_from(dtype);
  call.count = count;
  call.in_place = in_place;
  call.symmetric = symmetric;
  Plan plan = make_plan(call, memory->ranks(), memory->slot_bytes());
  return std::make_unique<HoldingOperation>(std::move(memory), std::move(plan), data_of(in), mutable_data_of(out));
}

void die_with_parent(int parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) std::raise(SIGKILL);  // it was gone before the request stood
}

}  // namespace

void register_engine(py::module_& module) {
  py::class_<Region, std::shared_ptr<Region>>(module, "Region", "Memory that the ranks of a host share.")
      .def_static("create", &Region::create)
      .def_static("attach", &Region::attach, py::arg("pid"), py::arg("fd"))
      .def_property_readonly("fd", &Region::fd)
      .def("prepare", &SharedMemory::prepare, py::arg("ranks"), "Put this rank's board at the region's base.")
      .def("contains", [](const Region& region, const py::array& array) {
        return region.contains(array.data(), static_cast<std::size_t>(array.nbytes()));
      });

  py::class_<SharedMemory, std::shared_ptr<SharedMemory>>(module, "SharedMemory", "The transports shm and threads.")
      .def(py::init(&make_memory), py::arg("rank"), py::arg("members"), py::arg("regions"), py::arg("one_process"),
           py::arg("timeout_s"), py::arg("queue_bytes"), py::arg("largest_slot"), py::arg("cores"))
      .def_static("best_largest_slot", &SharedMemory::best_largest_slot)
      .def_property_readonly("rank", &SharedMemory::rank)
      .def_property_readonly("ranks", &SharedMemory::ranks)
      .def_property_readonly("slot_bytes", &SharedMemory::slot_bytes)
      .def_property_readonly("oversubscribed", &SharedMemory::oversubscribed)
      .def("reachable",
           [](const SharedMemory& memory, const py::array& array) {
             return memory.reachable(array.data(), static_cast<std::size_t>(array.nbytes()));
           })
      .def("empty", [](const SharedMemory& memory, std::size_t bytes) { return empty_in(memory.own_region(), bytes); })
      .def("depart", &SharedMemory::depart)
      .def("fail", &SharedMemory::fail, py::arg("reason"));

  py::class_<Barrier, Runnable>(module, "Barrier", "A barrier of all ranks, ready to run.")
      .def(py::init<std::shared_ptr<SharedMemory>>());

  py::class_<HoldingOperation, Runnable>(module, "Operation", "A prepared collective.")
      .def(py::init(&prepare), py::arg("memory"), py::arg("collective"), py::arg("algorithm"), py::arg("options"),
           py::arg("op"), py::arg("dtype"), py::arg("count"), py::arg("root"), py::arg("in_place"),
           py::arg("symmetric"), py::arg("send").none(true), py::arg("receive").none(true))
      .def(
          "rebind",
          [](HoldingOperation& operation, std::optional<py::array> in, std::optional<py::array> out) {
            operation.rebind(data_of(in), mutable_data_of(out));
          },
          py::arg("send").none(true), py::arg("receive").none(true))
      .def_readwrite("buffers", &HoldingOperation::buffers, "Whatever is to live as long as the operation.")
      .def_property_readonly("signature",
                             [](const HoldingOperation& operation) { return operation.plan().signature(); })
      .def_property_readonly("segments",
                             [](const HoldingOperation& operation) { return operation.plan().schedule.segments; })
      .def_property_readonly("lanes", [](const HoldingOperation& operation) { return operation.plan().lanes; });

  module.def("die_with_parent", &die_with_parent, py::arg("parent"),
             "Have the kernel kill this process when `parent` ends; at once if it has ended.");
}

}  // namespace pycomm::bind
