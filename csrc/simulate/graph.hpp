// A graph of tasks on resources, and the template it is usually made from.
//
// A task takes `duration_s` of its resource after all tasks with an edge to it have finished. Task numbers are their
// places in the arrays. An iterative job is written once as a template: the tasks of one iteration, those of a worker
// and those shared by all, with edges that may reach into later iterations; expand() repeats it.
#pragma once

#include <cstdint>
#include <vector>

namespace pycomm {

inline constexpr std::int32_t kNoResource = -1;  // a task that waits for nothing but its edges

enum class Discipline : std::uint8_t {
  arrival,   // one at a time, in order of arrival
  priority,  // one at a time, of those waiting the one with the smallest priority, then arrival
  shared,    // all at once, each of k at 1/k of the rate
};

struct TaskGraph {
  std::vector<double> duration_s;
  std::vector<std::int32_t> resource;
  std::vector<std::int32_t> priority;      // empty: all 0
  std::vector<std::int64_t> edge_offsets;  // edges of task t: [edge_offsets[t], edge_offsets[t + 1])
  std::vector<std::int32_t> edge_targets;
  std::vector<Discipline> disciplines;  // one a resource

  std::int64_t tasks() const { return static_cast<std::int64_t>(duration_s.size()); }
};

enum class Scope : std::uint8_t { worker, host, all };

struct TemplateResource {
  Scope scope = Scope::worker;  // one a worker, one a host, or one in all
  Discipline discipline = Discipline::arrival;
  bool scaled = false;  // tasks on it take longer on slow workers
};

struct TemplateTask {
  double duration_s = 0;
  std::int32_t resource = kNoResource;
  std::int32_t priority = 0;
  bool of_worker = true;  // one a worker; else one for all of them
};

struct TemplateEdge {
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::int32_t later = 0;  // iterations between the two tasks
};

struct Template {
  std::vector<TemplateResource> resources;
  std::vector<TemplateTask> tasks;  // a chain on one resource in its order, so that it needs no queue
  std::vector<TemplateEdge> edges;
};

struct Repeat {
  std::int32_t workers = 1;
  std::int32_t workers_per_host = 1;
  std::int32_t iterations = 1;
  std::vector<double> slowness;  // one factor a worker for its scaled tasks; empty: all 1
};

// The tasks of iteration i begin at i × (workers × own + shared): the own tasks of worker 0, 1, …, then the shared
// ones, each group in the template's order. An edge between a worker's task and a shared one holds for every worker.
// Raises UsageError for an edge or a resource that does not exist, and beyond 2^31 tasks.
TaskGraph expand(const Template& pattern, const Repeat& repeat);

// Number of the first own or shared task of every template task, and the distance between workers (0: shared).
struct Layout {
  std::vector<std::int32_t> place;  // template task → its place among a worker's own, or among the shared ones
  std::int32_t own = 0;             // tasks a worker and iteration
  std::int32_t shared = 0;          // shared tasks an iteration
  std::int64_t an_iteration = 0;    // tasks an iteration in all
  std::int64_t number(std::int32_t task, bool of_worker, std::int32_t workers, std::int32_t worker,
                      std::int32_t iteration) const {
    const std::int64_t begin = iteration * an_iteration;
    return of_worker ? begin + static_cast<std::int64_t>(worker) * own + place[static_cast<std::size_t>(task)]
                     : begin + static_cast<std::int64_t>(workers) * own + place[static_cast<std::size_t>(task)];
  }
};

Layout layout_of(const Template& pattern, std::int32_t workers);

}  // namespace pycomm
