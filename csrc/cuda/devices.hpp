// What devices this process sees, and their memory: its own, that of peers in other processes (CUDA IPC), and that of
// peers on other devices of this process (peer access).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace pycomm::device {

struct DeviceInfo {
  std::string name;
  std::string uuid;  // tells whether two processes see one device
  int major = 0, minor = 0;
  int processors = 0;
  std::size_t memory_bytes = 0;
};

// Empty if there is a device this build can use; else why not, and what to do.
std::string missing_device();

// Raises DeviceError if there is none.
std::vector<DeviceInfo> list_devices();

// The device whose memory lies there. Raises UsageError for host memory.
int device_of(const void* address);

// Memory of one device, released with the object. Raises DeviceError.
class DeviceMemory {
 public:
  DeviceMemory(int device, std::size_t bytes);  // all zero
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  int device() const { return device_; }
  std::size_t bytes() const { return bytes_; }
  char* data() const { return data_; }
  std::string handle() const;  // for another process of this host: PeerMemory

 private:
  int device_;
  std::size_t bytes_;
  char* data_ = nullptr;
};

// Another process's DeviceMemory, mapped for a device of this one. Raises DeviceError.
class PeerMemory {
 public:
  PeerMemory(int device, const std::string& handle);
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;
  char* data() const { return data_; }

 private:
  int device_;
  char* data_ = nullptr;
};

// Kernels of `device` may reach the memory of `peer`, a device of this process. Raises Unavailable if the two have no
// path to each other.
void enable_peer_access(int device, int peer);

}  // namespace pycomm::device
