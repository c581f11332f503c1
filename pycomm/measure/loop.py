"""How a row is timed: warm up, agree on a batch, then loop in rounds until the median is known well enough.

Nothing here reads a clock or calls an operation: both are passed in, so that a script can stand for them.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from pycomm.measure.statistics import FEWEST_SAMPLES_WITH_CI, Samples, summarise
from pycomm.units import NANOSECONDS_A_SECOND

TICKS_A_SAMPLE: Final = 100  # a shorter sample is a batch
FEWEST_SAMPLES: Final = FEWEST_SAMPLES_WITH_CI
FEWEST_TO_STOP_EARLY: Final = 30  # a narrow interval of fewer samples may be luck
MOST_SAMPLES: Final = 100_000
FREE_RUNNING_BATCH: Final = 16  # calls in a row where no barrier separates them
_CALIBRATING_SAMPLES: Final = 3
_LARGEST_BATCH: Final = 1 << 20

Nanoseconds = npt.NDArray[np.int64]
# (samples, batch, barrier before each) -> this rank's elapsed nanoseconds, one a batch; samples × 2 where two clocks
# take them, of which the first decides
TimeSamples = Callable[[int, int, bool], Nanoseconds]


class Exchange(Protocol):
    """What timing needs of a world."""

    @property
    def rank(self) -> int: ...

    def broadcast(self, value: Any, root: int = 0) -> Any: ...

    def gather(self, value: Any, root: int = 0) -> list[Any] | None: ...


@dataclass(frozen=True)
class Policy:
    """How long, and under which rule.

    `target_ci` is half the confidence interval over the median (0.02 for ±2 %); `max_seconds` the budget of the
    timed loop; `iterations`, if given, the exact number of samples; `warmup` the calls before any is timed;
    `barrier` is "each" (before every sample) or "none"; with `graph`, what a GPU's sample launches is captured once and
    launched as a CUDA graph.
    """

    target_ci: float = 0.02
    max_seconds: float = 1.0
    iterations: int | None = None
    warmup: int = 5
    barrier: str = "each"
    graph: bool = False


@dataclass(frozen=True)
class Timing:
    """On rank 0: seconds of one call by iteration and rank, and how they were taken.

    On a GPU by events on the stream, and `host_by_rank_s` by the host's clock; elsewhere that is None.
    """

    by_rank_s: npt.NDArray[np.float64]  # iterations × ranks
    batch: int
    host_by_rank_s: npt.NDArray[np.float64] | None = None

    @property
    def samples_s(self) -> Samples:
        """The time of an iteration is that of its slowest rank."""
        slowest: Samples = self.by_rank_s.max(axis=1)
        return slowest


def measure(
    world: Exchange,
    time_samples: TimeSamples,
    policy: Policy,
    tick_ns: int,
    now_ns: Callable[[], int] = time.monotonic_ns,
) -> Timing | None:
    """Time an operation; all ranks call it together. Returns the timing on rank 0, None elsewhere.

    Every count that a loop uses is decided by rank 0 and broadcast: ranks that decided alone would not agree,
    and wait for ever. `tick_ns` is the clock's smallest step.
    """
    barrier_each = policy.barrier == "each"
    time_samples(1, policy.warmup, barrier_each)
    batch, sample_ns = _calibrate(world, time_samples, policy, tick_ns, now_ns)
    rounds: list[npt.NDArray[np.int64]] = []
    spent_ns = 0
    while True:
        samples = _next_round(policy, rounds, batch, sample_ns, spent_ns) if world.rank == 0 else 0
        samples = world.broadcast(samples)
        if samples == 0:
            break
        start_ns = now_ns()
        mine = time_samples(samples, batch, barrier_each)
        gathered = world.gather(mine)
        spent_ns += now_ns() - start_ns
        if gathered is not None:
            rounds.append(np.stack(gathered, axis=1))
            sample_ns = spent_ns / sum(map(len, rounds))  # barriers and the exchange included
    if world.rank != 0:
        return None
    taken_s = np.concatenate(rounds) / (batch * NANOSECONDS_A_SECOND)
    if taken_s.ndim == 2:
        return Timing(taken_s, batch)
    return Timing(taken_s[..., 0], batch, taken_s[..., 1])


def _calibrate(
    world: Exchange, time_samples: TimeSamples, policy: Policy, tick_ns: int, now_ns: Callable[[], int]
) -> tuple[int, float]:
    """The batch, a power of two, and the nanoseconds that one of its samples takes with its barrier."""
    barrier_each = policy.barrier == "each"
    batch, next_batch, with_barrier_ns = 0, 1, 0.0
    while next_batch != batch:
        batch = next_batch
        start_ns = now_ns()
        mine = time_samples(_CALIBRATING_SAMPLES, batch, barrier_each)
        with_barrier_ns = (now_ns() - start_ns) / _CALIBRATING_SAMPLES
        gathered = world.gather(mine)
        if gathered is not None:
            sample_ns = float(np.median(_by_first_clock(np.stack(gathered, axis=1)).max(axis=1)))
            next_batch = _longer_batch(batch, sample_ns, tick_ns, policy)
        next_batch = world.broadcast(next_batch)
    return batch, with_barrier_ns


def _by_first_clock(taken: Nanoseconds) -> Nanoseconds:
    """Samples × ranks of samples × ranks × clocks."""
    return taken if taken.ndim == 2 else taken[..., 0]


def _longer_batch(batch: int, sample_ns: float, tick_ns: int, policy: Policy) -> int:
    """`batch` if its samples are long enough, else a larger one, at most 16 times: first calls are slow."""
    wanted_ns = TICKS_A_SAMPLE * tick_ns
    if sample_ns < wanted_ns and batch < _LARGEST_BATCH:
        times = 16 if sample_ns <= 0 else min(16, 2 ** math.ceil(math.log2(wanted_ns / sample_ns)))
        return batch * max(2, times)
    if policy.barrier == "none" and batch < FREE_RUNNING_BATCH:
        budget_ns = policy.max_seconds * NANOSECONDS_A_SECOND / FEWEST_SAMPLES
        if sample_ns * 2 <= budget_ns:
            return batch * 2
    return batch


def _next_round(
    policy: Policy, rounds: list[npt.NDArray[np.int64]], batch: int, sample_ns: float, spent_ns: float
) -> int:
    """How many samples more; 0 when there are enough."""
    taken = sum(map(len, rounds))
    if policy.iterations is not None:
        return policy.iterations - taken
    budget_ns = policy.max_seconds * NANOSECONDS_A_SECOND
    left = MOST_SAMPLES - taken
    affordable = int(min(left, (budget_ns - spent_ns) / max(sample_ns, 1.0)))
    if taken == 0:
        # A short first round, since the estimate it rests on is rough; the later ones double.
        return max(FEWEST_SAMPLES, min(FEWEST_TO_STOP_EARLY, affordable))
    if taken >= FEWEST_TO_STOP_EARLY:
        maxima_s = _by_first_clock(np.concatenate(rounds)).max(axis=1) / (batch * NANOSECONDS_A_SECOND)
        if summarise(maxima_s).ci_share <= policy.target_ci:
            return 0
    return max(0, min(taken, affordable))
