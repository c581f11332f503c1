// A queue in shared memory for one (from, to, lane), in the sender's region. Each message has a line: eight bytes of
// sequence number and signature, written last, beside the message itself where that is small, so that up to 56 bytes
// cost one cache line and up to 120 two neighbours; a larger message has its bytes in a slot, or stays in the sender's
// buffer, and the line holds its offset.
#pragma once

#include <atomic>
#include <cstring>

#include "transport/board.hpp"
#include "transport/transport.hpp"

namespace pycomm {

inline constexpr std::size_t kLineBytes = 2 * kCacheLine;  // processors fetch cache lines in pairs
inline constexpr std::size_t kInlineBytes = kLineBytes - sizeof(std::uint64_t);
// A posted message must come back before the call can end; below this size a copy costs less than that.
inline constexpr std::size_t kLeastPosted = 1024;
inline constexpr std::uint64_t kLines = 16;
inline constexpr std::uint64_t kSlots = 4;  // of the lines, those whose messages may be in slots at a time

struct alignas(kLineBytes) Line {
  std::atomic<std::uint64_t> header{0};  // sequence number, from 1, above; signature below
  std::byte payload[kInlineBytes];
};

struct alignas(kCacheLine) Queue {
  std::atomic<std::uint64_t> taken{0};  // messages, by the receiver
  Line lines[kLines];
  // Behind it: kSlots slots.

  std::byte* slot(std::uint64_t index, std::size_t slot_bytes) {
    return reinterpret_cast<std::byte*>(this + 1) + (index % kSlots) * slot_bytes;
  }
  static std::size_t bytes(std::size_t slot_bytes) { return sizeof(Queue) + kSlots * slot_bytes; }
};

inline std::uint64_t header_of(std::uint64_t message, std::uint32_t signature) {
  return (message + 1) << 32 | signature;
}

class QueueOutbox final : public Outbox {
 public:
  QueueOutbox(Queue& queue, std::byte* base, std::size_t slot_bytes, bool one_process, std::size_t reach)
      : queue_(queue), base_(base), slot_bytes_(slot_bytes), one_process_(one_process), reach_(reach) {}

  bool has_room(std::size_t bytes) override {
    const std::uint64_t depth = bytes <= kInlineBytes ? kLines : kSlots;
    if (sent_ - taken_ < depth) return true;
    taken_ = queue_.taken.load(std::memory_order_acquire);
    return sent_ - taken_ < depth;
  }

  void* claim(std::size_t bytes) override {
    Line& line = queue_.lines[sent_ % kLines];
    if (bytes <= kInlineBytes) return line.payload;
    std::byte* slot = queue_.slot(sent_, slot_bytes_);
    write_address(line, slot);
    return slot;
  }

  void publish(std::uint32_t signature) override {
    queue_.lines[sent_ % kLines].header.store(header_of(sent_, signature), std::memory_order_release);
    ++sent_;
  }

  bool reaches(const void* data, std::size_t bytes) const override {
    if (bytes < kLeastPosted) return false;
    const auto* begin = static_cast<const std::byte*>(data);
    return one_process_ || (begin >= base_ && begin + bytes <= base_ + reach_);
  }

  void post(const void* data, std::uint32_t signature) override {
    write_address(queue_.lines[sent_ % kLines], data);
    publish(signature);
    posted_ = sent_;
  }

  bool released() override {
    if (taken_ < posted_) taken_ = queue_.taken.load(std::memory_order_acquire);
    return taken_ >= posted_;
  }

 private:
  void write_address(Line& line, const void* data) {
    const auto offset = reinterpret_cast<std::uintptr_t>(data) - reinterpret_cast<std::uintptr_t>(base_);
    std::memcpy(line.payload, &offset, sizeof offset);
  }

  Queue& queue_;
  std::byte* base_;  // of the sender's region
  std::size_t slot_bytes_;
  bool one_process_;
  std::size_t reach_;
  std::uint64_t sent_ = 0;
  std::uint64_t taken_ = 0;   // as last seen
  std::uint64_t posted_ = 0;  // messages up to and with the last posted one
};

class QueueInbox final : public Inbox {
 public:
  // `place` is where the sender writes the queue's offset once the queue exists.
  QueueInbox(const std::atomic<std::uint64_t>& place, std::byte* base, int peer)
      : place_(place), base_(base), peer_(peer) {}

  const void* peek(std::size_t bytes, std::uint32_t signature) override {
    if (queue_ == nullptr) {
      const std::uint64_t offset = place_.load(std::memory_order_acquire);
      if (offset == 0) return nullptr;
      queue_ = reinterpret_cast<Queue*>(base_ + offset);
    }
    const Line& line = queue_->lines[taken_ % kLines];
    const std::uint64_t header = line.header.load(std::memory_order_acquire);
    if (header != header_of(taken_, signature)) {
      if (header >> 32 == header_of(taken_, 0) >> 32) throw SignatureMismatch{peer_};
      return nullptr;
    }
    if (bytes <= kInlineBytes) return line.payload;
    std::uintptr_t offset;
    std::memcpy(&offset, line.payload, sizeof offset);
    return reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(base_) + offset);
  }

  void take() override { queue_->taken.store(++taken_, std::memory_order_release); }

 private:
  const std::atomic<std::uint64_t>& place_;
  std::byte* base_;  // of the sender's region
  int peer_;
  Queue* queue_ = nullptr;
  std::uint64_t taken_ = 0;
};

}  // namespace pycomm
