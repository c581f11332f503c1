#include "simulate/tasks.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>

#include "base/error.hpp"
#include "simulate/event_heap.hpp"

namespace pycomm {

namespace {

using Task = std::int32_t;

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

// What happens at one moment, in this order.
enum class Kind : std::uint8_t { completion, arrival, choice };

struct Event {
  double time_s;
  Kind kind;
  Task number;            // task of an arrival; resource of the others
  std::uint32_t version;  // of a completion: a later arrival makes it stale
  bool operator<(const Event& other) const {
    return std::tie(time_s, kind, number, version) < std::tie(other.time_s, other.kind, other.number, other.version);
  }
};

struct Waiting {
  std::int32_t priority;
  double arrival_s;
  Task task;
  bool operator<(const Waiting& other) const {
    return std::tie(priority, arrival_s, task) < std::tie(other.priority, other.arrival_s, other.task);
  }
};

struct Sharing {
  double done_at;  // the work a task would have had alone when it ends
  Task task;
  bool operator<(const Sharing& other) const { return std::tie(done_at, task) < std::tie(other.done_at, other.task); }
};

struct Resource {
  Discipline discipline = Discipline::arrival;
  bool chained = false;
  bool choosing = false;  // a choice is in the event queue
  double free_s = 0;
  Task last = -1;
  EventHeap<Waiting> waiting;
  // shared: work done so far by each task served since the beginning, as of `seen_s`
  EventHeap<Sharing> sharing;
  double work = 0;
  double seen_s = 0;
  std::int32_t active = 0;
  std::uint32_t version = 0;
};

class Run {
 public:
  explicit Run(const TaskGraph& graph) : graph_(graph), resources_(graph.disciplines.size()) {
    check();
    const auto tasks = at(graph.tasks());
    result_.start_s.assign(tasks, 0.0);
    result_.finish_s.resize(tasks);
    result_.cause.assign(tasks, -1);
    waits_for_.assign(tasks, 0);
    for (Task target : graph.edge_targets) ++waits_for_[at(target)];
    for (std::size_t index = 0; index < resources_.size(); ++index)
      resources_[index].discipline = graph.disciplines[index];
    find_chains();
  }

  Timeline run() {
    // Waits are counted down while tasks settle, so the tasks that wait for nothing are noted first.
    std::vector<Task> first;
    for (Task task = 0; task < graph_.tasks(); ++task)
      if (waits_for_[at(task)] == 0) first.push_back(task);
    for (Task task : first) arrive(task);
    settle();
    while (!events_.empty()) {
      const Event event = events_.pop();
      switch (event.kind) {
        case Kind::arrival: serve(event.number); break;
        case Kind::choice: choose(event.number); break;
        case Kind::completion: complete(event); break;
      }
      settle();
    }
    if (done_ != graph_.tasks()) find_cycle();
    return std::move(result_);
  }

 private:
  void check() const {
    const std::int64_t tasks = graph_.tasks();
    const auto resources = static_cast<std::int64_t>(graph_.disciplines.size());
    if (static_cast<std::int64_t>(graph_.resource.size()) != tasks ||
        static_cast<std::int64_t>(graph_.edge_offsets.size()) != tasks + 1 ||
        (!graph_.priority.empty() && static_cast<std::int64_t>(graph_.priority.size()) != tasks))
      throw UsageError("task graph: duration, resource, priority and edge arrays have unequal lengths");
    for (std::int64_t task = 0; task < tasks; ++task) {
      const std::int32_t resource = graph_.resource[at(task)];
      if (resource < kNoResource || resource >= resources)
        throw UsageError("task " + std::to_string(task) + " uses unknown resource " + std::to_string(resource));
      const double duration_s = graph_.duration_s[at(task)];
      if (!(duration_s >= 0) || std::isinf(duration_s))
        throw UsageError("task " + std::to_string(task) + " has no finite duration that is not negative");
      if (graph_.edge_offsets[at(task)] > graph_.edge_offsets[at(task + 1)])
        throw UsageError("task " + std::to_string(task) + " has a negative number of edges");
    }
    if (graph_.edge_offsets.front() != 0 ||
        graph_.edge_offsets.back() != static_cast<std::int64_t>(graph_.edge_targets.size()))
      throw UsageError("task graph: edge offsets do not cover the edges");
    for (Task target : graph_.edge_targets)
      if (target < 0 || target >= tasks) throw UsageError("edge to unknown task " + std::to_string(target));
  }

  bool has_edge(Task from, Task to) const {
    const auto* begin = graph_.edge_targets.data() + graph_.edge_offsets[at(from)];
    const auto* end = graph_.edge_targets.data() + graph_.edge_offsets[at(from) + 1];
    return std::find(begin, end, to) != end;
  }

  void find_chains() {
    for (Resource& resource : resources_) {
      resource.chained = resource.discipline != Discipline::shared;
      resource.last = -1;
    }
    for (Task task = 0; task < graph_.tasks(); ++task) {
      const std::int32_t index = graph_.resource[at(task)];
      if (index == kNoResource) continue;
      Resource& resource = resources_[at(index)];
      if (resource.chained && resource.last >= 0) resource.chained = has_edge(resource.last, task);
      resource.last = task;
    }
    for (Resource& resource : resources_) resource.last = -1;
  }

  // All that `task` waits for is over; start_s holds when.
  void arrive(Task task) {
    const std::int32_t index = graph_.resource[at(task)];
    if (index == kNoResource || resources_[at(index)].chained)
      finish(task, result_.start_s[at(task)] + graph_.duration_s[at(task)]);
    else
      events_.push({result_.start_s[at(task)], Kind::arrival, task, 0});
  }

  void finish(Task task, double time_s) {
    result_.finish_s[at(task)] = time_s;
    settled_.push_back(task);
  }

  // Hands the ends of finished tasks on to the tasks that wait for them.
  void settle() {
    while (!settled_.empty()) {
      const Task task = settled_.back();
      settled_.pop_back();
      ++done_;
      const double time_s = result_.finish_s[at(task)];
      const std::int64_t end = graph_.edge_offsets[at(task) + 1];
      for (std::int64_t edge = graph_.edge_offsets[at(task)]; edge < end; ++edge) {
        const Task target = graph_.edge_targets[at(edge)];
        if (time_s >= result_.start_s[at(target)]) {
          result_.start_s[at(target)] = time_s;
          result_.cause[at(target)] = task;
        }
        if (--waits_for_[at(target)] == 0) arrive(target);
      }
    }
  }

  void start(Resource& resource, Task task, double time_s) {
    if (resource.free_s > result_.start_s[at(task)] && resource.last >= 0) result_.cause[at(task)] = resource.last;
    result_.start_s[at(task)] = time_s;
    resource.free_s = time_s + graph_.duration_s[at(task)];
    resource.last = task;
    finish(task, resource.free_s);
  }

  void serve(Task task) {
    const std::int32_t index = graph_.resource[at(task)];
    Resource& resource = resources_[at(index)];
    const double time_s = result_.start_s[at(task)];
    switch (resource.discipline) {
      case Discipline::arrival: start(resource, task, std::max(time_s, resource.free_s)); break;
      case Discipline::priority:
        resource.waiting.push({graph_.priority.empty() ? 0 : graph_.priority[at(task)], time_s, task});
        if (!resource.choosing) events_.push({std::max(time_s, resource.free_s), Kind::choice, index, 0});
        resource.choosing = true;
        break;
      case Discipline::shared:
        share(resource, time_s);
        ++resource.active;
        resource.sharing.push({resource.work + graph_.duration_s[at(task)], task});
        await(resource, index, time_s);
        break;
    }
  }

  void choose(std::int32_t index) {
    Resource& resource = resources_[at(index)];
    const Task task = resource.waiting.pop().task;
    start(resource, task, std::max(resource.free_s, result_.start_s[at(task)]));
    resource.choosing = !resource.waiting.empty();
    if (resource.choosing) events_.push({resource.free_s, Kind::choice, index, 0});
  }

  // Shared service: advances the work every active task has received to `time_s`.
  static void share(Resource& resource, double time_s) {
    if (resource.active > 0) resource.work += (time_s - resource.seen_s) / resource.active;
    resource.seen_s = time_s;
  }

  void await(Resource& resource, std::int32_t index, double now_s) {
    const double left = resource.sharing.top().done_at - resource.work;
    events_.push({now_s + std::max(0.0, left) * resource.active, Kind::completion, index, ++resource.version});
  }

  void complete(const Event& event) {
    Resource& resource = resources_[at(event.number)];
    if (event.version != resource.version) return;
    const Sharing ended = resource.sharing.pop();
    resource.work = ended.done_at;
    resource.seen_s = event.time_s;
    --resource.active;
    finish(ended.task, event.time_s);
    if (resource.active > 0) await(resource, event.number, event.time_s);
  }

  // Follows edges among the tasks that never arrived until one comes up twice.
  void find_cycle() {
    enum : std::uint8_t { unseen, open, closed };
    std::vector<std::uint8_t> state(at(graph_.tasks()), unseen);
    std::vector<std::pair<Task, std::int64_t>> path;
    for (Task root = 0; root < graph_.tasks(); ++root) {
      if (waits_for_[at(root)] == 0 || state[at(root)] != unseen) continue;
      path.assign(1, {root, graph_.edge_offsets[at(root)]});
      state[at(root)] = open;
      while (!path.empty()) {
        auto& [task, edge] = path.back();
        if (edge == graph_.edge_offsets[at(task) + 1]) {
          state[at(task)] = closed;
          path.pop_back();
          continue;
        }
        const Task target = graph_.edge_targets[at(edge++)];
        if (waits_for_[at(target)] == 0 || state[at(target)] == closed) continue;
        if (state[at(target)] == open) {
          const auto first = std::find_if(path.begin(), path.end(), [&](auto& it) { return it.first == target; });
          for (auto it = first; it != path.end(); ++it) result_.cycle.push_back(it->first);
          return;
        }
        state[at(target)] = open;
        path.push_back({target, graph_.edge_offsets[at(target)]});
      }
    }
  }

  const TaskGraph& graph_;
  Timeline result_;
  std::vector<Resource> resources_;
  std::vector<std::int32_t> waits_for_;
  std::vector<Task> settled_;
  EventHeap<Event> events_;
  std::int64_t done_ = 0;
};

}  // namespace

Timeline run(const TaskGraph& graph) { return Run(graph).run(); }

}  // namespace pycomm
