// Mesh (p2p). Four ranks, the buffer whole; everyone sends all it has to everyone, and each sums for itself.
//
//   0 -> 1 2 3    1 -> 2 3 0    2 -> 3 0 1    3 -> 0 1 2     in that order, so that no rank is hit by all at once
//   each: out = 0 + 1 + 2 + 3, one pass over its own and the received, one rounding, in rank order on every rank
//
// The order is what makes the bits equal: nobody sends a sum on. In place the peers may still be reading `in` when the
// sum is ready, so it is a copy of `in` that is sent.
//
// Source: the peer-to-peer architecture of arXiv 1909.02061 (CNTK's and MXNet's device mode), one hop, p − 1 messages.
#include "algorithms/algorithms.hpp"

namespace pycomm::algorithms {

void mesh_allreduce(Builder& rank) {
  const int ranks = rank.ranks(), me = rank.rank();
  rank.deal([&] {
    if (ranks == 1) {
      rank.copy(out(0), in(0));
    } else {
      const Spot sent = rank.shape().in_place ? tmp(0, 0) : in(0);
      if (sent != in(0)) rank.copy(sent, in(0));
      for (int turn = 1; turn < ranks; ++turn) rank.send(sent, rank.ahead(turn));
      std::vector<Operand> operands;
      for (int peer = 0; peer < ranks; ++peer) operands.push_back(peer == me ? own(in(0)) : message(peer));
      rank.combine(out(0), operands);
    }
    rank.scale(out(0));
  });
}

}  // namespace pycomm::algorithms
