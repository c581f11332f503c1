"""The event kernel: schedules worked out by hand, and random graphs against a plain loop written here."""

from __future__ import annotations

import heapq

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pycomm import _core
from pycomm.errors import UsageError
from pycomm.model import After, Job, Resource, Task, faster, gains, run

PROFILE = settings(max_examples=120, deadline=None, derandomize=True)


def graph_of(durations, resources, edges, disciplines, priorities=()):
    tasks = len(durations)
    targets = [[] for _ in range(tasks)]
    for source, target in edges:
        targets[source].append(target)
    offsets = np.cumsum([0] + [len(one) for one in targets])
    return _core.TaskGraph(
        duration_s=np.array(durations, float),
        resource=np.array(resources, np.int32),
        priority=np.array(priorities, np.int32),
        edge_offsets=offsets,
        edge_targets=np.array([target for one in targets for target in one], np.int32),
        disciplines=list(disciplines),
    )


def plain_loop(durations, resources, edges, disciplines, priorities):
    """Clock by clock, as the rule in tasks.hpp is written: arrivals of a moment by number, then the
    choices."""
    waits = [0] * len(durations)
    targets = [[] for _ in durations]
    for source, target in edges:
        targets[source].append(target)
        waits[target] += 1
    events = [(0.0, 0, task) for task, count in enumerate(waits) if count == 0]  # 0 arrives, 1 ends, 2 choose
    heapq.heapify(events)
    queue = [[] for _ in disciplines]
    busy = [0.0] * len(disciplines)
    start, finish = {}, {}

    def begin(task, now):
        start[task], finish[task] = now, now + durations[task]
        for target in targets[task]:
            ready[target] = max(ready.get(target, 0.0), finish[task])
            waits[target] -= 1
            if waits[target] == 0:
                heapq.heappush(events, (ready[target], 0, target))

    ready = {}
    while events:
        now, kind, number = heapq.heappop(events)
        if kind == 0 and resources[number] < 0:
            begin(number, now)
        elif kind == 0:
            place = resources[number]
            key = (priorities[number], now, number) if disciplines[place] == "priority" else (now, number)
            heapq.heappush(queue[place], (key, number))
            heapq.heappush(events, (max(now, busy[place]), 2, place))
        elif queue[number] and busy[number] <= now:
            task = heapq.heappop(queue[number])[1]
            begin(task, now)
            busy[number] = finish[task]
            if queue[number]:
                heapq.heappush(events, (busy[number], 2, number))
    return [start[task] for task in range(len(durations))], [finish[task] for task in range(len(durations))]


@st.composite
def graphs(draw):
    tasks = draw(st.integers(1, 24))
    kinds = draw(st.lists(st.sampled_from(["arrival", "priority"]), min_size=1, max_size=3))
    durations = draw(st.lists(st.integers(1, 9).map(float), min_size=tasks, max_size=tasks))
    resources = draw(st.lists(st.integers(-1, len(kinds) - 1), min_size=tasks, max_size=tasks))
    priorities = draw(st.lists(st.integers(0, 3), min_size=tasks, max_size=tasks))
    pairs = st.tuples(st.integers(0, tasks - 1), st.integers(0, tasks - 1)).filter(lambda pair: pair[0] < pair[1])
    edges = draw(st.lists(pairs, max_size=40, unique=True)) if tasks > 1 else []
    if draw(st.booleans()):
        edges = sorted({*edges, *((task, task + 1) for task in range(tasks - 1))})
    return durations, resources, edges, kinds, priorities


@PROFILE
@given(graphs())
def test_random_graphs_run_as_the_plain_loop_runs_them(made):
    durations, resources, edges, kinds, priorities = made
    line = _core.run_tasks(graph_of(durations, resources, edges, kinds, priorities))
    start, finish = plain_loop(durations, resources, edges, kinds, priorities)
    assert line.start_s.tolist() == start
    assert line.finish_s.tolist() == finish


@PROFILE
@given(graphs())
def test_every_cause_ends_when_its_task_starts(made):
    durations, resources, edges, kinds, priorities = made
    line = _core.run_tasks(graph_of(durations, resources, edges, kinds, priorities))
    for task, cause in enumerate(line.cause):
        assert line.start_s[task] == (line.finish_s[cause] if cause >= 0 else 0.0)


def test_the_same_graph_gives_the_same_bits():
    random = np.random.default_rng(5)
    durations = random.random(400)
    edges = [(a, b) for a, b in random.integers(0, 400, (900, 2)) if a < b]
    runs = [_core.run_tasks(graph_of(durations, [0, 1] * 200, edges, ["arrival", "priority"])) for _ in range(3)]
    assert len({line.finish_s.tobytes() for line in runs}) == 1


def test_arrivals_of_one_moment_are_served_by_number():
    line = _core.run_tasks(graph_of([2, 2, 2], [0, 0, 0], [], ["arrival"]))
    assert line.finish_s.tolist() == [2, 4, 6]


def test_a_lower_priority_number_goes_first_but_interrupts_nobody():
    # task 0 is served at once; 1 (priority 5) and 2 (priority 1) arrive meanwhile
    line = _core.run_tasks(graph_of([4, 1, 1, 1], [0, 0, 0, -1], [(3, 1), (3, 2)], ["priority"], [9, 5, 1, 0]))
    assert line.start_s.tolist() == [0, 5, 4, 0]


def test_a_shared_resource_gives_each_its_part():
    # 3 s of work from 0, 1 s of work from 1: together from 1 to 3 at half rate, then the first alone
    line = _core.run_tasks(graph_of([3, 1, 1], [0, 0, -1], [(2, 1)], ["shared"]))
    assert line.finish_s.tolist() == [4, 3, 1]


def test_three_that_share_end_in_the_order_of_their_work():
    # work 1, 2, 3 from 0: rate 1/3 until 3, 1/2 until 5, then alone until 6
    line = _core.run_tasks(graph_of([3, 2, 1], [0, 0, 0], [], ["shared"]))
    assert line.finish_s.tolist() == pytest.approx([6, 5, 3])


def test_a_cycle_names_its_tasks():
    job = Job(
        (Resource("compute"),),
        (
            Task("a", 1.0, "compute", (After("c"),)),
            Task("b", 1.0, "compute", (After("a"),)),
            Task("c", 1.0, "compute", (After("b"),)),
            Task("d", 1.0, "compute", (After("c"),)),
            Task("e", 1.0, "compute"),
        ),
        "d",
    )
    with pytest.raises(UsageError, match="a -> b -> c -> a"):
        run(job, workers=2)


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ((Task("a", 1.0, "compute", (After("gone"),)),), "'a' waits for unknown task 'gone'"),
        ((Task("a", 1.0, "tape"),), "'a' uses unknown resource 'tape'"),
        ((Task("a", 1.0), Task("a", 1.0)), "two tasks are named 'a'"),
        (
            (Task("a", 1.0, "compute", of_worker=False),),
            "'a' is one of all workers, but resource 'compute' is one a worker",
        ),
    ],
)
def test_a_job_refuses_names_it_does_not_know(tasks, message):
    with pytest.raises(UsageError, match=message):
        Job((Resource("compute"),), tasks, "a")


@pytest.mark.parametrize("duration", [-1.0, float("nan"), float("inf"), True, "1"])
def test_durations_are_numbers_finite_and_not_negative(duration):
    with pytest.raises(UsageError, match="duration_s of task 'a' is"):
        Task("a", duration, "compute")


def test_a_wait_of_an_earlier_iteration_is_a_whole_number():
    for later in (-1, 1.5, True):
        with pytest.raises(UsageError, match="later of the wait for 'a'"):
            After("a", later)


@pytest.mark.parametrize("after", ["b", ("b",)])
def test_a_wait_is_an_after(after):
    with pytest.raises(UsageError, match="task 'a' waits for 'b', not an After"):
        Task("a", 1.0, after=after)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"workers": 0}, "workers is 0; it must be 1 to"),
        ({"workers": True}, "workers is True, not a whole number"),
        ({"workers": 1.5}, "workers is 1.5, not a whole number"),
        ({"iterations": 2**40}, "iterations is 1099511627776; it must be 1 to"),
        ({"iterations": 2**31 - 1}, "more than 2"),
        ({"workers_per_host": 0}, "workers_per_host is 0"),
        ({"slowness": [1.0, 1.0]}, "2 factors for 1 workers"),
        ({"slowness": [0.0]}, "slowness is 0.0"),
        ({"slowness": [float("nan")]}, "slowness is nan"),
    ],
)
def test_a_run_refuses_counts_and_factors_that_are_none(told, message):
    with pytest.raises(UsageError, match=message):
        run(pipeline(), **told)


def test_an_outcome_knows_its_workers_alone():
    outcome = run(pipeline(), workers=2, iterations=2)
    assert outcome.finishes("work", 1)[0] == 4.0
    for worker in (-1, 2):
        with pytest.raises(UsageError, match="it must be 0 to 1"):
            outcome.finishes("work", worker)


def pipeline() -> Job:
    """Two stages by hand: read 3 s, compute 1 s, one batch ahead. The reader sets the period."""
    return Job(
        (Resource("disk"), Resource("compute")),
        (
            Task("read", 3.0, "disk", (After("read", later=1), After("work", later=2))),
            Task("work", 1.0, "compute", (After("read"), After("work", later=1))),
        ),
        "work",
    )


def test_the_period_idle_time_and_critical_path_of_a_pipeline():
    outcome = run(pipeline(), iterations=8)
    assert outcome.period_s == 3.0
    assert outcome.settled
    assert outcome.idle("disk") == pytest.approx(0.0)
    assert outcome.idle("compute") == pytest.approx(2 / 3)
    path = outcome.critical_path()
    assert [visit.task for visit in path] == ["read"] * 8 + ["work"]
    assert path[-1].finish_s == 25.0
    assert outcome.critical_share()["disk"] > 0.9


def test_the_bottleneck_is_what_twice_as_fast_helps_most():
    first, second = gains(pipeline())
    assert (first.resource, first.period_s, first.saved) == ("disk", 1.5, 0.5)
    assert (second.resource, second.saved) == ("compute", 0.0)
    assert run(faster(pipeline(), "disk", 6.0)).period_s == 1.0


def test_half_as_fast_twice_as_long():
    job = pipeline()
    assert run(faster(job, "disk", 0.5)).period_s == 6.0
    with pytest.raises(UsageError, match="unknown resource 'tape'"):
        faster(job, "tape")


def test_edges_reach_every_worker_and_later_iterations():
    template = _core.TaskTemplate()
    compute, channel = template.add_resource("worker", scaled=True), template.add_resource("all")
    work = template.add_task(1.0, compute)
    talk = template.add_task(0.5, channel, of_worker=False)
    template.add_edge(work, talk)
    template.add_edge(talk, work, 1)
    template.add_edge(work, work, 1)
    graph = template.expand(workers=3, iterations=2, slowness=[1.0, 2.0, 1.0])
    assert graph.tasks == 8
    assert graph.edge_targets.tolist() == [3, 4, 3, 5, 3, 6, 4, 5, 6, 7, 7, 7]
    assert _core.run_tasks(graph).finish_s.tolist() == [1, 2, 1, 2.5, 3.5, 4.5, 3.5, 5.0]
    assert [template.number(talk, 3, 0, 1), template.number(work, 3, 2, 1)] == [7, 6]
