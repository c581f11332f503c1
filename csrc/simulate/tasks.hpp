// Runs a graph of tasks on resources: when each starts and finishes.
//
// The rule, ties included. A task arrives at its resource when the last task it waits for finishes. Arrivals are taken
// in order of (time, task number). A resource in order of arrival starts a task at the later of its arrival and the
// end of the task before. A resource by priority chooses when it is free, after all arrivals of that moment, the
// waiting task with the smallest (priority, arrival, task number). A shared resource gives each of k tasks 1/k of its
// rate; tasks that end together end in order of number, before the arrivals of that moment. So the same graph gives
// the same times, bit for bit.
//
// Cost: a task on a resource whose tasks form a chain (each has an edge to the next) never queues, so it is settled
// as soon as its edges are, without a place in the event queue; every other task costs one or two entries of a heap.
#pragma once

#include <vector>

#include "simulate/graph.hpp"

namespace pycomm {

struct Timeline {
  std::vector<double> start_s;
  std::vector<double> finish_s;
  std::vector<std::int32_t> cause;  // the task whose end let this one start, -1 at the beginning: the critical path
  std::vector<std::int32_t> cycle;  // not empty: these tasks wait for each other in this order, and nothing above holds
};

// Raises UsageError for arrays of unequal length, an unknown resource or edge, a duration that is not finite or is
// negative.
Timeline run(const TaskGraph& graph);

}  // namespace pycomm
