"""The parts every strategy builds its job from: one worker's input, forward, backward and update.

Resources: `input` reads batches, `copy` brings them to the device, `compute` is the device's stream,
`channel` moves gradients. Tasks: `io`, `h2d`, `f0 … fN`, `loss`, `bN … b0`, `u`, and the strategy's own on
the channel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pycomm.checks import check_bytes, check_time
from pycomm.errors import UsageError
from pycomm.model.costs import Cost
from pycomm.model.gradients import Gradient
from pycomm.model.plans import Plan
from pycomm.model.tasks import After, Job, Resource, Task
from pycomm.trace.trace import Trace


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What strategies may be told. Sizes in bytes, times in seconds.

    `separate_input`: reading and copying are stages of their own, else one behind the other. `shared_input`:
    workers of a host share the reader. `concurrent`: messages share the channel's rate instead of queueing.
    `copy_seconds_per_byte`: packing into and out of a fusion buffer. Raises UsageError for a size or time that is none.
    """

    separate_input: bool = False
    shared_input: bool = False
    concurrent: bool = False
    threshold_bytes: int = 128 << 20
    cycle_s: float = 1e-3
    first_bucket_bytes: int = 1 << 20
    bucket_bytes: int = 25 << 20
    partition_bytes: int = 4 << 20
    copy_seconds_per_byte: float = 0.0

    def __post_init__(self) -> None:
        for name in ("threshold_bytes", "first_bucket_bytes", "bucket_bytes", "partition_bytes"):
            object.__setattr__(self, name, check_bytes(getattr(self, name), name))
        for name in ("cycle_s", "copy_seconds_per_byte"):
            check_time(getattr(self, name), name)
        if self.partition_bytes < 1:
            raise UsageError("partition_bytes must be at least 1")


@dataclass
class Iteration:
    """A job in the making. `update_in_forward`: the layer's share of the update runs before its next forward."""

    trace: Trace
    settings: Settings
    prefetch: bool = True
    channel: str = "arrival"
    update_in_forward: bool = False
    tasks: list[Task] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.trace.forward_known:
            raise UsageError(f"trace {self.trace.name}: forward times are unknown; calibrate it first")
        if not self.trace.layers:
            raise UsageError(f"trace {self.trace.name} has no layers")

    def before_forward(self) -> list[After]:
        """What the first forward of an iteration waits for: its input, and the update of the iteration before."""
        waits = [After("h2d")]
        return waits if self.update_in_forward else [*waits, After("u", later=1)]

    def build(self, forward_waits: Callable[[int], Sequence[After]] = lambda layer: ()) -> None:
        """Input, forward and backward. `forward_waits(layer)`: what else a layer's forward waits for."""
        self._input()
        layers = self.trace.layers
        readers, feeders = self._neighbours()
        for index, layer in enumerate(layers):
            waits = [After(f"f{before}") for before in feeders[index]]
            if not feeders[index]:
                waits = self.before_forward()
            duration_s = (layer.forward_s or 0.0) + self._update_of(index)
            self._compute(f"f{index}", duration_s, [*waits, *forward_waits(index)])
        ends = [After(f"f{index}") for index in range(len(layers)) if not readers[index]]
        self.tasks.append(Task("loss", 0.0, None, tuple(ends)))
        for index in range(len(layers) - 1, -1, -1):
            waits = [After(f"b{reader}") for reader in readers[index]] or [After("loss")]
            self._compute(f"b{index}", layers[index].backward_s, waits)

    def exchange(
        self,
        name: str,
        duration_s: float,
        after: Sequence[After],
        *,
        priority: int = 0,
    ) -> None:
        """A message of all workers on the channel."""
        self.tasks.append(Task(name, duration_s, "channel", tuple(after), of_worker=False, priority=priority))

    def update(self, after: Sequence[After]) -> None:
        """The update of all layers, after the exchanges and the worker's own backward."""
        done = [After(f"b{index}") for index, waits in enumerate(self._neighbours()[1]) if not waits]
        self.tasks.append(Task("exchanged", 0.0, None, (*after, *done), of_worker=True))
        self._compute("u", self.trace.update_s or 0.0, [After("exchanged")])

    def job(self, marker: str = "u") -> Job:
        discipline = "shared" if self.settings.concurrent else self.channel
        resources = (
            Resource("input", "host" if self.settings.shared_input else "worker"),
            Resource("copy"),
            Resource("compute", scaled=True),
            Resource("channel", "all", discipline),
        )
        return Job(resources, tuple(self.tasks), marker)

    def _input(self) -> None:
        end = "b0" if self.update_in_forward else "u"
        input_s, copy_s = self.trace.input_s or 0.0, self.trace.copy_s or 0.0
        if not self.prefetch:
            self.tasks.append(Task("io", input_s, "input", (After(end, later=1),)))
        elif self.settings.separate_input:
            # Two batches read ahead: one being copied, one being read.
            self.tasks.append(Task("io", input_s, "input", (After("io", later=1), After(end, later=3))))
        else:
            self.tasks.append(Task("io", input_s, "input", (After("h2d", later=1), After(end, later=2))))
        copies = (After("io"), After("h2d", later=1)) if self.prefetch else (After("io"),)
        self.tasks.append(Task("h2d", copy_s, "copy", copies))

    def _compute(self, name: str, duration_s: float, waits: Sequence[After]) -> None:
        self.tasks.append(Task(name, duration_s, "compute", tuple(waits)))

    def _neighbours(self) -> tuple[list[list[int]], list[list[int]]]:
        """(who reads a layer's output, whom it reads from)."""
        count = len(self.trace.layers)
        edges = self.trace.edges or tuple((index, index + 1) for index in range(count - 1))
        readers: list[list[int]] = [[] for _ in range(count)]
        feeders: list[list[int]] = [[] for _ in range(count)]
        for source, target in edges:
            readers[source].append(target)
            feeders[target].append(source)
        return readers, feeders

    def _update_of(self, index: int) -> float:
        if not self.update_in_forward or not self.trace.bytes:
            return 0.0
        return (self.trace.update_s or 0.0) * self.trace.layers[index].bytes / self.trace.bytes


def with_plan(
    iteration: Iteration,
    gradients: Sequence[Gradient],
    plan: Plan,
    cost: Cost,
    *,
    cycle_s: float | None = None,
) -> None:
    """Exchanges and update of a bucket plan: a bucket leaves when its last gradient is ready on every worker.

    `cycle_s`: buckets leave only at ticks of that length after the start of backward.
    """
    sizes = np.array([float(sum(gradients[index].bytes for index in bucket)) for bucket in plan])
    times = times_of(cost, sizes) + iteration.settings.copy_seconds_per_byte * 2 * sizes
    names = []
    for number, (bucket, time_s) in enumerate(zip(plan, times, strict=True)):
        waits = [After(f"b{layer}") for layer in sorted({gradients[index].layer for index in bucket})]
        if cycle_s:
            ready_s = max(gradients[index].ready_s for index in bucket)
            tick = Task(f"tick{number}", float(np.ceil(ready_s / cycle_s)) * cycle_s, None, (After("loss"),))
            iteration.tasks.append(tick)
            waits.append(After(tick.name))
        name = f"c{number}"
        iteration.exchange(name, float(time_s), waits)
        names.append(After(name))
    iteration.update(names)


def times_of(cost: Cost, sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """The cost of each size, checked. Raises UsageError for a time that is not finite or is negative."""
    times = np.asarray(cost(sizes), float)
    if times.shape != sizes.shape or not np.all(np.isfinite(times)) or np.any(times < 0):
        raise UsageError("a cost must give one finite time of at least 0 for each size")
    return times
