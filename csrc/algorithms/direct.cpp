// Direct. Four ranks, the buffer in four chunks; rank c owns chunk c, and every message goes straight to where it is
// wanted.
//
//   reduce-scatter   0 -> 1: chunk 1, 2: chunk 2, 3: chunk 3     1 -> 2: chunk 2, 3: chunk 3, 0: chunk 0     …
//   sum              the owner combines the four of its chunk in one pass, in rank order
//   all-gather       0 -> 1 2 3: chunk 0     1 -> 2 3 0: chunk 1     …
//
// Two messages one after another whatever the ranks, and the bytes of the ring. One rank sums each chunk, so all hold
// the same bits. In place a chunk comes back only from the owner that took it.
//
// Source: derived; the costs are in FORMULAS (reduce-scatter and all-gather over the mesh). NCCL and MSCCL call its
// kind "all pairs".
#include "algorithms/algorithms.hpp"

namespace pycomm::algorithms {

void direct_allreduce(Builder& rank) {
  const int ranks = rank.ranks(), me = rank.rank();
  rank.chunks(ranks);
  rank.deal([&] {
    for (int turn = 1; turn < ranks; ++turn) rank.send(in(rank.ahead(turn)), rank.ahead(turn));
    std::vector<Operand> operands;
    for (int peer = 0; peer < ranks; ++peer) operands.push_back(peer == me ? own(in(me)) : message(peer));
    rank.combine(out(me), operands);
    rank.scale(out(me));
    for (int turn = 1; turn < ranks; ++turn) rank.send(out(me), rank.ahead(turn));
    for (int turn = 1; turn < ranks; ++turn) rank.recv(out(rank.ahead(-turn)), rank.ahead(-turn));
  });
}

}  // namespace pycomm::algorithms
