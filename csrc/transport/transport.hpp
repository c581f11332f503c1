// How bytes move between two ranks: one queue for each (from, to, lane), an outbox at one end, an inbox at the other.
//
// A message is at most one slot long. A copied message is free for the sender as soon as it is published; a posted one
// is read in place by the receiver, and its place is held until `released` says that the receiver has taken it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace pycomm {

// The sending end.
class Outbox {
 public:
  virtual ~Outbox() = default;
  // Whether a message of `bytes` can be claimed or posted now.
  virtual bool has_room(std::size_t bytes) = 0;
  // Memory to write a message of `bytes` (at most a slot) into, ahead of publish(). Needs has_room.
  virtual void* claim(std::size_t bytes) = 0;
  // Hands the claimed message to the receiver.
  virtual void publish(std::uint32_t signature) = 0;
  // Whether post() may be given this memory: the receiver can read it in place.
  virtual bool reaches(const void* data, std::size_t bytes) const = 0;
  // Lets the receiver read `data` in place. Needs has_room(0).
  virtual void post(const void* data, std::uint32_t signature) = 0;
  // Whether everything posted so far has been taken.
  virtual bool released() = 0;
};

// The receiving end.
class Inbox {
 public:
  virtual ~Inbox() = default;
  // The next message's bytes, or null if it has not arrived. The same message until take(). Raises SignatureMismatch
  // when the sender's call is not the receiver's.
  virtual const void* peek(std::size_t bytes, std::uint32_t signature) = 0;
  // Frees the message that peek() gave.
  virtual void take() = 0;
};

// Thrown by peek(); the engine adds both signatures' texts.
struct SignatureMismatch {
  int peer;
};

// What a rank that waits is waiting for, asked only when something is wrong.
struct Waiting {
  int peer = -1;     // -1: several
  std::string what;  // "lane 0, step 3 (recv chunk 2), segment 0"
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  // Bytes a claimed message may have.
  virtual std::size_t slot_bytes() const = 0;
  // The ends of the queue to or from `peer`; made at first use, the same object afterwards.
  virtual Outbox& outbox(int peer, int lane) = 0;
  virtual Inbox& inbox(int peer, int lane) = 0;
};

}  // namespace pycomm
