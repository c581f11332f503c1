// Binomial tree. Four ranks, the buffer whole: sums go up to rank 0, the result comes down the same tree.
//
//   up      1 -> 0 and 3 -> 2       0 holds 0+1, 2 holds 2+3
//           2 -> 0                  0 holds (0+1)+(2+3)
//   down    0 -> 2                  the largest subtree first
//           0 -> 1 and 2 -> 3
//
// Two lanes, up and down, both over all segments: while the result of one segment comes down, the next goes up. The
// root's down lane waits `after` its up lane. Rank 0 alone finishes the sum, so all ranks hold the same bits.
//
// Source: MPICH, src/mpi/coll/reduce/reduce_intra_binomial.c and src/mpi/coll/bcast/bcast_intra_binomial.c.
#include "algorithms/algorithms.hpp"

namespace pycomm::algorithms {

namespace {

// The sum of rank's subtree goes to the parent; at rank 0 it is finished. Returns the last step.
int up(Builder& rank) {
  const int ranks = rank.ranks(), me = rank.rank();
  Spot sum = in(0);
  for (int distance = 1; distance < ranks; distance *= 2) {
    if (me & distance) return rank.send(sum, me - distance);
    if (me + distance >= ranks) continue;
    if (sum == in(0))
      rank.combine(out(0), {own(in(0)), message(me + distance)});
    else
      rank.recv_reduce(out(0), me + distance);
    sum = out(0);
  }
  if (ranks == 1) rank.copy(out(0), in(0));
  return rank.scale(out(0));
}

// From the parent to the children, the farthest first.
void down(Builder& rank, int up_lane, int finished) {
  const int ranks = rank.ranks(), me = rank.rank();
  int parent = 1;
  while (parent < ranks && !(me & parent)) parent *= 2;
  if (me == 0)
    rank.after(up_lane, finished);
  else
    rank.recv(out(0), me - parent);
  for (int distance = parent / 2; distance > 0; distance /= 2)
    if (me + distance < ranks) rank.send(out(0), me + distance);
}

}  // namespace

void tree_allreduce(Builder& rank) {
  int finished = -1;
  const int up_lane = rank.lane([&] { finished = up(rank); });
  if (rank.ranks() > 1) rank.lane([&] { down(rank, up_lane, finished); });
}

}  // namespace pycomm::algorithms
