"""What a simulated job shows: period, idle time, exposed communication, critical path.

All figures but the critical path are of the second half of the iterations, when the start-up is over; idle
time and exposed communication leave out the last three, in which nothing is read ahead any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pycomm.errors import UsageError

Times = NDArray[np.float64]
_READ_AHEAD = 3  # batches, at most, that a strategy reads ahead


@dataclass(frozen=True)
class Visit:
    """A task on the critical path: it starts when the one before it ends."""

    task: str
    worker: int | None
    iteration: int
    start_s: float
    finish_s: float


@dataclass(frozen=True, eq=False)
class Outcome:
    """Times of every task; `starts(task, worker)` and `finishes` have one entry an iteration, in seconds."""

    names: tuple[str, ...]
    resources: tuple[str | None, ...]
    marker: int
    own: tuple[int, ...]
    shared: tuple[int, ...]
    workers: int
    iterations: int
    start_s: Times
    finish_s: Times
    cause: NDArray[np.int32]

    @property
    def _an_iteration(self) -> int:
        return self.workers * len(self.own) + len(self.shared)

    @cached_property
    def _columns(self) -> dict[str, tuple[bool, int]]:
        columns = {self.names[index]: (True, place) for place, index in enumerate(self.own)}
        columns.update({self.names[index]: (False, place) for place, index in enumerate(self.shared)})
        return columns

    def _column(self, task: str, worker: int) -> int:
        if task not in self._columns:
            raise UsageError(f"unknown task {task!r}")
        if not 0 <= worker < self.workers:
            raise UsageError(f"worker is {worker}; it must be 0 to {self.workers - 1}")
        of_worker, place = self._columns[task]
        return worker * len(self.own) + place if of_worker else self.workers * len(self.own) + place

    def starts(self, task: str, worker: int = 0) -> Times:
        return self.start_s.reshape(self.iterations, self._an_iteration)[:, self._column(task, worker)]

    def finishes(self, task: str, worker: int = 0) -> Times:
        return self.finish_s.reshape(self.iterations, self._an_iteration)[:, self._column(task, worker)]

    @cached_property
    def _ends(self) -> Times:
        """The end of each iteration: when the last worker's marker finishes."""
        name = self.names[self.marker]
        return np.asarray(np.max([self.finishes(name, worker) for worker in range(self.workers)], axis=0))

    @property
    def _window(self) -> tuple[float, float, int]:
        half = self.iterations // 2
        if half < 1:
            raise UsageError("a period needs at least 2 iterations")
        return float(self._ends[-1 - half]), float(self._ends[-1]), half

    @property
    def _steady(self) -> tuple[float, float, int]:
        """As `_window`, but without the last iterations, in which nothing is read ahead any more."""
        begin, end, iterations = self._window
        ahead = min(_READ_AHEAD, iterations - 1)
        return begin, float(self._ends[-1 - ahead]) if ahead else end, iterations - ahead

    @property
    def period_s(self) -> float:
        """The iteration time in the steady state: the mean over the second half of the iterations."""
        begin, end, iterations = self._window
        return (end - begin) / iterations

    @property
    def settled(self) -> bool:
        """Whether the iterations of the second half, taken in two equal parts, last equally long."""
        half = self.iterations // 2
        ends = self._ends[-1 - half :]
        quarter = half // 2
        if quarter == 0:
            return False
        late = ends[-1] - ends[-1 - quarter]
        early = ends[-1 - quarter] - ends[-1 - 2 * quarter]
        return bool(abs(late - early) <= 1e-6 * max(late, early))

    def _busy(self, resource: str, worker: int) -> tuple[Times, Times]:
        """Begin and end of the spans in which the resource, as this worker sees it, works; merged, in order."""
        columns = [
            self._column(name, worker) for name, of in zip(self.names, self.resources, strict=True) if of == resource
        ]
        starts = self.start_s.reshape(self.iterations, self._an_iteration)[:, columns].ravel()
        finishes = self.finish_s.reshape(self.iterations, self._an_iteration)[:, columns].ravel()
        keep = finishes > starts
        return _merged(starts[keep], finishes[keep])

    def idle(self, resource: str, worker: int = 0) -> float:
        """Share of the steady state in which the resource does nothing for this worker: 0 to 1."""
        begin, end, _ = self._steady
        busy = _length_inside(*self._busy(resource, worker), begin, end)
        return 1 - busy / (end - begin) if end > begin else 0.0

    def exposed_s(self, channel: str = "channel", compute: str = "compute", worker: int = 0) -> float:
        """Communication an iteration that computing does not hide: the channel works, the worker's compute stands."""
        begin, end, iterations = self._steady
        talking, computing = self._busy(channel, worker), self._busy(compute, worker)
        both = _length_inside(
            *_merged(np.concatenate([talking[0], computing[0]]), np.concatenate([talking[1], computing[1]])),
            begin,
            end,
        )
        return max(0.0, both - _length_inside(*computing, begin, end)) / iterations

    def critical_path(self) -> tuple[Visit, ...]:
        """The chain of tasks, each waiting for the one before, that leads to the end of the last iteration."""
        ends = [self.finishes(self.names[self.marker], worker)[-1] for worker in range(self.workers)]
        worker = int(np.argmax(ends))
        number = (self.iterations - 1) * self._an_iteration + self._column(self.names[self.marker], worker)
        path = []
        while number >= 0:
            path.append(self._visit(number))
            number = int(self.cause[number])
        return tuple(reversed(path))

    def critical_share(self) -> dict[str, float]:
        """Share of the critical path each resource holds, over the second half of the iterations."""
        begin, end, _ = self._window
        shares: dict[str, float] = {}
        resource_of = dict(zip(self.names, self.resources, strict=True))
        for visit in self.critical_path():
            length = min(visit.finish_s, end) - max(visit.start_s, begin)
            resource = resource_of[visit.task]
            if length > 0 and resource is not None:
                shares[resource] = shares.get(resource, 0.0) + length / (end - begin)
        return shares

    def _visit(self, number: int) -> Visit:
        iteration, place = divmod(number, self._an_iteration)
        inside = place < self.workers * len(self.own)
        worker = place // len(self.own) if inside else None
        index = self.own[place % len(self.own)] if inside else self.shared[place - self.workers * len(self.own)]
        return Visit(self.names[index], worker, iteration, float(self.start_s[number]), float(self.finish_s[number]))


def _merged(starts: Times, finishes: Times) -> tuple[Times, Times]:
    """The union of spans as spans that do not touch."""
    if not len(starts):
        return starts, finishes
    order = np.argsort(starts, kind="stable")
    starts, finishes = starts[order], np.maximum.accumulate(finishes[order])
    fresh = np.concatenate([[True], starts[1:] > finishes[:-1]])
    last = np.concatenate([np.flatnonzero(fresh)[1:] - 1, [len(starts) - 1]])
    return starts[fresh], finishes[last]


def _length_inside(starts: Times, finishes: Times, begin: float, end: float) -> float:
    return float(np.maximum(np.minimum(finishes, end) - np.maximum(starts, begin), 0.0).sum())
