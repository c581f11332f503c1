#include "cuda/devices.hpp"

#include <cstdlib>
#include <cstring>

#include "cuda/check.hpp"

namespace pycomm::device {

std::string missing_device() {
  // Streams share the device's work queues, 8 unless told otherwise: a kernel that waits for a peer would hold up the
  // peer's, if that came after it in one queue. Has no effect where the process has used CUDA before.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorInsufficientDriver) {
    int driver = 0;
    cudaDriverGetVersion(&driver);
    if (driver == 0) return "no NVIDIA driver here (libcuda.so.1 is not found)";
    return "the NVIDIA driver is for CUDA " + std::to_string(driver / 1000) + "." + std::to_string(driver % 1000 / 10) +
           " and this build needs " + std::to_string(CUDART_VERSION / 1000) + ": update the driver";
  }
  if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0))
    return "the NVIDIA driver shows no device (CUDA_VISIBLE_DEVICES hides them, or there is none)";
  if (error != cudaSuccess) return std::string("the NVIDIA driver does not start: ") + cudaGetErrorString(error);
  int major = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
  if (major < 8) return "device 0 is older than sm_80, the oldest this build has kernels for";
  return {};
}

std::vector<DeviceInfo> list_devices() {
  int count = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  std::vector<DeviceInfo> devices;
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
    const std::string uuid(properties.uuid.bytes, sizeof properties.uuid.bytes);
    devices.push_back({properties.name, uuid, properties.major, properties.minor, properties.multiProcessorCount,
                       properties.totalGlobalMem});
  }
  return devices;
}

int device_of(const void* address) {
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, address), "cudaPointerGetAttributes");
  if (attributes.type != cudaMemoryTypeDevice && attributes.type != cudaMemoryTypeManaged)
    throw UsageError("an array is said to be on a GPU and lies in host memory");
  return attributes.device;
}

DeviceMemory::DeviceMemory(int device, std::size_t bytes) : device_(device), bytes_(bytes) {
  const OnDevice on(device);
  void* data = nullptr;
  const std::string what = " of " + std::to_string(bytes) + " bytes on device " + std::to_string(device);
  check(cudaMalloc(&data, bytes > 0 ? bytes : 1), "cudaMalloc" + what);
  data_ = static_cast<char*>(data);
  const cudaError_t cleared = cudaMemset(data, 0, bytes);
  const cudaError_t done = cleared == cudaSuccess ? cudaDeviceSynchronize() : cleared;
  if (done != cudaSuccess) cudaFree(data);
  check(done, "cudaMemset" + what);
}

DeviceMemory::~DeviceMemory() {
  const OnDevice on(device_, std::nothrow);
  cudaFree(data_);
}

std::string DeviceMemory::handle() const {
  const OnDevice on(device_);
  cudaIpcMemHandle_t handle{};
  check(cudaIpcGetMemHandle(&handle, data_), "cudaIpcGetMemHandle");
  return {reinterpret_cast<const char*>(&handle), sizeof handle};
}

PeerMemory::PeerMemory(int device, const std::string& handle) : device_(device) {
  cudaIpcMemHandle_t given{};
  if (handle.size() != sizeof given) throw UsageError("not a handle of device memory");
  std::memcpy(&given, handle.data(), sizeof given);
  const OnDevice on(device);
  void* data = nullptr;
  check(cudaIpcOpenMemHandle(&data, given, cudaIpcMemLazyEnablePeerAccess), "cudaIpcOpenMemHandle");
  data_ = static_cast<char*>(data);
}

PeerMemory::~PeerMemory() {
  const OnDevice on(device_, std::nothrow);
  cudaIpcCloseMemHandle(data_);
}

void enable_peer_access(int device, int peer) {
  if (device == peer) return;
  int possible = 0;
  check(cudaDeviceCanAccessPeer(&possible, device, peer), "cudaDeviceCanAccessPeer");
  if (possible == 0)
    throw Unavailable("devices " + std::to_string(device) + " and " + std::to_string(peer) +
                      " cannot reach each other's memory: no NVLink and no PCIe path between them");
  const OnDevice on(device);
  const cudaError_t error = cudaDeviceEnablePeerAccess(peer, 0);
  if (error == cudaErrorPeerAccessAlreadyEnabled) {
    cudaGetLastError();  // else the next check of a launch would see it
    return;
  }
  check(error, "cudaDeviceEnablePeerAccess");
}

}  // namespace pycomm::device
