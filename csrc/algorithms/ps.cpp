// Parameter servers. Four ranks, two of them (0 and 1) servers too; server s owns chunk s of the two.
//
//   push    0 -> 1: chunk 1              1 -> 0: chunk 0
//           2 -> 1: chunk 1, 0: chunk 0  3 -> 0: chunk 0, 1: chunk 1
//   sum     0 combines chunk 0 of ranks 0 1 2 3, 1 combines chunk 1, each in one pass in rank order
//   pull    0 sends chunk 0 to 1, 2, 3   1 sends chunk 1 to 2, 3, 0
//
// `servers=k` of them; with `dedicated` they are the last k ranks, which pass no buffers and sum in `tmp`. One rank
// sums each chunk, so all hold the same bits. In place a chunk comes back only from the server that took it.
//
// Source: M. Li et al., "Scaling distributed machine learning with the parameter server", OSDI 2014; as compared in
// arXiv 1909.02061.
#include "algorithms/algorithms.hpp"

namespace pycomm::algorithms {

void ps_allreduce(Builder& rank) {
  const int me = rank.rank(), workers = rank.workers(), servers = rank.option("servers", 1);
  const int first_server = workers < rank.ranks() ? workers : 0;
  const bool works = me < workers, serves = me >= first_server && me < first_server + servers;
  const int mine = me - first_server;
  rank.chunks(servers);
  if (!works) rank.passes_no_buffers();

  rank.deal([&] {
    if (works)
      for (int turn = 1; turn <= servers; ++turn)
        if (const int chunk = (me + turn) % servers; first_server + chunk != me)
          rank.send(in(chunk), first_server + chunk);

    if (serves) {
      const Spot sum = works ? out(mine) : tmp(0, mine);
      rank.combine_all(sum, in(mine));
      for (int turn = 1; turn <= workers; ++turn)
        if (const int worker = (mine + turn) % workers; worker != me) rank.send(sum, worker);
    }

    // In the order in which the servers' turns reach this rank; with more servers than workers several share a turn.
    if (works)
      for (int turn = 1; turn <= workers; ++turn)
        for (int chunk = (me - turn + workers) % workers; chunk < servers; chunk += workers)
          if (first_server + chunk != me) rank.recv(out(chunk), first_server + chunk);
  });
}

}  // namespace pycomm::algorithms
