"""Summaries and confidence intervals, against values worked out by hand."""

import math

import numpy as np
import pytest

from pycomm.measure.statistics import median_ci_depth, summarise


def test_one_sample_is_every_percentile():
    summary = summarise(np.array([3.0]))
    assert (summary.median, summary.min, summary.mean, summary.p95, summary.p99, summary.max) == (3.0,) * 6
    assert summary.ci95_low is None
    assert summary.ci95_high is None
    assert summary.ci_share == math.inf


def test_the_median_of_two_lies_between_them():
    summary = summarise(np.array([4.0, 2.0]))
    assert (summary.median, summary.min, summary.mean, summary.max) == (3.0, 2.0, 3.0, 4.0)
    assert summary.p95 == pytest.approx(3.9)  # 2 + 0.95 × 2
    assert summary.p99 == pytest.approx(3.98)


def test_the_median_of_three_is_the_middle_one():
    summary = summarise(np.array([9.0, 1.0, 2.0]))
    assert (summary.median, summary.mean) == (2.0, 4.0)
    assert summary.p95 == pytest.approx(8.3)  # place 0.95 × 2 = 1.9: 2 + 0.9 × 7


def test_ten_samples():
    summary = summarise(np.array([10.0, 9, 8, 7, 6, 5, 4, 3, 2, 1]))
    assert (summary.median, summary.min, summary.mean, summary.max) == (5.5, 1.0, 5.5, 10.0)
    assert summary.p95 == pytest.approx(9.55)  # place 0.95 × 9 = 8.55
    assert summary.p99 == pytest.approx(9.91)
    # P(B ≤ 1) for B binomial(10, 1/2) = 11/1024 ≤ 2.5 % < P(B ≤ 2) = 56/1024: second from either end.
    assert (summary.ci95_low, summary.ci95_high) == (2.0, 9.0)
    assert summary.ci_share == pytest.approx(3.5 / 5.5)


def test_no_sample_has_no_summary():
    with pytest.raises(ValueError, match="no samples"):
        summarise(np.array([]))


@pytest.mark.parametrize(
    ("samples", "depth"),
    # The table of David & Nagaraja's section 7.1, and others that list the sign test's limits, count from 1:
    # n = 6: 1, n = 9: 2, n = 12: 3, n = 20: 6, n = 30: 10, n = 50: 18, n = 100: 40.
    [(1, None), (5, None), (6, 0), (8, 0), (9, 1), (12, 2), (20, 5), (30, 9), (50, 17), (100, 39)],
)
def test_the_depth_is_that_of_the_sign_test(samples, depth):
    assert median_ci_depth(samples) == depth


@pytest.mark.parametrize("samples", [6, 7, 40, 1001, 4096])
def test_the_depth_is_the_largest_that_keeps_95_percent(samples):
    depth = median_ci_depth(samples)
    below = [sum(math.comb(samples, count) for count in range(d + 1)) / 2**samples for d in (depth, depth + 1)]
    assert below[0] <= 0.025 < below[1]


def test_many_samples_are_quick_and_near_the_normal_approximation():
    assert median_ci_depth(100_000) == pytest.approx(50_000 - 0.98 * math.sqrt(100_000), abs=2)


def test_the_interval_holds_the_true_median_about_as_often_as_it_says():
    random = np.random.default_rng(7)
    held = 0
    for _ in range(400):
        summary = summarise(random.exponential(1.0, 25))
        held += summary.ci95_low <= math.log(2) <= summary.ci95_high
    assert held >= 0.92 * 400  # 95 % less three standard deviations
