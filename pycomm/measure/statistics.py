"""What a row says about its samples. No distribution is assumed: order statistics only."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.float64]

FEWEST_SAMPLES_WITH_CI = 6  # below, no two order statistics enclose the median with 95 % probability


@dataclass(frozen=True)
class Summary:
    """Durations in seconds. The confidence bounds are None for fewer than six samples."""

    median: float
    min: float
    mean: float
    p95: float
    p99: float
    max: float
    ci95_low: float | None
    ci95_high: float | None

    @property
    def ci_share(self) -> float:
        """Half the confidence interval's width over the median: ±2 % is 0.02; infinite if unknown."""
        if self.ci95_low is None or self.ci95_high is None or self.median <= 0:
            return math.inf
        return (self.ci95_high - self.ci95_low) / 2 / self.median


def summarise(samples_s: Samples) -> Summary:
    """The summary of samples in seconds; percentiles interpolate linearly between order statistics.

    Raises ValueError when there is no sample.
    """
    if samples_s.size == 0:
        raise ValueError("no samples to summarise")
    ordered = np.sort(samples_s)
    p95, p99 = np.percentile(ordered, (95, 99))
    depth = median_ci_depth(ordered.size)
    return Summary(
        median=float(np.median(ordered)),
        min=float(ordered[0]),
        mean=float(ordered.mean()),
        p95=float(p95),
        p99=float(p99),
        max=float(ordered[-1]),
        ci95_low=None if depth is None else float(ordered[depth]),
        ci95_high=None if depth is None else float(ordered[-1 - depth]),
    )


@lru_cache(maxsize=256)
def median_ci_depth(samples: int) -> int | None:
    """How far from either end lie the order statistics that enclose the median with 95 % probability.

    The number of independent samples below the median is binomial(n, 1/2), whatever their distribution, so
    P(x₍d₎ ≤ median ≤ x₍n−1−d₎) = 1 − 2 P(B ≤ d), counting from 0. The largest such d; None if there is none.
    Source: David & Nagaraja, Order Statistics, 3rd edition, section 7.1.
    """
    # Upper end of the search: the normal approximation, a little above.
    depth = max(0, math.ceil(samples / 2 - 0.98 * math.sqrt(samples)) + 2)
    while depth >= 0 and _binomial_half_below(samples, depth) > 0.025:
        depth -= 1
    return depth if depth >= 0 else None


def _binomial_half_below(trials: int, count: int) -> float:
    """P(B ≤ count) for B binomial(trials, 1/2): the terms from the largest down, until they do not matter."""
    if count >= trials:
        return 1.0
    logarithm = math.lgamma(trials + 1) - math.lgamma(count + 1) - math.lgamma(trials - count + 1)
    term = math.exp(logarithm - trials * math.log(2))
    total = 0.0
    while count >= 0 and term > total * 1e-17:
        total += term
        term *= count / (trials - count + 1)
        count -= 1
    return total
