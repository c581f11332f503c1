// Ring. Four ranks, the buffer in four chunks; every rank sends to the next and receives from the one before.
//
//   first half, reduce-scatter        rank 0   rank 1   rank 2   rank 3
//     round 0 sends, unsummed         chunk 3  chunk 0  chunk 1  chunk 2
//     round 1 adds its own, sends     chunk 2  chunk 3  chunk 0  chunk 1
//     round 2 adds its own, sends     chunk 1  chunk 2  chunk 3  chunk 0
//     adds its own: complete          chunk 0  chunk 1  chunk 2  chunk 3
//   second half, all-gather: three rounds more in which the complete chunks travel on round the same ring
//
// Each chunk is summed along one path, so all ranks hold the same bits. In place a chunk comes back only after it went
// all the way round, so every earlier send of it has been taken. Segments are dealt to lanes: the hops overlap.
//
// Source: P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 69(2),
// 2009. The halves alone: MPICH, reduce_scatter_intra_pairwise.c (the same costs), allgather_intra_ring.c.
#include "algorithms/algorithms.hpp"

namespace pycomm::algorithms {

namespace {

int chunk_of(const Builder& rank, int rounds_ago) { return rank.ahead(-1 - rounds_ago); }

}  // namespace

void ring_allreduce(Builder& rank) {
  const int ranks = rank.ranks(), me = rank.rank(), next = rank.ahead(1), previous = rank.ahead(-1);
  rank.chunks(ranks);
  rank.deal([&] {
    if (ranks == 1) rank.copy(out(0), in(0));
    if (ranks > 1) rank.send(in(chunk_of(rank, 0)), next);
    for (int round = 1; round < ranks; ++round) {
      const int chunk = chunk_of(rank, round);
      rank.combine(out(chunk), {own(in(chunk)), message(previous)});
      if (round + 1 < ranks) rank.send(out(chunk), next);
    }
    rank.scale(out(me));
    if (ranks > 1) rank.send(out(me), next);
    for (int round = 0; round + 1 < ranks; ++round) {
      rank.recv(out(chunk_of(rank, round)), previous);
      if (round + 2 < ranks) rank.send(out(chunk_of(rank, round)), next);
    }
  });
}

// The first half alone. Sums on their way alternate between two places of `tmp`: before one is sent, the one before
// must have been taken, so that its place is free for the next. (Waiting just before writing would close a circle.)
void ring_reduce_scatter(Builder& rank) {
  const int ranks = rank.ranks(), next = rank.ahead(1), previous = rank.ahead(-1);
  rank.deal([&] {
    if (ranks == 1) rank.copy(out(0), in(0));
    if (ranks > 1) rank.send(in(chunk_of(rank, 0)), next);
    for (int round = 1; round < ranks; ++round) {
      const int chunk = chunk_of(rank, round);
      const bool last = round + 1 == ranks;
      const Spot sum = last ? out(0) : tmp((round - 1) % 2, chunk);
      rank.combine(sum, {own(in(chunk)), message(previous)});
      if (last) break;
      if (round > 1 && round + 2 < ranks) rank.wait(next);
      rank.send(sum, next);
    }
    rank.scale(out(0));
  });
}

// The second half alone.
void ring_allgather(Builder& rank) {
  const int ranks = rank.ranks(), next = rank.ahead(1), previous = rank.ahead(-1);
  rank.deal([&] {
    rank.copy(out(rank.rank()), in(0));
    if (ranks > 1) rank.send(in(0), next);
    for (int round = 1; round < ranks; ++round) {
      rank.recv(out(rank.ahead(-round)), previous);
      if (round + 1 < ranks) rank.send(out(rank.ahead(-round)), next);
    }
  });
}

// A chain from the root round the ring; segments follow one another down it.
void ring_broadcast(Builder& rank) {
  const bool first = rank.rank() == rank.root(), last = rank.ahead(1) == rank.root();
  rank.deal([&] {
    if (first)
      rank.copy(out(0), in(0));
    else
      rank.recv(out(0), rank.ahead(-1));
    if (!last) rank.send(first ? in(0) : out(0), rank.ahead(1));
  });
}

}  // namespace pycomm::algorithms
