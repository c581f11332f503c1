// Recursive doubling. Four ranks, the buffer whole; partners exchange what they have and both add.
//
//   distance 1   0 <-> 1 and 2 <-> 3     each holds the sum of its pair
//   distance 2   0 <-> 2 and 1 <-> 3     each holds (0+1)+(2+3)
//
// Both partners make the same sum, so all hold the same bits though each adds for itself. The partner may still be
// reading what was sent, so sums alternate between `out` and `tmp` and a place is written again only when the partner
// before the last is known to be done; the places are chosen so that the last sum is made in `out`.
// Other counts, five say: the first pairs fold, 0 -> 1, so that a power of two is left (1 2 3 4), and 1 -> 0 at the
// end.
//
// Source: MPICH, src/mpi/coll/allreduce/allreduce_intra_recursive_doubling.c; R. Thakur et al., IJHPCA 19(1), 2005.
#include "algorithms/algorithms.hpp"

namespace pycomm::algorithms {

void recursive_doubling_allreduce(Builder& rank) {
  const int ranks = rank.ranks(), me = rank.rank();
  int core = 1, exchanges = 0;
  for (; core * 2 <= ranks; core *= 2) ++exchanges;
  const int pairs = ranks - core;  // that fold: ranks 2 k and 2 k + 1
  const bool folds = me < 2 * pairs, leaves = folds && me % 2 == 0;
  const int position = folds ? me / 2 : me - pairs;  // within the core
  const auto rank_at = [&](int at) { return at < pairs ? 2 * at + 1 : at + pairs; };
  // The sums 1 … exchanges alternate so that the last is in `out`; 0 is what there is before.
  const auto sum = [&](int number) { return (exchanges - number) % 2 == 0 ? out(0) : tmp(0, 0); };
  const bool in_is_first_sum = rank.shape().in_place && exchanges > 0 && sum(1) == out(0);

  rank.deal([&] {
    if (leaves) {
      rank.send(in(0), me + 1);
      rank.recv(out(0), me + 1);
      return;
    }
    Spot held = in(0);
    if (folds) {
      held = sum(0);
      rank.combine(held, {own(in(0)), message(me - 1)});
    } else if (in_is_first_sum) {
      held = tmp(0, 0);
      rank.copy(held, in(0));
    }
    for (int number = 1; number <= exchanges; ++number) {
      const int partner = rank_at(position ^ (1 << (number - 1)));
      rank.send(held, partner);
      const bool sent_from_there = number > 2 || (number == 2 && (folds || rank.shape().in_place));
      if (sent_from_there) rank.wait(rank_at(position ^ (1 << (number - 2))));
      rank.combine(sum(number), {own(held), message(partner)});
      held = sum(number);
    }
    if (exchanges == 0 && !folds) rank.copy(out(0), in(0));
    rank.scale(out(0));
    if (folds) rank.send(out(0), me - 1);
  });
}

}  // namespace pycomm::algorithms
