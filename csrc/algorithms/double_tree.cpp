// Double tree. Four ranks, the buffer in two chunks; each goes up and down a binary tree of its own, and a rank inside
// one tree is a leaf of the other, so that every port is busy in both directions.
//
//   chunk 0    0 — 2 — 1, 3      1 -> 2, 3 -> 2, 2 -> 0, and back     (inside: 0 and 2)
//   chunk 1    3 — 1 — 2, 0      2 -> 1, 0 -> 1, 1 -> 3, and back     (inside: 3 and 1, the first tree mirrored)
//
// Four lanes, up and down for each tree, all over all segments. A parent adds its children in one pass. One rank
// finishes each chunk, so all hold the same bits. For an odd count the second tree is the first moved on by one rank.
//
// Source: P. Sanders, J. Speck, J. L. Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
// Parallel Computing 35(12), 2009; the shape of the trees: NCCL, src/graph/trees.cc.
#include "algorithms/algorithms.hpp"

namespace pycomm::algorithms {

namespace {

// The tree on positions 0 … count − 1: 0 is the root with one child, and a position's lowest set bit is its height.
int parent_of(int position, int count) {
  const int height = position & -position;
  const int above = (position ^ height) | (height << 1);
  return above < count ? above : position ^ height;
}

std::vector<int> children_of(int position, int count) {
  std::vector<int> children;
  for (int height = 1; height < count && (position == 0 || height < (position & -position)); height *= 2)
    for (const int child : {position - height, position + height})
      if (child > 0 && child < count && parent_of(child, count) == position) children.push_back(child);
  return children;
}

struct Tree {
  int count;
  bool second;
  int position_of(int rank) const {
    return !second ? rank : count % 2 == 0 ? count - 1 - rank : (rank + count - 1) % count;
  }
  int rank_at(int position) const {
    return !second ? position : count % 2 == 0 ? count - 1 - position : (position + 1) % count;
  }
};

}  // namespace

void double_tree_allreduce(Builder& rank) {
  const int ranks = rank.ranks();
  rank.chunks(2);
  for (int chunk = 0; chunk < 2; ++chunk) {
    const Tree tree{ranks, chunk == 1};
    const int me = tree.position_of(rank.rank());
    std::vector<int> children;
    for (const int child : children_of(me, ranks)) children.push_back(tree.rank_at(child));
    const int parent = me > 0 ? tree.rank_at(parent_of(me, ranks)) : -1;

    int finished = -1;
    const int up = rank.lane([&] {
      std::vector<Operand> operands{own(in(chunk))};
      for (const int child : children) operands.push_back(message(child));
      if (!children.empty() || me == 0) rank.combine(out(chunk), operands);
      if (me == 0)
        finished = rank.scale(out(chunk));
      else
        finished = rank.send(children.empty() ? in(chunk) : out(chunk), parent);
    });
    if (ranks == 1) continue;
    rank.lane([&] {
      if (me == 0 || !children.empty()) rank.after(up, finished);  // both lanes write `out`
      if (me > 0) rank.recv(out(chunk), parent);
      for (const int child : children) rank.send(out(chunk), child);
    });
  }
}

}  // namespace pycomm::algorithms
