// Hierarchical: inside each host first, then between hosts, so that a host's network card carries as little as can be.
//
// Even hosts, scattered. Four ranks, hosts {0, 1} and {2, 3}; the buffer in 2 groups of 2 chunks, group l belongs to
// the l-th rank of every host.
//
//   inside    reduce-scatter of groups round the host's ring     0 and 2 hold group 0, 1 and 3 group 1, host-wide sums
//   between   all-reduce of group l round the l-th ranks         0 <-> 2: chunks 0 and 1     1 <-> 3: chunks 2 and 3
//   inside    all-gather of groups round the host's ring
//
// Uneven hosts, through leaders. Hosts {0, 1, 2} and {3}; the buffer in 2 chunks, one a host.
//
//   inside    up a binomial tree to the host's first rank         1 -> 0, 2 -> 0
//   between   all-reduce round the leaders                        0 <-> 3
//   inside    down the same tree                                  0 -> 2, 0 -> 1
//
// A group travels as many messages, one a host. Two hosts of two send n bytes out of each host; a ring in host order
// sends 1.5 n, one that alternates hosts 3 n. Each chunk is summed along one path, so all ranks hold the same bits. In
// place a chunk comes back only after everyone on its path took it.
//
// Source: derived; the costs are those of its parts (ring: Patarasuk & Yuan 2009; binomial tree: MPICH).
#include <algorithm>

#include "algorithms/algorithms.hpp"

namespace pycomm::algorithms {

namespace {

// Ranks by host, hosts in the order of their first rank.
std::vector<std::vector<int>> members(const Builder& rank) {
  const std::vector<int>& hosts = rank.shape().hosts;
  std::vector<std::vector<int>> found;
  std::vector<int> names;
  for (int other = 0; other < rank.ranks(); ++other) {
    const int host = hosts.empty() ? 0 : hosts[static_cast<std::size_t>(other)];
    const auto name = std::find(names.begin(), names.end(), host);
    if (name == names.end()) {
      names.push_back(host);
      found.emplace_back();
    }
    found[static_cast<std::size_t>(std::find(names.begin(), names.end(), host) - names.begin())].push_back(other);
  }
  return found;
}

struct Position {
  int host;
  int local;
};

Position position_of(const std::vector<std::vector<int>>& hosts, int rank) {
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    const auto found = std::find(hosts[host].begin(), hosts[host].end(), rank);
    if (found != hosts[host].end()) return {static_cast<int>(host), static_cast<int>(found - hosts[host].begin())};
  }
  return {0, 0};
}

int modulo(int value, int size) { return (value % size + size) % size; }

// All-reduce round `ring`, where this rank stands at `me`, of the chunks first, first + 1, …, one a member; each
// member's own share is in `mine`. The sum of a chunk is finished at one member and travels on from there.
void between_hosts(Builder& rank, const std::vector<int>& ring, int me, int first, bool reduced) {
  const int size = static_cast<int>(ring.size());
  const auto mine = [&](int chunk) { return reduced ? out(chunk) : in(chunk); };
  const auto chunk_of = [&](int rounds_ago) { return first + modulo(me - 1 - rounds_ago, size); };
  if (size == 1) {
    if (!reduced) rank.copy(out(first), in(first));
    rank.scale(out(first));
    return;
  }
  const int next = ring[static_cast<std::size_t>(modulo(me + 1, size))];
  const int previous = ring[static_cast<std::size_t>(modulo(me - 1, size))];
  rank.send(mine(chunk_of(0)), next);
  for (int round = 1; round < size; ++round) {
    if (reduced)
      rank.recv_reduce(out(chunk_of(round)), previous);
    else
      rank.combine(out(chunk_of(round)), {own(in(chunk_of(round))), message(previous)});
    if (round + 1 < size) rank.send(out(chunk_of(round)), next);
  }
  rank.scale(out(first + me));
  rank.send(out(first + me), next);
  for (int round = 0; round + 1 < size; ++round) {
    rank.recv(out(chunk_of(round)), previous);
    if (round + 2 < size) rank.send(out(chunk_of(round)), next);
  }
}

void scattered(Builder& rank, const std::vector<std::vector<int>>& hosts) {
  const auto [host, local] = position_of(hosts, rank.rank());
  const int many = static_cast<int>(hosts.size());
  const std::vector<int>& here = hosts[static_cast<std::size_t>(host)];
  const int size = static_cast<int>(here.size());
  const int next = here[static_cast<std::size_t>(modulo(local + 1, size))];
  const int previous = here[static_cast<std::size_t>(modulo(local - 1, size))];
  const auto group_of = [&, me = local](int rounds_ago) { return modulo(me - 1 - rounds_ago, size) * many; };
  rank.chunks(size * many);

  std::vector<int> ring;
  for (const std::vector<int>& other : hosts) ring.push_back(other[static_cast<std::size_t>(local)]);
  // One send, one receive, in turn: a ring of ranks that all send twice first would wait for each other.
  rank.deal([&, host = host, local = local] {
    for (int round = 0; round + 1 < size; ++round)
      for (int part = 0; part < many; ++part) {
        const int sent = group_of(round) + part, summed = group_of(round + 1) + part;
        rank.send(round > 0 ? out(sent) : in(sent), next);
        rank.combine(out(summed), {own(in(summed)), message(previous)});
      }
    between_hosts(rank, ring, host, local * many, size > 1);
    for (int round = 0; round + 1 < size; ++round)
      for (int part = 0; part < many; ++part) {
        rank.send(out((round > 0 ? group_of(round - 1) : local * many) + part), next);
        rank.recv(out(group_of(round) + part), previous);
      }
  });
}

void through_leaders(Builder& rank, const std::vector<std::vector<int>>& hosts) {
  const auto [host, local] = position_of(hosts, rank.rank());
  const std::vector<int>& here = hosts[static_cast<std::size_t>(host)];
  const int many = static_cast<int>(hosts.size()), size = static_cast<int>(here.size());
  std::vector<int> leaders, children;
  for (const std::vector<int>& other : hosts) leaders.push_back(other.front());
  int distance = 1;
  for (; distance < size && !(local & distance); distance *= 2)
    if (local + distance < size) children.push_back(here[static_cast<std::size_t>(local + distance)]);
  const int parent = local > 0 ? here[static_cast<std::size_t>(local - distance)] : -1;
  rank.chunks(many);

  rank.deal([&, host = host] {
    for (int chunk = 0; chunk < many; ++chunk) {
      std::vector<Operand> operands = {own(in(chunk))};
      for (int child : children) operands.push_back(message(child));
      if (!children.empty()) rank.combine(out(chunk), operands);
      if (parent >= 0) rank.send(children.empty() ? in(chunk) : out(chunk), parent);
    }
    if (parent < 0) between_hosts(rank, leaders, host, 0, !children.empty());
    for (int chunk = 0; chunk < many; ++chunk) {
      if (parent >= 0) rank.recv(out(chunk), parent);
      for (auto child = children.rbegin(); child != children.rend(); ++child) rank.send(out(chunk), *child);
    }
  });
}

}  // namespace

void hierarchical_allreduce(Builder& rank) {
  const auto hosts = members(rank);
  const bool even = std::all_of(hosts.begin(), hosts.end(),
                                [&](const std::vector<int>& host) { return host.size() == hosts.front().size(); });
  if (even)
    scattered(rank, hosts);
  else
    through_leaders(rank, hosts);
}

}  // namespace pycomm::algorithms
