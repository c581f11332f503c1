#include "transport/region.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.hpp"

namespace pycomm {

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t round_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

std::string reason() { return std::strerror(errno); }

std::byte* map(int fd) {
  void* base = mmap(nullptr, Region::kAddressSpace, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (base == MAP_FAILED)
    throw Unavailable("shared memory: cannot reserve " + std::to_string(Region::kAddressSpace >> 30) +
                      " GiB of address space (" + reason() + "); raise `ulimit -v`");
  madvise(base, Region::kAddressSpace, MADV_DONTDUMP);
  madvise(base, Region::kAddressSpace, MADV_HUGEPAGE);  // where the kernel allows it for shared memory
  return static_cast<std::byte*>(base);
}

}  // namespace

std::shared_ptr<Region> Region::create() {
  const int fd = memfd_create("pycomm", MFD_CLOEXEC);
  if (fd < 0) throw Unavailable("shared memory: memfd_create failed: " + reason());
  if (ftruncate(fd, static_cast<off_t>(kAddressSpace)) != 0) {
    const std::string why = reason();
    close(fd);
    throw Unavailable("shared memory: ftruncate failed: " + why);
  }
  return std::shared_ptr<Region>(new Region(fd, map(fd)));
}

std::shared_ptr<Region> Region::attach(int pid, int fd) {
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd);
  const int opened = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (opened < 0)
    throw Unavailable("shared memory: cannot open " + path + " (" + reason() +
                      "): do all ranks run on this host, as one user, in one container?");
  return std::shared_ptr<Region>(new Region(opened, map(opened)));
}

Region::~Region() {
  munmap(base_, kAddressSpace);
  close(fd_);
}

void* Region::allocate(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::size_t align = bytes >= kHugePage ? kHugePage : kPage;
  const std::size_t size = round_up(bytes > 0 ? bytes : 1, align);
  std::size_t offset = 0;  // first fit between the blocks in use
  for (const auto& [begin, length] : used_) {
    if (round_up(offset, align) + size <= begin) break;
    offset = begin + length;
  }
  offset = round_up(offset, align);
  if (offset + size > kAddressSpace)
    throw Unavailable("shared memory: " + std::to_string(bytes) + " bytes do not fit into a region of " +
                      std::to_string(kAddressSpace >> 30) + " GiB");
  if (fallocate(fd_, 0, static_cast<off_t>(offset), static_cast<off_t>(size)) != 0)
    throw Unavailable("shared memory: " + std::to_string(size) + " bytes cannot be reserved (" + reason() +
                      "): free memory, or use smaller sizes or fewer ranks");
  used_.emplace(offset, size);
  return base_ + offset;
}

void Region::release(void* block) {
  const std::lock_guard lock(mutex_);
  const auto found = used_.find(static_cast<std::size_t>(static_cast<std::byte*>(block) - base_));
  if (found == used_.end()) return;
  // Gives the pages back, so that the next block of this place is zeroed again.
  fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(found->first),
            static_cast<off_t>(found->second));
  used_.erase(found);
}

}  // namespace pycomm
