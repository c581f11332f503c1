// Anything that can be run again and again: a prepared collective, a barrier. What timing/ measures.
#pragma once

namespace pycomm {

struct Runnable {
  virtual ~Runnable() = default;
  virtual void run() = 0;  // returns when this rank's part is done; raises TransportError when a peer is lost
};

}  // namespace pycomm
