#include "algorithms/registry.hpp"

#include <algorithm>

#include "algorithms/algorithms.hpp"
#include "base/error.hpp"

namespace pycomm {

namespace {

using enum Collective;

const std::vector<AlgorithmRow>& rows() {
  using namespace algorithms;
  static const std::vector<AlgorithmRow> table = {
      {.name = "ring",
       .alias = "",
       .display = "ring",
       .summary = "reduce-scatter, then all-gather, round a ring",
       .source = "Patarasuk & Yuan, JPDC 69(2), 2009",
       .variants = {{allreduce, ring_allreduce},
                    {reduce_scatter, ring_reduce_scatter},
                    {allgather, ring_allgather},
                    {broadcast, ring_broadcast}},
       .options = {}},
      {.name = "tree",
       .alias = "",
       .display = "tree",
       .summary = "up a binomial tree to one rank and down again",
       .source = "MPICH reduce_intra_binomial.c, bcast_intra_binomial.c",
       .variants = {{allreduce, tree_allreduce}, {broadcast, tree_broadcast}, {reduce, tree_reduce}},
       .options = {}},
      {.name = "double-tree",
       .alias = "",
       .display = "double-tree",
       .summary = "two binary trees, each with half the data",
       .source = "Sanders, Speck & Träff, Parallel Computing 35(12), 2009",
       .variants = {{allreduce, double_tree_allreduce}},
       .options = {}},
      {.name = "recursive-doubling",
       .alias = "",
       .display = "recursive-doubling",
       .summary = "partners at doubling distance exchange all and add",
       .source = "MPICH allreduce_intra_recursive_doubling.c; Thakur et al. 2005",
       .variants = {{allreduce, recursive_doubling_allreduce}},
       .options = {}},
      {.name = "halving-doubling",
       .alias = "",
       .display = "halving-doubling",
       .summary = "partners exchange halves, quarters, … and gather them back",
       .source = "MPICH allreduce_intra_reduce_scatter_allgather.c; Thakur et al. 2005",
       .variants = {{allreduce, halving_doubling_allreduce}},
       .options = {}},
      {.name = "ps",
       .alias = "",
       .display = "ps",
       .summary = "parameter servers, each sums one part",
       .source = "Li et al., OSDI 2014; arXiv 1909.02061",
       .variants = {{allreduce, ps_allreduce}},
       .options = {{"servers", "how many servers share the buffer", 1},
                   {"dedicated", "the servers are the last ranks, which pass no buffers", -1}}},
      {.name = "mesh",
       .alias = "p2p",
       .display = "mesh (p2p)",
       .summary = "everyone sends all to everyone and sums for itself",
       .source = "peer to peer of arXiv 1909.02061",
       .variants = {{allreduce, mesh_allreduce},
                    {reduce_scatter, mesh_reduce_scatter},
                    {allgather, mesh_allgather},
                    {reduce, mesh_reduce},
                    {broadcast, mesh_broadcast},
                    {alltoall, mesh_alltoall}},
       .options = {}},
      {.name = "direct",
       .alias = "",
       .display = "direct",
       .summary = "reduce-scatter, then all-gather, over the mesh",
       .source = "derived",
       .variants = {{allreduce, direct_allreduce}, {reduce, direct_reduce}, {broadcast, direct_broadcast}},
       .options = {}},
      {.name = "hierarchical",
       .alias = "",
       .display = "hierarchical",
       .summary = "inside each host, then between hosts",
       .source = "derived",
       .variants = {{allreduce, hierarchical_allreduce}},
       .options = {}},
  };
  return table;
}

int servers_of(const Shape& shape) {
  const auto given = shape.options.find("servers");
  return given == shape.options.end() ? 1 : given->second;
}

void set_chunks(Schedule& schedule, int chunks) {
  schedule.chunks = equal_blocks(schedule.collective) ? schedule.ranks : chunks;
  schedule.in_chunks = schedule.collective == allgather ? 1 : schedule.chunks;
  schedule.out_chunks = schedule.collective == reduce_scatter ? 1 : schedule.chunks;
}

}  // namespace

std::span<const AlgorithmRow> registry() { return rows(); }

const AlgorithmRow& algorithm_row(std::string_view name) {
  std::string names;
  for (const AlgorithmRow& row : rows()) {
    if (row.name == name || (!row.alias.empty() && row.alias == name)) return row;
    names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  throw UsageError("unknown algorithm '" + std::string(name) + "': one of " + names);
}

std::string canonical_options(const AlgorithmRow& row, const Options& options) {
  const std::string name(row.name);
  std::string text;
  const auto append = [&text](const std::string& item) { text += (text.empty() ? "" : ",") + item; };
  std::size_t known = 0;
  for (const OptionRow& option : row.options) {
    const auto given = options.find(std::string(option.name));
    known += given != options.end();
    const int value = given == options.end() ? option.otherwise : given->second;
    if (option.otherwise < 0) {
      if (given != options.end() && value != 0 && value != 1)
        throw UsageError(name + ": option '" + given->first + "' is a flag and takes no value, got " +
                         std::to_string(value));
      if (value == 1) append(std::string(option.name));
      continue;
    }
    if (value < 1)
      throw UsageError(name + ": option '" + std::string(option.name) + "' must be at least 1, got " +
                       std::to_string(value));
    append(std::string(option.name) + "=" + std::to_string(value));
  }
  if (known == options.size()) return text;
  std::string unknown, names;
  for (const OptionRow& option : row.options) names += (names.empty() ? "" : ", ") + std::string(option.name);
  for (const auto& [option, value] : options)
    if (std::none_of(row.options.begin(), row.options.end(), [&](const OptionRow& r) { return r.name == option; }))
      unknown = option;
  throw UsageError(name + ": unknown option '" + unknown + "': " + (names.empty() ? "it has none" : "one of " + names));
}

std::optional<std::string> refusal(const AlgorithmRow& row, const Shape& shape) {
  const std::string name(row.name);
  if (std::none_of(row.variants.begin(), row.variants.end(),
                   [&](const Variant& variant) { return variant.collective == shape.collective; }))
    return name + ": has no " + std::string(name_of(shape.collective));
  if (shape.options.contains("dedicated") && shape.options.at("dedicated") == 1 && servers_of(shape) == shape.ranks)
    return name + ": needs a worker: all of the " + std::to_string(shape.ranks) + " ranks are dedicated servers";
  return std::nullopt;
}

Schedule build(std::string_view algorithm, const Shape& shape, int most_ranks) {
  const AlgorithmRow& row = algorithm_row(algorithm);
  const std::string name(row.name);
  const auto need = [&](bool right, const std::string& what, int found) {
    if (!right) throw UsageError(name + ": " + what + ", got " + std::to_string(found));
  };
  need(shape.ranks >= 1 && shape.ranks <= most_ranks, "ranks must be 1 to " + std::to_string(most_ranks), shape.ranks);
  need(shape.segments >= 1, "segments must be at least 1", shape.segments);
  need(shape.lanes >= 1, "lanes must be at least 1", shape.lanes);
  need(shape.hosts.empty() || static_cast<int>(shape.hosts.size()) == shape.ranks,
       "hosts must name one a rank, " + std::to_string(shape.ranks), static_cast<int>(shape.hosts.size()));
  need(shape.root >= 0 && shape.root < shape.ranks, "root must be a rank, below " + std::to_string(shape.ranks),
       shape.root);
  Schedule schedule;
  schedule.options = canonical_options(row, shape.options);
  if (shape.options.contains("servers"))
    need(servers_of(shape) <= shape.ranks,
         "option 'servers' must be at most the " + std::to_string(shape.ranks) + " ranks", servers_of(shape));
  if (const auto reason = refusal(row, shape)) throw UsageError(*reason);
  Shape asked = shape;
  asked.root = has_root(shape.collective) ? shape.root : 0;
  const bool dedicated = shape.options.contains("dedicated") && shape.options.at("dedicated") == 1;

  schedule.algorithm = name;
  schedule.collective = shape.collective;
  schedule.ranks = shape.ranks;
  schedule.workers = shape.ranks - (dedicated ? servers_of(shape) : 0);
  schedule.root = asked.root;
  schedule.segments = shape.segments;
  schedule.in_place = shape.in_place;
  const auto variant = std::find_if(row.variants.begin(), row.variants.end(),
                                    [&](const Variant& v) { return v.collective == shape.collective; });
  schedule.programs.reserve(static_cast<std::size_t>(shape.ranks));
  for (int rank = 0; rank < shape.ranks; ++rank) {
    algorithms::Builder builder(asked, rank, schedule.workers, rank > 0 ? &schedule.programs.back() : nullptr);
    variant->program(builder);
    set_chunks(schedule, builder.chunks());
    schedule.programs.push_back(builder.finish());
    schedule.tmp_chunks = std::max(schedule.tmp_chunks, schedule.programs.back().tmp_chunks);
    schedule.longest_run = std::max(schedule.longest_run, builder.longest_run());
  }
  return schedule;
}

}  // namespace pycomm
