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
// A reduce is the same with all chunks coming back to the root alone; a broadcast begins with the root giving each
// owner its chunk.
//
// Source: derived; the costs are in FORMULAS (reduce-scatter and all-gather over the mesh). NCCL and MSCCL call its
// kind "all pairs".
#include "algorithms/algorithms.hpp"

namespace pycomm::algorithms {

namespace {

// Each rank sums its chunk in `sum`.
void reduce_own_chunk(Builder& rank, Spot sum) {
  for (int turn = 1; turn < rank.ranks(); ++turn) rank.send(in(rank.ahead(turn)), rank.ahead(turn));
  rank.combine_all(sum, in(rank.rank()));
}

}  // namespace

void direct_allreduce(Builder& rank) {
  const int ranks = rank.ranks(), me = rank.rank();
  rank.chunks(ranks);
  rank.deal([&] {
    reduce_own_chunk(rank, out(me));
    for (int turn = 1; turn < ranks; ++turn) rank.send(out(me), rank.ahead(turn));
    for (int turn = 1; turn < ranks; ++turn) rank.recv(out(rank.ahead(-turn)), rank.ahead(-turn));
  });
}

void direct_reduce(Builder& rank) {
  const int ranks = rank.ranks(), me = rank.rank(), root = rank.root();
  rank.chunks(ranks);
  rank.deal([&] {
    const Spot sum = me == root ? out(me) : tmp(0, me);
    reduce_own_chunk(rank, sum);
    if (me != root) rank.send(sum, root);
    for (int turn = 1; me == root && turn < ranks; ++turn) rank.recv(out(rank.ahead(-turn)), rank.ahead(-turn));
  });
}

void direct_broadcast(Builder& rank) {
  const int ranks = rank.ranks(), me = rank.rank(), root = rank.root();
  rank.chunks(ranks);
  rank.deal([&] {
    if (me == root) {
      for (int turn = 1; turn < ranks; ++turn) rank.send(in(rank.ahead(turn)), rank.ahead(turn));
      for (int turn = 1; turn < ranks; ++turn) rank.send(in(me), rank.ahead(turn));
      for (int chunk = 0; chunk < ranks; ++chunk) rank.copy(out(chunk), in(chunk));
      return;
    }
    rank.recv(out(me), root);
    for (int turn = 1; turn < ranks; ++turn)
      if (rank.ahead(turn) != root) rank.send(out(me), rank.ahead(turn));
    for (int turn = 1; turn < ranks; ++turn) rank.recv(out(rank.ahead(-turn)), rank.ahead(-turn));
  });
}

}  // namespace pycomm::algorithms
