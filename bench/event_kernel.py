"""The task-graph kernel beside a plain heapq loop and SimPy, on the same graph, in one run on one core.

    python bench/event_kernel.py [--workers 1024] [--iterations 20] [--peers-workers 1024]

The graph is synchronous SGD of ResNet-50 with wait-free backward: on every worker, an iteration reads,
copies, runs forward and backward of each of 161 tensors and updates; each tensor's exchange waits for that
tensor's backward on every worker and for the channel. Times of pycomm include building the graph; those of
the peers do not, which is to their advantage. The peers run the graph's first iterations and are compared by
tasks a second, since the whole graph does not fit in memory as Python objects; both are checked to give the
kernel's times.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import resource
import time
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from pycomm import _core
from pycomm.model.tables import table


def template(pieces: int) -> _core.TaskTemplate:
    """Tensor k: 2 time units forward and 4 backward a worker, with an exchange of 5; uneven, so that few ties
    arise."""
    made = _core.TaskTemplate()
    reader = made.add_resource("worker")
    copier = made.add_resource("worker")
    compute = made.add_resource("worker")
    channel = made.add_resource("all")
    read, copy = made.add_task(3e-3, reader), made.add_task(2e-3, copier)
    forward = [made.add_task(2e-5 + 1e-7 * (k % 7), compute) for k in range(pieces)]
    backward = [made.add_task(4e-5 + 1e-7 * (k % 5), compute) for k in range(pieces)]
    exchange = [made.add_task(5e-5 + 1e-7 * (k % 3), channel, of_worker=False) for k in range(pieces)]
    ready = made.add_task(0.0, of_worker=False)
    update = made.add_task(1e-4, compute)
    chain = [*forward, *backward, update]
    for before, after in pairwise(chain):
        made.add_edge(before, after)
    made.add_edge(read, copy)
    made.add_edge(read, read, 1)
    made.add_edge(copy, copy, 1)
    made.add_edge(copy, forward[0])
    made.add_edge(update, forward[0], 1)
    made.add_edge(update, read, 2)
    for source, target in zip(backward, exchange, strict=True):
        made.add_edge(source, target)
        made.add_edge(target, ready)
    made.add_edge(ready, update)
    return made


def as_lists(graph: _core.TaskGraph) -> tuple[list[float], list[int], list[list[int]], list[int]]:
    offsets, targets = graph.edge_offsets, graph.edge_targets.tolist()
    edges = [targets[begin:end] for begin, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]
    waits = np.bincount(graph.edge_targets, minlength=graph.tasks).tolist()
    return graph.duration_s.tolist(), graph.resource.tolist(), edges, waits


def heapq_loop(durations: list[float], resources: list[int], edges: list[list[int]], waits: list[int]) -> list[float]:
    """The plain loop a Python programmer writes: one heap of (time, task) arrivals, resources by their free
    time."""
    ready = [0.0] * len(durations)
    finish = [0.0] * len(durations)
    free = [0.0] * (max(resources) + 1)
    heap = [(0.0, task) for task, count in enumerate(waits) if count == 0]
    heapq.heapify(heap)
    push, pop = heapq.heappush, heapq.heappop
    while heap:
        now, task = pop(heap)
        place = resources[task]
        if place >= 0:
            if free[place] > now:
                now = free[place]
            end = free[place] = now + durations[task]
        else:
            end = now + durations[task]
        finish[task] = end
        for target in edges[task]:
            if end > ready[target]:
                ready[target] = end
            waits[target] -= 1
            if waits[target] == 0:
                push(heap, (ready[target], target))
    return finish


def simpy_run(durations: list[float], resources: list[int], edges: list[list[int]], waits: list[int]) -> list[float]:
    """A process a task, a simpy.Resource a resource: the graph as SimPy's documentation would write it."""
    import simpy

    world = simpy.Environment()
    servers = [simpy.Resource(world, capacity=1) for _ in range(max(resources) + 1)]
    finish = [0.0] * len(durations)

    def process(task: int) -> Iterator[simpy.Event]:
        if resources[task] < 0:
            yield world.timeout(durations[task])
        else:
            with servers[resources[task]].request() as turn:
                yield turn
                yield world.timeout(durations[task])
        finish[task] = world.now
        for target in edges[task]:
            waits[target] -= 1
            if waits[target] == 0:
                world.process(process(target))

    for task in [task for task, count in enumerate(waits) if count == 0]:
        world.process(process(task))
    world.run()
    return finish


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=1024)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--peer-iterations", type=int, default=2)
    parser.add_argument("--simpy-workers", type=int, default=256)
    given = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    pattern = template(table("resnet50").tensors)

    kernel_s = []
    for _ in range(3):
        begin, cpu = time.perf_counter(), time.process_time()
        graph = pattern.expand(workers=given.workers, iterations=given.iterations)
        built, built_cpu = time.perf_counter(), time.process_time()
        line = _core.run_tasks(graph)
        kernel_s.append((time.perf_counter() - begin, built - begin, time.process_time() - cpu, built_cpu - cpu))
        tasks, last = graph.tasks, float(line.finish_s.max())
        del graph, line
    best = min(kernel_s, key=lambda row: row[2])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    rates = {}
    for name, run, workers in (
        ("heapq", heapq_loop, given.workers),
        ("simpy", simpy_run, given.simpy_workers),
    ):
        small = pattern.expand(workers=workers, iterations=given.peer_iterations)
        wanted = _core.run_tasks(small).finish_s
        lists = as_lists(small)
        cpu = time.process_time()
        finish = run(*lists)
        rates[name] = small.tasks / (time.process_time() - cpu)
        off = float(np.abs(np.array(finish) - wanted).max())
        if off > 1e-9:
            raise SystemExit(f"{name}: finish times differ by {off} s")
    ours = tasks / best[2]
    print(
        json.dumps(
            {
                "tasks": tasks,
                "wall_s": round(best[0], 3),
                "cpu_s": round(best[2], 3),
                "build_cpu_s": round(best[3], 3),
                "peak_bytes": peak,
                "simulated_s": last,
                "tasks_per_s": round(ours),
                "heapq_tasks_per_s": round(rates["heapq"]),
                "simpy_tasks_per_s": round(rates["simpy"]),
                "times_heapq": round(ours / rates["heapq"], 1),
                "times_simpy": round(ours / rates["simpy"], 1),
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
