#include <limits>
#include <string>

#include "base/error.hpp"
#include "simulate/graph.hpp"

namespace pycomm {

namespace {

void check(const Template& pattern, const Repeat& repeat) {
  const auto tasks = static_cast<std::int32_t>(pattern.tasks.size());
  const auto resources = static_cast<std::int32_t>(pattern.resources.size());
  if (repeat.workers < 1 || repeat.iterations < 1 || repeat.workers_per_host < 1)
    throw UsageError("workers, workers_per_host and iterations must be at least 1");
  if (!repeat.slowness.empty() && repeat.slowness.size() != static_cast<std::size_t>(repeat.workers))
    throw UsageError("slowness has " + std::to_string(repeat.slowness.size()) + " factors for " +
                     std::to_string(repeat.workers) + " workers");
  for (std::int32_t task = 0; task < tasks; ++task) {
    const TemplateTask& it = pattern.tasks[static_cast<std::size_t>(task)];
    if (it.resource != kNoResource && (it.resource < 0 || it.resource >= resources))
      throw UsageError("task " + std::to_string(task) + " uses unknown resource " + std::to_string(it.resource));
    if (!(it.duration_s >= 0) || it.duration_s == std::numeric_limits<double>::infinity())
      throw UsageError("task " + std::to_string(task) + " has no finite duration that is not negative");
    if (it.resource != kNoResource && !it.of_worker &&
        pattern.resources[static_cast<std::size_t>(it.resource)].scope != Scope::all)
      throw UsageError("task " + std::to_string(task) + " is shared, so its resource must be too");
  }
  for (const TemplateEdge& edge : pattern.edges)
    if (edge.from < 0 || edge.from >= tasks || edge.to < 0 || edge.to >= tasks || edge.later < 0)
      throw UsageError("edge from task " + std::to_string(edge.from) + " to task " + std::to_string(edge.to) + ", " +
                       std::to_string(edge.later) + " iterations later: no such task or time");
}

struct ResourcePlaces {
  std::vector<std::int32_t> first;
  std::int32_t total = 0;
};

std::int32_t copies(Scope scope, const Repeat& repeat) {
  switch (scope) {
    case Scope::worker: return repeat.workers;
    case Scope::host: return (repeat.workers + repeat.workers_per_host - 1) / repeat.workers_per_host;
    case Scope::all: return 1;
  }
  return 1;
}

// One edge of the template as seen from its source: which targets, relative to the source's iteration.
struct Out {
  std::int32_t to_place;
  std::int32_t later;
  bool to_worker;
};

}  // namespace

Layout layout_of(const Template& pattern, std::int32_t workers) {
  Layout layout;
  for (const TemplateTask& task : pattern.tasks)
    layout.place.push_back(task.of_worker ? layout.own++ : layout.shared++);
  layout.an_iteration = static_cast<std::int64_t>(workers) * layout.own + layout.shared;
  return layout;
}

TaskGraph expand(const Template& pattern, const Repeat& repeat) {
  check(pattern, repeat);
  const Layout layout = layout_of(pattern, repeat.workers);
  const std::int64_t total = layout.an_iteration * repeat.iterations;
  if (total >= std::numeric_limits<std::int32_t>::max()) throw UsageError("more than 2^31 tasks");

  TaskGraph graph;
  ResourcePlaces places;
  for (const TemplateResource& resource : pattern.resources) {
    places.first.push_back(places.total);
    const std::int32_t count = copies(resource.scope, repeat);
    places.total += count;
    graph.disciplines.insert(graph.disciplines.end(), static_cast<std::size_t>(count), resource.discipline);
  }

  // Tasks in the order they are numbered, each with its outgoing edges.
  std::vector<std::int32_t> own, shared;
  std::vector<std::vector<Out>> outs(pattern.tasks.size());
  for (std::size_t task = 0; task < pattern.tasks.size(); ++task)
    (pattern.tasks[task].of_worker ? own : shared).push_back(static_cast<std::int32_t>(task));
  std::int64_t edges = 0;
  bool prioritised = false;
  for (const TemplateTask& task : pattern.tasks) prioritised |= task.priority != 0;
  for (const TemplateEdge& edge : pattern.edges) {
    const TemplateTask& from = pattern.tasks[static_cast<std::size_t>(edge.from)];
    const TemplateTask& to = pattern.tasks[static_cast<std::size_t>(edge.to)];
    outs[static_cast<std::size_t>(edge.from)].push_back(
        {layout.place[static_cast<std::size_t>(edge.to)], edge.later, to.of_worker});
    const std::int64_t times = repeat.iterations - edge.later;
    edges += times > 0 ? times * (from.of_worker || to.of_worker ? repeat.workers : 1) : 0;
  }

  graph.duration_s.reserve(static_cast<std::size_t>(total));
  graph.resource.reserve(static_cast<std::size_t>(total));
  graph.edge_offsets.reserve(static_cast<std::size_t>(total) + 1);
  graph.edge_targets.reserve(static_cast<std::size_t>(edges));
  if (prioritised) graph.priority.reserve(static_cast<std::size_t>(total));

  const std::int64_t shared_begin = static_cast<std::int64_t>(repeat.workers) * layout.own;
  auto add = [&](std::int32_t index, std::int32_t worker, std::int32_t iteration) {
    const TemplateTask& task = pattern.tasks[static_cast<std::size_t>(index)];
    std::int32_t resource = task.resource;
    double duration_s = task.duration_s;
    if (resource != kNoResource) {
      const TemplateResource& of = pattern.resources[static_cast<std::size_t>(resource)];
      resource = places.first[static_cast<std::size_t>(resource)];
      if (of.scope == Scope::worker) resource += worker;
      if (of.scope == Scope::host) resource += worker / repeat.workers_per_host;
      if (of.scaled && !repeat.slowness.empty() && task.of_worker)
        duration_s *= repeat.slowness[static_cast<std::size_t>(worker)];
    }
    graph.duration_s.push_back(duration_s);
    graph.resource.push_back(resource);
    if (prioritised) graph.priority.push_back(task.priority);
    graph.edge_offsets.push_back(static_cast<std::int64_t>(graph.edge_targets.size()));
    for (const Out& out : outs[static_cast<std::size_t>(index)]) {
      if (iteration + out.later >= repeat.iterations) continue;
      const std::int64_t begin = layout.an_iteration * (iteration + out.later);
      if (!out.to_worker)
        graph.edge_targets.push_back(static_cast<std::int32_t>(begin + shared_begin + out.to_place));
      else if (task.of_worker)
        graph.edge_targets.push_back(
            static_cast<std::int32_t>(begin + static_cast<std::int64_t>(worker) * layout.own + out.to_place));
      else
        for (std::int32_t other = 0; other < repeat.workers; ++other)
          graph.edge_targets.push_back(
              static_cast<std::int32_t>(begin + static_cast<std::int64_t>(other) * layout.own + out.to_place));
    }
  };
  for (std::int32_t iteration = 0; iteration < repeat.iterations; ++iteration) {
    for (std::int32_t worker = 0; worker < repeat.workers; ++worker)
      for (std::int32_t index : own) add(index, worker, iteration);
    for (std::int32_t index : shared) add(index, 0, iteration);
  }
  graph.edge_offsets.push_back(static_cast<std::int64_t>(graph.edge_targets.size()));
  return graph;
}

}  // namespace pycomm
