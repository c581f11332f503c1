"""What a message of n bytes costs: a line, pieces of lines, a measured table, LogGP.

A cost is called with an array of sizes in bytes and returns seconds. `start_up_s` is the part of a small
message's time that does not grow with its size: what merging two messages saves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pycomm.checks import check_time, check_whole
from pycomm.errors import UsageError

Times = NDArray[np.float64]


class Cost(Protocol):
    """Seconds of one message, or of one collective, by its size in bytes."""

    def __call__(self, sizes: ArrayLike, /) -> Times: ...

    @property
    def start_up_s(self) -> float: ...


@dataclass(frozen=True)
class LatencyBandwidth:
    """latency_s + n · seconds_per_byte (Hockney 1994)."""

    latency_s: float
    seconds_per_byte: float

    def __call__(self, sizes: ArrayLike, /) -> Times:
        return np.asarray(self.latency_s + self.seconds_per_byte * np.asarray(sizes, float))

    @property
    def start_up_s(self) -> float:
        return self.latency_s


@dataclass(frozen=True)
class Piecewise:
    """A line a range of sizes: piece k holds from `breaks[k - 1]` bytes (0 for the first) up to `breaks[k]`."""

    breaks: tuple[float, ...]
    pieces: tuple[LatencyBandwidth, ...]

    def __post_init__(self) -> None:
        if len(self.pieces) != len(self.breaks) + 1:
            raise UsageError(f"{len(self.breaks)} breaks make {len(self.breaks) + 1} pieces, not {len(self.pieces)}")
        if any(after <= before for before, after in zip(self.breaks, self.breaks[1:], strict=False)):
            raise UsageError("breaks must grow")

    def __call__(self, sizes: ArrayLike, /) -> Times:
        size = np.asarray(sizes, float)
        index = np.searchsorted(np.array(self.breaks), size, side="right")
        latency = np.array([piece.latency_s for piece in self.pieces])[index]
        slope = np.array([piece.seconds_per_byte for piece in self.pieces])[index]
        return np.asarray(latency + slope * size)

    @property
    def start_up_s(self) -> float:
        return self.pieces[0].latency_s


@dataclass(frozen=True)
class Measured:
    """A table of (bytes, seconds) with straight lines between; above it the slope of its upper half goes on.

    Below the first size the first time holds.
    """

    points: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        if len(self.points) < 2 or any(
            after[0] <= before[0] for before, after in zip(self.points, self.points[1:], strict=False)
        ):
            raise UsageError("a measured table needs two sizes or more, growing")
        for size, time_s in self.points:
            check_time(size, "a size of a measured table")
            check_time(time_s, f"the time of {size} bytes")

    def __call__(self, sizes: ArrayLike, /) -> Times:
        size = np.asarray(sizes, float)
        known = self._known
        inside = np.interp(size, known[:, 0], known[:, 1])
        above = known[-1, 1] + (size - known[-1, 0]) * self._slope
        return np.asarray(np.where(size > known[-1, 0], above, inside))

    @cached_property
    def _known(self) -> Times:
        return np.array(self.points)

    @cached_property
    def _slope(self) -> float:
        known = self._known
        upper = known[known[:, 0] >= known[-1, 0] / 2]
        if len(upper) < 2:
            upper = known[-2:]
        return max(0.0, float(np.polyfit(upper[:, 0], upper[:, 1], 1)[0]))

    @property
    def start_up_s(self) -> float:
        return self.points[0][1]


@dataclass(frozen=True)
class LogGP:
    """Point to point: latency + 2 · overhead + (n - 1) · gap_per_byte, no two messages closer than `gap_s`.

    Source: Alexandrov, Ionescu, Schauser & Scheiman, LogGP, SPAA 1995. `train(k, n)` is a train of k
    messages.
    """

    latency_s: float
    overhead_s: float
    gap_s: float
    gap_per_byte_s: float

    def __call__(self, sizes: ArrayLike, /) -> Times:
        size = np.asarray(sizes, float)
        return np.asarray(self.latency_s + 2 * self.overhead_s + np.maximum(size - 1, 0) * self.gap_per_byte_s)

    def train(self, messages: int, size: float) -> float:
        """Seconds from the first of `messages` sends of `size` bytes to the end of the last receive."""
        check_whole(messages, "messages", 1)
        body = max(size - 1, 0) * self.gap_per_byte_s
        between = max(self.gap_s, self.overhead_s) + body
        return self.latency_s + 2 * self.overhead_s + body + (messages - 1) * between

    @property
    def start_up_s(self) -> float:
        return self.latency_s + 2 * self.overhead_s
