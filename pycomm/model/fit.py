"""Fits latency and bandwidth to measured times: one line, or as many pieces as the data bear.

Errors are taken relative (a measured time scatters in proportion to itself), so each point weighs 1 / time². The
number of pieces and their breaks minimise the Bayesian information criterion (Schwarz 1978) over all ways to cut
the sizes, by dynamic programming; a break counts as three parameters more, so that noise alone makes none (Zhang &
Siegmund 2007 on why it must count more than one). Intervals are Student's, from the residuals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pycomm.errors import Unavailable, UsageError
from pycomm.model.costs import LatencyBandwidth, Piecewise

Array = NDArray[np.float64]
MAX_PIECES = 5
_MIN_POINTS = 4  # in a piece: two parameters and two degrees of freedom
_CONFIDENCE = 0.95
_BREAK_COST = 3  # parameters: its place is picked from all sizes, where chance alone finds some that look good
_ROUNDING = 1e-6  # relative: better fits are equally good


@dataclass(frozen=True)
class Estimate:
    """A parameter and its 95 % confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class FittedPiece:
    """latency_s + n · seconds_per_byte from `from_bytes` on; `residual` is the root mean square relative error."""

    from_bytes: float
    latency_s: Estimate
    seconds_per_byte: Estimate
    residual: float
    points: int


@dataclass(frozen=True)
class Fit:
    """The pieces in the order of sizes, and what the user should know about them."""

    pieces: tuple[FittedPiece, ...]
    mean_error: float  # mean absolute relative error over all points
    largest_error: float
    warnings: tuple[str, ...]

    def cost(self, bound: str = "value") -> Piecewise:
        """The fit as a cost: at its `value`, or at the `low` or `high` ends of its intervals."""
        return Piecewise(
            breaks=tuple(piece.from_bytes for piece in self.pieces[1:]),
            pieces=tuple(
                LatencyBandwidth(getattr(piece.latency_s, bound), getattr(piece.seconds_per_byte, bound))
                for piece in self.pieces
            ),
        )


def fit_line(sizes: Sequence[float], times_s: Sequence[float]) -> Fit:
    """One latency and one bandwidth. Raises UsageError for fewer than 3 sizes or a time that is not positive."""
    size, time = _checked(sizes, times_s, 3)
    return _described(size, time, [0, len(size)])


def fit_pieces(sizes: Sequence[float], times_s: Sequence[float], *, max_pieces: int = MAX_PIECES) -> Fit:
    """Pieces with breaks where the data have them. Raises UsageError as `fit_line` does."""
    size, time = _checked(sizes, times_s, 3)
    most = max(1, min(max_pieces, len(size) // _MIN_POINTS))
    losses = _losses(size, time)
    count = len(size)
    best = np.full((most + 1, count + 1), np.inf)
    best[0, 0] = 0.0
    cut = np.zeros((most + 1, count + 1), int)
    for pieces in range(1, most + 1):
        for end in range(1, count + 1):
            candidates = best[pieces - 1, :end] + losses[:end, end]
            cut[pieces, end] = int(np.argmin(candidates))
            best[pieces, end] = candidates[cut[pieces, end]]
    floor = count * _ROUNDING**2
    criteria = [
        count * np.log(max(best[pieces, count], floor) / count)
        + (2 * pieces + _BREAK_COST * (pieces - 1)) * np.log(count)
        for pieces in range(1, most + 1)
    ]
    pieces = int(np.argmin(criteria)) + 1
    borders = [count]
    for left in range(pieces, 0, -1):
        borders.append(int(cut[left, borders[-1]]))
    return _described(size, time, borders[::-1])


def _checked(sizes: Sequence[float], times_s: Sequence[float], least: int) -> tuple[Array, Array]:
    try:
        size, time = np.asarray(sizes, float), np.asarray(times_s, float)
    except (TypeError, ValueError) as error:
        raise UsageError(f"a fit needs numbers: {error}") from None
    if size.shape != time.shape or size.ndim != 1:
        raise UsageError("a fit needs as many times as sizes")
    if len(np.unique(size)) < least:
        raise UsageError(f"a fit needs {least} different sizes, found {len(np.unique(size))}")
    if not (np.all(np.isfinite(time)) and np.all(np.isfinite(size)) and np.all(time > 0) and np.all(size >= 0)):
        raise UsageError("a fit needs finite positive times and finite sizes of at least 0")
    order = np.argsort(size, kind="stable")
    return size[order], time[order]


def _losses(size: Array, time: Array) -> Array:
    """losses[i, j]: weighted squares left by the best line through points i to j - 1; inf where there are too few."""
    weight = 1 / time**2
    scale = size.max() or 1.0
    x, y = size / scale, time
    sums = [
        np.concatenate([[0.0], np.cumsum(weight * power)]) for power in (np.ones_like(x), x, x * x, y, x * y, y * y)
    ]
    w, wx, wxx, wy, wxy, wyy = (total[None, :] - total[:, None] for total in sums)
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = wxx - wx**2 / w
        slope = np.where(spread > 0, (wxy - wx * wy / w) / spread, 0.0)
        loss = wyy - wy**2 / w - slope * (wxy - wx * wy / w)
    places = np.arange(len(size) + 1)
    points = places[None, :] - places[:, None]
    enough = points >= min(_MIN_POINTS, len(size))
    result: Array = np.where(enough, np.maximum(loss, 0.0), np.inf)
    return result


def _described(size: Array, time: Array, borders: list[int]) -> Fit:
    pieces: list[FittedPiece] = []
    warnings: list[str] = []
    errors: list[Array] = []
    for begin, end in pairwise(borders):
        piece, error = _line(size[begin:end], time[begin:end], 0.0 if begin == 0 else float(size[begin]))
        pieces.append(piece)
        errors.append(error)
        where = f"from {piece.from_bytes:.0f} bytes" if len(borders) > 2 else "of the line"
        if piece.latency_s.value < 0:
            warnings.append(
                f"latency {where} is negative ({piece.latency_s.value * 1e6:.3g} us): no line with a start-up"
                " describes these sizes; predictions take 0"
            )
        if piece.seconds_per_byte.value < 0:
            warnings.append(f"time a byte {where} is negative: these sizes do not show a bandwidth")
    absolute = np.abs(np.concatenate(errors))
    return Fit(tuple(pieces), float(absolute.mean()), float(absolute.max()), tuple(warnings))


def _line(size: Array, time: Array, from_bytes: float) -> tuple[FittedPiece, Array]:
    scale = size.max() or 1.0
    design = np.column_stack([1 / time, size / scale / time])
    solution = np.linalg.lstsq(design, np.ones_like(time), rcond=None)[0]
    error = design @ solution - 1
    freedom = max(1, len(size) - 2)
    variance = float(error @ error) / freedom
    covariance = variance * np.linalg.pinv(design.T @ design)
    reach = _student(freedom) * np.sqrt(np.maximum(np.diag(covariance), 0.0))
    latency = Estimate(*(float(solution[0] + sign * reach[0]) for sign in (0, -1, 1)))
    slope = Estimate(*(float((solution[1] + sign * reach[1]) / scale) for sign in (0, -1, 1)))
    return FittedPiece(from_bytes, latency, slope, float(np.sqrt(np.mean(error**2))), len(size)), error


def _student(freedom: int) -> float:
    try:
        from scipy.special import stdtrit
    except ImportError as error:
        raise Unavailable("fitting needs scipy: pip install 'pycomm[model]'") from error
    return float(stdtrit(freedom, 0.5 + _CONFIDENCE / 2))
