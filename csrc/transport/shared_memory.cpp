#include "transport/shared_memory.hpp"

#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "transport/queue.hpp"
#include "transport/waiter.hpp"

namespace pycomm {

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kLargestSlot = std::size_t{256} << 10;
constexpr std::size_t kSmallestLargestSlot = std::size_t{64} << 10;

// The same on all ranks, since all ranks must cut a buffer into the same messages: as if every edge were in use.
std::size_t slot_bytes_for(int ranks, std::size_t queue_bytes, std::size_t largest) {
  const std::size_t slots = static_cast<std::size_t>(std::max(1, ranks - 1)) * kLanes * kSlots;
  return std::clamp(queue_bytes / slots / kPage * kPage, kPage, std::max(kPage, largest));
}

int cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

bool has_ended(int pidfd) {
  pollfd poll_fd{pidfd, POLLIN, 0};
  return pidfd >= 0 && poll(&poll_fd, 1, 0) > 0;
}

std::size_t at(int peer, int lane) { return static_cast<std::size_t>(peer) * kLanes + static_cast<std::size_t>(lane); }

}  // namespace

void SharedMemory::prepare(Region& region, int ranks) {
  void* board = region.allocate(Board::bytes(ranks));  // the first block: at the region's base
  new (board) Board();
}

// An eighth of the cache was best on cores with 512 KiB and with 2 MiB: 64 and 256 KiB, which differ there by a sixth.
std::size_t SharedMemory::best_largest_slot() {
  const long cache = sysconf(_SC_LEVEL2_CACHE_SIZE);  // 0 or -1 where it is not known
  return std::clamp(static_cast<std::size_t>(std::max(0L, cache)) / 8 / kPage * kPage, kSmallestLargestSlot,
                    kLargestSlot);
}

SharedMemory::SharedMemory(SharedMemoryConfig config)
    : config_(std::move(config)),
      slot_bytes_(slot_bytes_for(ranks(), config_.queue_bytes, config_.largest_slot)),
      outboxes_(static_cast<std::size_t>(ranks()) * kLanes),
      inboxes_(static_cast<std::size_t>(ranks()) * kLanes) {
  const auto same_host = std::count_if(config_.members.begin(), config_.members.end(), [this](const Member& member) {
    return member.host == config_.members[static_cast<std::size_t>(rank())].host;
  });
  oversubscribed_ = same_host > (config_.cores > 0 ? config_.cores : cores());
  for (int peer = 0; peer < ranks(); ++peer) {
    const bool watch = !config_.one_process && peer != rank();
    const int pid = config_.members[static_cast<std::size_t>(peer)].pid;
    pidfds_.push_back(watch ? static_cast<int>(syscall(SYS_pidfd_open, pid, 0)) : -1);
    if (watch && pidfds_.back() < 0 && errno == ESRCH) throw TransportError(describe(peer) + " is gone");
  }
}

SharedMemory::~SharedMemory() {
  for (const int pidfd : pidfds_)
    if (pidfd >= 0) close(pidfd);
  // The queues stay while a peer may still look at them: they go with the region, when the last rank lets go of it.
}

Outbox& SharedMemory::outbox(int peer, int lane) {
  auto& box = outboxes_[at(peer, lane)];
  if (!box) {
    auto* queue = new (region().allocate(Queue::bytes(slot_bytes_))) Queue();
    const auto offset = static_cast<std::uint64_t>(reinterpret_cast<std::byte*>(queue) - base(rank()));
    box = std::make_unique<QueueOutbox>(*queue, base(rank()), slot_bytes_, config_.one_process, Region::kAddressSpace);
    board(rank()).queues()[at(peer, lane)].store(offset, std::memory_order_release);
  }
  return *box;
}

Inbox& SharedMemory::inbox(int peer, int lane) {
  auto& box = inboxes_[at(peer, lane)];
  if (!box) box = std::make_unique<QueueInbox>(board(peer).queues()[at(rank(), lane)], base(peer), peer);
  return *box;
}

bool SharedMemory::reachable(const void* data, std::size_t bytes) const {
  return config_.one_process || config_.regions[static_cast<std::size_t>(rank())]->contains(data, bytes);
}

void SharedMemory::enter(std::uint64_t signature, const std::string& text, const void* out) {
  Board& own = board(rank());
  if (own.entry.signature.load(std::memory_order_relaxed) != signature) {
    std::memset(own.call, 0, sizeof own.call);
    text.copy(own.call, sizeof own.call - 1);
    own.entry.signature.store(signature, std::memory_order_relaxed);
  }
  own.entry.out.store(reinterpret_cast<std::uintptr_t>(out) - reinterpret_cast<std::uintptr_t>(base(rank())),
                      std::memory_order_relaxed);
  own.entry.number.store(++calls_, std::memory_order_release);
}

std::byte* SharedMemory::output_of(int peer, std::uint64_t signature) const {
  const Entry& entry = board(peer).entry;
  if (entry.number.load(std::memory_order_acquire) != calls_) return nullptr;
  if (entry.signature.load(std::memory_order_relaxed) != signature) throw SignatureMismatch{peer};
  return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(base(peer)) +
                                      entry.out.load(std::memory_order_relaxed));
}

void SharedMemory::barrier() {
  const std::uint64_t epoch = ++barriers_;
  Waiter waiter(*this, 0);
  int round = 0;
  for (int distance = 1; distance < ranks(); distance *= 2, ++round) {
    board(rank()).barrier[round].epoch.store(epoch, std::memory_order_release);
    const int peer = (rank() - distance + ranks()) % ranks();
    while (board(peer).barrier[round].epoch.load(std::memory_order_acquire) < epoch)
      waiter.idle([&] { return Waiting{peer, "a barrier"}; });
    waiter.progress();
  }
}

void SharedMemory::depart() {
  auto running = RankState::running;
  board(rank()).state.compare_exchange_strong(running, RankState::departed);
}

void SharedMemory::fail(const std::string& reason) {
  Board& own = board(rank());
  if (own.state.load() != RankState::running) return;
  std::strncpy(own.failure, reason.c_str(), sizeof own.failure - 1);
  own.state.store(RankState::failed, std::memory_order_release);
}

void SharedMemory::check_peers(const Waiting& waiting, std::uint64_t signature) const {
  for (int peer = 0; peer < ranks(); ++peer) {
    if (peer == rank()) continue;
    const Board& other = board(peer);
    if (signature != 0 && other.entry.number.load(std::memory_order_acquire) == calls_ &&
        other.entry.signature.load(std::memory_order_relaxed) != signature)
      raise_mismatch(peer);
  }
  for (int peer = 0; peer < ranks(); ++peer) {
    if (peer == rank()) continue;
    const Board& other = board(peer);
    const RankState state = other.state.load(std::memory_order_acquire);
    const std::string here = describe_self() + " waited for it in " + waiting.what;
    if (state == RankState::failed) throw TransportError(describe(peer) + " failed: " + other.failure);
    if (state == RankState::departed && waiting.peer == peer)
      throw TransportError(describe(peer) + " has left the world while " + here);
    if (state == RankState::running && has_ended(pidfds_[static_cast<std::size_t>(peer)]))
      throw TransportError(describe(peer) + " died while " + here);
  }
}

void SharedMemory::raise_mismatch(int peer) const {
  throw TransportError("the ranks call different collectives: " + describe(rank()) + " calls " + board(rank()).call +
                       ", but " + describe(peer) + " calls " + board(peer).call);
}

void SharedMemory::raise_timeout(const Waiting& waiting) const {
  const auto silence_ns = static_cast<std::int64_t>(config_.timeout_s * 0.5e9);
  std::string whom = waiting.peer >= 0 ? describe(waiting.peer) : "its peers";
  std::string silent;
  for (int peer = 0; peer < ranks(); ++peer)
    if (peer != rank() && peer != waiting.peer && now_ns() - board(peer).sign_of_life_ns.load() > silence_ns)
      silent += (silent.empty() ? "" : ", ") + describe(peer);
  if (!silent.empty()) whom += " and no sign of life from " + silent;
  throw TransportError(describe_self() + " heard nothing from " + whom + " for " +
                       std::to_string(static_cast<int>(config_.timeout_s)) + " s in " + waiting.what +
                       "; if that is expected, raise --timeout");
}

void SharedMemory::show_life() const { board(rank()).sign_of_life_ns.store(now_ns()); }

std::string SharedMemory::describe(int peer) const {
  const Member& member = config_.members[static_cast<std::size_t>(peer)];
  return "rank " + std::to_string(peer) + " (host " + member.host + ", pid " + std::to_string(member.pid) + ")";
}

std::string SharedMemory::describe_self() const {
  return "rank " + std::to_string(rank()) + " of " + std::to_string(ranks());
}

}  // namespace pycomm
