// A prepared collective: checked once, run many times. The steps of this rank's program are unrolled over the segments
// and bound to memory and queues at preparation; running walks through them, lane by lane, never waiting in one lane
// while another can go on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/plan.hpp"
#include "engine/runnable.hpp"
#include "reduce/reduce.hpp"
#include "transport/shared_memory.hpp"
#include "transport/waiter.hpp"

namespace pycomm {

class Operation : public Runnable {
 public:
  // `in` and `out` have the extents the collective gives them and stay valid as long as the operation; both null on a
  // dedicated server; the same for in place.
  Operation(std::shared_ptr<SharedMemory> memory, Plan plan, const void* in, void* out);
  ~Operation() override;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  // Both raise TransportError when a peer is lost, silent, or in another call; every later call on this world then
  // fails.
  bool start() override;
  void finish() override;

  // The same call on other buffers of the same extents.
  void rebind(const void* in, void* out);

  const Plan& plan() const { return plan_; }

 private:
  // A step on one segment, with its memory and queue.
  struct Task {
    Action action;
    bool joined = false;       // it is done with a task before it
    bool posted = false;       // send: the peer reads `from` in place
    bool landed = false;       // send, recv: the bytes are there already
    std::int32_t target = -1;  // after: tasks of `lane` that must be done
    std::int32_t lane = -1;
    std::int32_t first_input = 0;  // combine
    std::int32_t inputs = 0;
    std::int32_t first_landing = 0;  // combine: peers whose output it stores to, besides `to`
    std::int32_t landings = 0;
    std::int64_t contributors = 0;  // combine: what to divide by afterwards, 0: nothing
    std::int32_t first_send = 0;    // combine: how many tasks further on its result is sent
    std::int32_t sends = 0;         // and by how many tasks
    bool filled = false;            // send: the combine ahead of it has written the claimed message
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    std::size_t count = 0;  // elements
    std::size_t bytes = 0;
    Outbox* outbox = nullptr;
    Inbox* inbox = nullptr;
  };

  struct Input {  // of combine
    Inbox* inbox = nullptr;
    const std::byte* place = nullptr;
  };

  struct Landing {  // of combine
    int peer;
    std::ptrdiff_t offset;  // bytes, in the peer's output
  };

  struct LaneTasks {
    std::vector<Task> tasks;
    std::size_t next = 0;           // task to do
    std::int32_t ready_inputs = 0;  // of the combine to do, those seen to have arrived
    std::vector<const void*> pointers;
    std::vector<void*> outputs;
  };

  void bind();
  void fuse_what_follows(Task& task, std::span<const Step> following, std::int32_t segment);
  struct Walk {
    bool progress = false;
    bool done = true;
  };
  Walk walk();                    // every lane as far as it goes
  bool advance(LaneTasks& lane);  // as far as it goes; whether that was anywhere
  bool released() const;          // every posted message has been taken
  template <class Part>
  auto guarded(Part part);  // tells the peers what part() raises
  bool attempt(LaneTasks& lane, Task& task);
  bool try_send(Task& task);
  bool try_combine(LaneTasks& lane, const Task& task);
  Waiting describe() const;
  std::byte* address(Place place, std::int32_t segment) const;

  std::shared_ptr<SharedMemory> memory_;
  Plan plan_;
  std::byte* bases_[3];  // by Buffer
  void* tmp_ = nullptr;
  std::string signature_text_;
  std::uint64_t signature_ = 0;
  std::uint32_t short_signature_ = 0;
  bool bound_ = false;  // to buffers, all of it
  bool streaming_ = false;
  int patience_ = 0;  // walks without progress in start()
  std::int64_t contributors_ = 1;
  const Kernels* kernels_ = nullptr;
  std::vector<LaneTasks> lanes_;
  std::vector<Input> inputs_;
  std::vector<Landing> landings_;
  std::vector<std::pair<Outbox*, int>> posting_;  // the outboxes with posted messages, and their peers
};

}  // namespace pycomm
