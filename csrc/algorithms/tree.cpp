// Binomial tree. Four ranks, the buffer whole: sums go up to rank 0, the result comes down the same tree.
//
//   up      1 -> 0 and 3 -> 2       0 holds 0+1, 2 holds 2+3
//           2 -> 0                  0 holds (0+1)+(2+3)
//   down    0 -> 2                  the largest subtree first
//           0 -> 1 and 2 -> 3
//
// Two lanes, up and down, both over all segments: while the result of one segment comes down, the next goes up. Where
// both write `out`, the down lane comes `after` the up lane. Rank 0 alone finishes the sum, so all hold the same bits.
//
// Source: MPICH, src/mpi/coll/reduce/reduce_intra_binomial.c and src/mpi/coll/bcast/bcast_intra_binomial.c.
#include "algorithms/algorithms.hpp"

namespace pycomm::algorithms {

namespace {

// Ranks are counted from the root: position 0.
int position_of(const Builder& rank) { return rank.ahead(-rank.root()); }
int rank_at(const Builder& rank, int position) { return (position + rank.root()) % rank.ranks(); }

// The sum of this rank's subtree, made in `partial`, goes to the parent; at the root it is finished. Returns the last
// step.
int up(Builder& rank, Spot partial) {
  const int ranks = rank.ranks(), me = position_of(rank);
  Spot sum = in(0);
  for (int distance = 1; distance < ranks; distance *= 2) {
    if (me & distance) return rank.send(sum, rank_at(rank, me - distance));
    if (me + distance >= ranks) continue;
    const int child = rank_at(rank, me + distance);
    if (sum == in(0))
      rank.combine(partial, {own(in(0)), message(child)});
    else
      rank.recv_reduce(partial, child);
    sum = partial;
  }
  if (ranks == 1) rank.copy(partial, in(0));
  return rank.scale(partial);
}

// From the parent, or from `root_has`, to the children: the farthest first.
void down(Builder& rank, Spot root_has) {
  const int ranks = rank.ranks(), me = position_of(rank);
  int parent = 1;
  while (parent < ranks && !(me & parent)) parent *= 2;
  if (me > 0) rank.recv(out(0), rank_at(rank, me - parent));
  for (int distance = parent / 2; distance > 0; distance /= 2)
    if (me + distance < ranks) rank.send(me > 0 ? out(0) : root_has, rank_at(rank, me + distance));
}

}  // namespace

void tree_allreduce(Builder& rank) {
  int finished = -1;
  const int up_lane = rank.lane([&] { finished = up(rank, out(0)); });
  if (rank.ranks() == 1) return;
  rank.lane([&] {
    if (rank.rank() % 2 == 0 && rank.rank() + 1 < rank.ranks()) rank.after(up_lane, finished);  // it has children
    down(rank, out(0));
  });
}

void tree_broadcast(Builder& rank) {
  rank.deal([&] {
    down(rank, in(0));
    if (rank.rank() == rank.root()) rank.copy(out(0), in(0));
  });
}

// Only the root has an output: the others sum in `tmp`.
void tree_reduce(Builder& rank) {
  rank.deal([&] { up(rank, rank.rank() == rank.root() ? out(0) : tmp(0, 0)); });
}

}  // namespace pycomm::algorithms
