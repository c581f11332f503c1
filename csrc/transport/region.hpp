// A rank's share of the memory that all ranks of a host can read and write. It has no name: a memfd that peers open
// through its owner's /proc/<pid>/fd, so nothing is left behind however a rank ends, and the size of /dev/shm does not
// matter. Address space is reserved once; memory is reserved block by block, before it is used, so that a full machine
// gives an error and never a bus error.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace pycomm {

class Region {
 public:
  // The address space of each region; memory is taken only by allocate(). 64 GiB.
  static constexpr std::size_t kAddressSpace = std::size_t{1} << 36;

  // A new region of this process. Raises Unavailable if the kernel gives none.
  static std::shared_ptr<Region> create();
  // The region that the process `pid` holds as file descriptor `fd`. Raises Unavailable.
  static std::shared_ptr<Region> attach(int pid, int fd);

  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  int fd() const { return fd_; }
  std::byte* base() const { return base_; }
  bool contains(const void* data, std::size_t bytes) const {
    const auto* begin = static_cast<const std::byte*>(data);
    return begin >= base_ && begin + bytes <= base_ + kAddressSpace;
  }

  // Zeroed memory, aligned to a page from a page on, else to a cache line. Only the owner allocates. Raises
  // Unavailable, with the size needed, when the memory cannot be had.
  void* allocate(std::size_t bytes);
  void release(void* block);

 private:
  Region(int fd, std::byte* base) : fd_(fd), base_(base) {}

  int fd_;
  std::byte* base_;
  std::mutex mutex_;
  std::map<std::size_t, std::size_t> used_;  // offset → bytes of each block, in order
};

}  // namespace pycomm
