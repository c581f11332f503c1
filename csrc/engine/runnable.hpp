// Anything that can be run again and again: a prepared collective, a barrier. What timing/ measures.
#pragma once

namespace pycomm {

class Runnable {
 public:
  virtual ~Runnable() = default;

  // Returns when this rank's part is done; raises TransportError when a peer is lost.
  void run() {
    if (!start()) finish();
  }

  // run() in two parts, so that who holds a lock that others need (Python's) can keep it for what is soon over: what
  // can be done while peers answer within some tens of microseconds each, and whether that was all; then the rest.
  virtual bool start() = 0;
  virtual void finish() = 0;
};

}  // namespace pycomm
