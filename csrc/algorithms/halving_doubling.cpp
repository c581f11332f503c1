// Halving and doubling. Four ranks, the buffer in four chunks; at every exchange half as much passes.
//
//   reduce-scatter   0 <-> 1 and 2 <-> 3   halves: 0 and 2 keep chunks 0 1, 1 and 3 keep chunks 2 3, each a sum of two
//                    0 <-> 2 and 1 <-> 3   quarters: 0 keeps chunk 0, 2 chunk 1, 1 chunk 2, 3 chunk 3, each the sum
//   all-gather       the same pairs in the opposite order, each sending all that it has
//
// lg p messages each way, as few as a tree's, and the bytes of the ring; the largest pass between neighbours. One rank
// makes each chunk's sum, so all hold the same bits. Where a rank receives in the all-gather it had sent in the
// reduce-scatter to the same partner, who took it before it had anything to send back: nobody has to wait.
// Other counts, five say: the first pairs fold, 0 -> 1 with the whole buffer, so that a power of two is left (1 2 3 4),
// and 1 -> 0 at the end.
//
// Source: MPICH, src/mpi/coll/allreduce/allreduce_intra_reduce_scatter_allgather.c (Rabenseifner's algorithm).
#include "algorithms/algorithms.hpp"

namespace pycomm::algorithms {

void halving_doubling_allreduce(Builder& rank) {
  const int ranks = rank.ranks(), me = rank.rank();
  int core = 1;
  while (core * 2 <= ranks) core *= 2;
  const int pairs = ranks - core;  // that fold: ranks 2 k and 2 k + 1
  const bool folds = me < 2 * pairs, leaves = folds && me % 2 == 0;
  const int position = folds ? me / 2 : me - pairs;  // within the core
  const auto rank_at = [&](int at) { return at < pairs ? 2 * at + 1 : at + pairs; };
  rank.chunks(core);

  rank.deal([&] {
    if (leaves) {
      rank.send(ins(0, core), me + 1);
      rank.recv(outs(0, core), me + 1);
      return;
    }
    Run held = ins(0, core);
    if (folds) {
      held = outs(0, core);
      rank.combine(held, ins(0, core), me - 1);
    }
    for (int distance = 1; distance < core; distance *= 2) {
      const int half = held.count / 2, partner = rank_at(position ^ distance);
      const bool upper = (position & distance) != 0;
      const Run mine{held.buffer, held.first + (upper ? half : 0), half};
      rank.send(Run{held.buffer, held.first + (upper ? 0 : half), half}, partner);
      held = outs(mine.first, half);
      rank.combine(held, mine, partner);
    }
    const Spot summed = out(held.first);
    if (core == 1) rank.copy(summed, in(0));
    rank.scale(summed);
    for (int distance = core / 2; distance >= 1; distance /= 2) {
      const int partner = rank_at(position ^ distance);
      const bool upper = (position & distance) != 0;
      rank.send(held, partner);
      rank.recv(outs(held.first + (upper ? -held.count : held.count), held.count), partner);
      held = outs(held.first - (upper ? held.count : 0), 2 * held.count);
    }
    if (folds) rank.send(outs(0, core), me - 1);
  });
}

}  // namespace pycomm::algorithms
