"""A job: the named tasks of one iteration, the resources they use, and what each waits for.

`run` repeats the job over workers and iterations in the native event kernel (csrc/simulate/tasks.hpp, where
the tie rule stands) and returns an Outcome: steady-state period, critical path, exposed communication, idle
time.

>>> job = Job(
...     resources=(Resource("compute"), Resource("channel", scope="all")),
...     tasks=(
...         Task("backward", 2.0, "compute", after=(After("update", later=1),)),
...         Task("exchange", 3.0, "channel", after=(After("backward"),), of_worker=False),
...         Task("update", 1.0, "compute", after=(After("exchange"),)),
...     ),
...     marker="update",
... )
>>> run(job, workers=4, iterations=8).period_s
6.0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pycomm import _core
from pycomm.checks import check_positive, check_time, check_whole
from pycomm.errors import UsageError
from pycomm.model.outcome import Outcome


@dataclass(frozen=True)
class Resource:
    """Serves tasks. `scope`: one a "worker", one a "host", or one in "all". `discipline`: "arrival" (one at a
    time, first come first served), "priority" (one at a time, smallest priority first; a task is not
    interrupted, so cut it where it should give way) or "shared" (all at once, each of k at 1/k of the rate).
    `scaled`: takes longer on slow workers."""

    name: str
    scope: str = "worker"
    discipline: str = "arrival"
    scaled: bool = False


@dataclass(frozen=True)
class After:
    """A wait for `task`: of the same iteration, or of the one `later` iterations before the waiting task's."""

    task: str
    later: int = 0

    def __post_init__(self) -> None:
        check_whole(self.later, f"later of the wait for {self.task!r}")


@dataclass(frozen=True)
class Task:
    """`duration_s` on `resource` (None: takes no one's time) once all of `after` have finished.

    `of_worker`: one a worker; else one in all, which waits for every worker and which every worker waits for. Raises
    UsageError, naming the task, for a duration that is not finite or is negative,
    and for a wait that is no After.
    """

    name: str
    duration_s: float
    resource: str | None = None
    after: tuple[After, ...] = ()
    of_worker: bool = True
    priority: int = 0

    def __post_init__(self) -> None:
        check_time(self.duration_s, f"duration_s of task {self.name!r}")
        check_whole(self.priority, f"priority of task {self.name!r}", -(2**31))
        for wait in self.after:
            if not isinstance(wait, After):
                raise UsageError(f"task {self.name!r} waits for {wait!r}, not an After")


@dataclass(frozen=True)
class Job:
    """The tasks of one iteration. `marker` names the task whose end marks the end of an iteration.

    Raises UsageError, naming the tasks, for a name that stands twice, an unknown resource or dependency, and a task of
    all workers on a resource that is not theirs together. A cycle is found by `run`.
    """

    resources: tuple[Resource, ...]
    tasks: tuple[Task, ...]
    marker: str
    _places: Mapping[str, int] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        places: dict[str, int] = {}
        for index, task in enumerate(self.tasks):
            if task.name in places:
                raise UsageError(f"two tasks are named {task.name!r}")
            places[task.name] = index
        object.__setattr__(self, "_places", places)
        scopes = {resource.name: resource.scope for resource in self.resources}
        if len(scopes) < len(self.resources):
            raise UsageError("two resources have the same name")
        for task in self.tasks:
            if task.resource is not None and task.resource not in scopes:
                raise UsageError(f"task {task.name!r} uses unknown resource {task.resource!r}")
            if task.resource is not None and not task.of_worker and scopes[task.resource] != "all":
                raise UsageError(
                    f"task {task.name!r} is one of all workers, but resource {task.resource!r} is one a "
                    f"{scopes[task.resource]}: its scope must be all"
                )
            for wait in task.after:
                if wait.task not in places:
                    raise UsageError(f"task {task.name!r} waits for unknown task {wait.task!r}")
        if self.marker not in places:
            raise UsageError(f"the marker {self.marker!r} is no task")

    def place(self, task: str) -> int:
        """Its place in `tasks`."""
        if task not in self._places:
            raise UsageError(f"unknown task {task!r}")
        return self._places[task]


def template_of(job: Job) -> _core.TaskTemplate:
    """The job as the kernel's template."""
    template = _core.TaskTemplate()
    numbers = {
        resource.name: template.add_resource(resource.scope, resource.discipline, resource.scaled)
        for resource in job.resources
    }
    for task in job.tasks:
        number = -1 if task.resource is None else numbers[task.resource]
        template.add_task(task.duration_s, number, task.of_worker, task.priority)
    for index, task in enumerate(job.tasks):
        for wait in task.after:
            template.add_edge(job.place(wait.task), index, wait.later)
    return template


def run(
    job: Job,
    *,
    workers: int = 1,
    iterations: int = 24,
    workers_per_host: int = 1,
    slowness: Sequence[float] = (),
) -> Outcome:
    """Simulate `iterations` iterations of `workers` workers.

    `slowness` holds a factor a worker for the tasks of scaled resources: 1.5 is a straggler that computes
    half as fast again. `workers_per_host` says who shares a resource of scope "host". Workers that are all
    alike and share nothing but tasks of all may be simulated as one. Raises UsageError for a cycle, naming
    its tasks, for a count below 1 and for a factor that is not positive.
    """
    for name, count in (("workers", workers), ("iterations", iterations), ("workers_per_host", workers_per_host)):
        check_whole(count, name, 1)
    for factor in slowness:
        check_positive(factor, "slowness")
    template = template_of(job)
    graph = template.expand(
        workers=workers, iterations=iterations, workers_per_host=workers_per_host, slowness=list(slowness)
    )
    timeline = _core.run_tasks(graph)
    own = [index for index, task in enumerate(job.tasks) if task.of_worker]
    shared = [index for index, task in enumerate(job.tasks) if not task.of_worker]
    if timeline.cycle:
        an_iteration = workers * len(own) + len(shared)
        names = []
        for number in timeline.cycle:
            place = number % an_iteration
            inside = place < workers * len(own)
            index = own[place % len(own)] if inside else shared[place - workers * len(own)]
            names.append(job.tasks[index].name)
        raise UsageError("tasks wait for each other: " + " -> ".join([*names, names[0]]))
    return Outcome(
        names=tuple(task.name for task in job.tasks),
        resources=tuple(task.resource for task in job.tasks),
        marker=job.place(job.marker),
        own=tuple(own),
        shared=tuple(shared),
        workers=workers,
        iterations=iterations,
        start_s=timeline.start_s,
        finish_s=timeline.finish_s,
        cause=timeline.cause,
    )


def faster(job: Job, resource: str, factor: float = 2.0) -> Job:
    """The job with every task of `resource` `factor` times as fast."""
    if resource not in {one.name for one in job.resources}:
        raise UsageError(f"unknown resource {resource!r}")
    check_positive(factor, "factor")
    tasks = tuple(
        replace(task, duration_s=task.duration_s / factor) if task.resource == resource else task for task in job.tasks
    )
    return replace(job, tasks=tasks)


@dataclass(frozen=True)
class Gain:
    """What a faster resource brings: the period with it, in seconds, and the share of the old one it saves."""

    resource: str
    factor: float
    period_s: float
    saved: float


def gains(
    job: Job,
    *,
    factor: float = 2.0,
    workers: int = 1,
    iterations: int = 24,
    workers_per_host: int = 1,
    slowness: Sequence[float] = (),
) -> tuple[Gain, ...]:
    """Each resource made `factor` times as fast in turn, simulated again; the largest saving first.

    Resources that save equally stand in the job's order. The first one is the bottleneck.
    """

    def period_s(of: Job) -> float:
        return run(
            of, workers=workers, iterations=iterations, workers_per_host=workers_per_host, slowness=slowness
        ).period_s

    before_s = period_s(job)
    found = []
    for resource in job.resources:
        after_s = period_s(faster(job, resource.name, factor))
        saved = 1 - after_s / before_s if before_s else 0.0
        found.append(Gain(resource.name, factor, after_s, saved))
    return tuple(sorted(found, key=lambda gain: -gain.saved))
