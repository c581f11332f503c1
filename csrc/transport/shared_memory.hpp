// The transport between ranks that can read each other's memory: `shm`, processes of one host whose regions are mapped
// into each other, and `threads`, ranks of one process, where every buffer can be read in place.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/board.hpp"
#include "transport/region.hpp"
#include "transport/transport.hpp"

namespace pycomm {

class QueueInbox;
class QueueOutbox;

// A rank of the world, as error messages name it.
struct Member {
  int pid = 0;
  std::string host;
};

struct SharedMemoryConfig {
  int rank = 0;
  std::vector<Member> members;                   // one a rank
  std::vector<std::shared_ptr<Region>> regions;  // one a rank
  bool one_process = false;                      // ranks are threads
  double timeout_s = 30;
  std::size_t queue_bytes = std::size_t{64} << 20;   // bound of all queues of a rank
  std::size_t largest_slot = std::size_t{64} << 10;  // of a queue; the same on all ranks
  int cores = 0;                                     // that this host's ranks have together; 0: those of this one
  std::function<void()> check_interrupt;             // may throw; called now and then by a rank that waits
};

class SharedMemory final : public Transport {
 public:
  // The memory every rank needs before any of them attaches: its region's board. Called once by the region's owner.
  static void prepare(Region& region, int ranks);

  // What a message of an ordinary buffer should have at most on this machine: it is copied twice, and should still be
  // in the second-level cache when it is read. Ranks on other cores may find another size; they must agree on one.
  static std::size_t best_largest_slot();

  explicit SharedMemory(SharedMemoryConfig config);
  ~SharedMemory() override;

  int rank() const override { return config_.rank; }
  int ranks() const override { return static_cast<int>(config_.members.size()); }
  std::size_t slot_bytes() const override { return slot_bytes_; }
  Outbox& outbox(int peer, int lane) override;
  Inbox& inbox(int peer, int lane) override;

  Region& region() { return *config_.regions[static_cast<std::size_t>(rank())]; }
  std::shared_ptr<Region> own_region() const { return config_.regions[static_cast<std::size_t>(rank())]; }
  std::byte* base(int peer) const { return config_.regions[static_cast<std::size_t>(peer)]->base(); }
  Board& board(int peer) const { return *reinterpret_cast<Board*>(base(peer)); }
  // Whether every peer can read this memory of this rank.
  bool reachable(const void* data, std::size_t bytes) const;

  // Tells the peers which call this rank is in, and where its output lies. `text` is the signature in words.
  void enter(std::uint64_t signature, const std::string& text, const void* out);
  // The output of a peer that is in the same call and can be reached; null if it has not entered yet. Raises
  // SignatureMismatch if it is in another call.
  std::byte* output_of(int peer, std::uint64_t signature) const;
  // Until all ranks are here.
  void barrier();
  // Tells the peers that this rank ends: cleanly, or for a reason that each of them then raises.
  void depart();
  void fail(const std::string& reason);

  // Raises the TransportError that explains why this rank waits in vain, if there is one: a peer that died, failed,
  // left, or is in another call. `signature` 0: no call.
  void check_peers(const Waiting& waiting, std::uint64_t signature) const;
  [[noreturn]] void raise_mismatch(int peer) const;
  // Names the ranks that show no sign of life besides the one waited for, which may itself be waiting for them.
  [[noreturn]] void raise_timeout(const Waiting& waiting) const;
  // Tells the peers that this rank lives, and waits.
  void show_life() const;

  const SharedMemoryConfig& config() const { return config_; }
  bool oversubscribed() const { return oversubscribed_; }
  std::string describe(int peer) const;  // "rank 2 (host a, pid 17)"

 private:
  std::string describe_self() const;  // "rank 0 of 4"

  SharedMemoryConfig config_;
  std::size_t slot_bytes_;
  bool oversubscribed_;
  std::vector<int> pidfds_;                             // one a rank, -1 where it cannot be watched
  std::vector<std::unique_ptr<QueueOutbox>> outboxes_;  // [peer][lane]
  std::vector<std::unique_ptr<QueueInbox>> inboxes_;
  std::vector<void*> queues_;  // in the region, to be released
  std::uint64_t calls_ = 0;
  std::uint64_t barriers_ = 0;
};

}  // namespace pycomm
