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
  const int ranks = rank.ranks();
  rank.deal([&] {
    const Spot sent = rank.shape().in_place && ranks > 1 ? tmp(0, 0) : in(0);
    if (sent != in(0)) rank.copy(sent, in(0));
    for (int turn = 1; turn < ranks; ++turn) rank.send(sent, rank.ahead(turn));
    rank.combine_all(out(0), in(0));
  });
}

void mesh_reduce_scatter(Builder& rank) {
  rank.deal([&] {
    for (int turn = 1; turn < rank.ranks(); ++turn) rank.send(in(rank.ahead(turn)), rank.ahead(turn));
    rank.combine_all(out(0), in(rank.rank()));
  });
}

void mesh_allgather(Builder& rank) {
  rank.deal([&] {
    for (int turn = 1; turn < rank.ranks(); ++turn) rank.send(in(0), rank.ahead(turn));
    rank.copy(out(rank.rank()), in(0));
    for (int turn = 1; turn < rank.ranks(); ++turn) rank.recv(out(rank.ahead(-turn)), rank.ahead(-turn));
  });
}

void mesh_reduce(Builder& rank) {
  rank.deal([&] {
    if (rank.rank() != rank.root()) {
      rank.send(in(0), rank.root());
      return;
    }
    rank.combine_all(out(0), in(0));
  });
}

void mesh_broadcast(Builder& rank) {
  const bool first = rank.rank() == rank.root();
  rank.deal([&] {
    if (!first) rank.recv(out(0), rank.root());
    for (int turn = 1; first && turn < rank.ranks(); ++turn) rank.send(in(0), rank.ahead(turn));
    if (first) rank.copy(out(0), in(0));
  });
}

// In place, what comes from a peer goes where what goes to it lay: pairs exchange one after another through one `tmp`.
// Ranks a and b meet in turn (a + b) mod p.
void mesh_alltoall(Builder& rank) {
  const int ranks = rank.ranks(), me = rank.rank();
  rank.deal([&] {
    if (rank.shape().in_place) {
      int before = -1;
      for (int turn = 0; turn < ranks; ++turn) {
        const int peer = (turn - me + ranks) % ranks;
        if (peer == me) continue;
        if (before >= 0) rank.wait(before);
        rank.copy(tmp(0, peer), in(peer));
        rank.send(tmp(0, peer), peer);
        rank.recv(out(peer), peer);
        before = peer;
      }
      return;
    }
    for (int turn = 1; turn < ranks; ++turn) rank.send(in(rank.ahead(turn)), rank.ahead(turn));
    rank.copy(out(me), in(me));
    for (int turn = 1; turn < ranks; ++turn) rank.recv(out(rank.ahead(-turn)), rank.ahead(-turn));
  });
}

}  // namespace pycomm::algorithms
