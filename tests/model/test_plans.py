"""Bucket plans give the buckets the frameworks' own rules give; the optimum is one, and no plan mixes
types."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pycomm.errors import UsageError
from pycomm.model.gradients import Gradient
from pycomm.model.iteration import Settings
from pycomm.model.plans import (
    end_of_communication,
    horovod,
    mg_wfbp_greedy,
    one_each,
    one_for_all,
    optimal,
    pytorch_ddp,
)

MIB = 1 << 20
PROFILE = settings(max_examples=80, deadline=None, derandomize=True)


def ready(*rows: tuple[float, int] | tuple[float, int, str]) -> list[Gradient]:
    return [
        Gradient(name=f"g{index}", ready_s=row[0], bytes=row[1], dtype=row[2] if len(row) > 2 else "float32")
        for index, row in enumerate(rows)
    ]


def sizes(*many: int | tuple[int, str]) -> list[Gradient]:
    return ready(*((0.0, one) if isinstance(one, int) else (0.0, *one) for one in many))


# Expected buckets: PyTorch test/distributed/test_c10d_common.py, ComputeBucketAssignmentTest
F, D = "float32", "float64"


def test_ddp_single_limit_single_dtype():
    assert pytorch_ddp(sizes(400, 800, 400, 200), first_bucket_bytes=400, bucket_bytes=400) == (
        (0,),
        (1,),
        (2,),
        (3,),
    )


def test_ddp_single_limit_two_dtypes():
    gradients = sizes((200, F), (200, D), (200, F), (200, D), (200, F), (200, D))
    plan = pytorch_ddp(gradients, first_bucket_bytes=400, bucket_bytes=400)
    assert plan == ((0, 2), (1, 3), (4,), (5,))


def test_ddp_two_limits_single_dtype():
    assert pytorch_ddp(sizes(40, 40, 40, 40), first_bucket_bytes=40, bucket_bytes=80) == ((0,), (1, 2), (3,))


def test_ddp_two_limits_two_dtypes():
    gradients = sizes((200, F), (200, D), (200, F), (200, D), (200, F), (200, D))
    plan = pytorch_ddp(gradients, first_bucket_bytes=200, bucket_bytes=400)
    assert plan == ((0,), (1,), (2, 4), (3, 5))


def test_ddp_defaults_are_1_and_25_mib():
    gradients = sizes(*[MIB] * 60)
    assert [len(bucket) for bucket in pytorch_ddp(gradients)] == [1, 25, 25, 9]


def test_horovod_fuses_what_is_ready_at_a_tick():
    gradients = ready((0.0004, 10), (0.0009, 10), (0.0011, 10), (0.0035, 10))
    assert horovod(gradients, cycle_s=1e-3) == ((0, 1), (2,), (3,))


def test_horovod_stops_at_the_threshold_and_sends_large_tensors_alone():
    assert horovod(sizes(60, 30, 30, 200, 10), threshold_bytes=100, cycle_s=0) == ((0, 1), (2,), (3,), (4,))


def test_horovod_looks_past_another_type_within_the_threshold():
    gradients = sizes((30, F), (30, D), (30, F), (30, D))
    assert horovod(gradients, threshold_bytes=100, cycle_s=0) == ((0, 2), (1, 3))
    assert horovod(sizes((30, F), (80, D), (30, F)), threshold_bytes=100, cycle_s=0) == ((0,), (1,), (2,))


def test_one_message_a_type():
    assert one_for_all(sizes((1, F), (2, D), (3, F))) == ((0, 2), (1,))


def line(start_up: float, slope: float):
    return lambda size: start_up + slope * np.asarray(size, float)


def test_greedy_by_hand():
    # start-up 1, 1 a byte. g0 ready at 0, g1 at 0.5: waiting 0.5 saves 1, so they merge, start at 0.5 and end
    # at 3.5. g2, ready at 3, is not there when they could start, and waiting 2.5 costs more than 1; it waits for
    # the channel. g3, ready at 3.2, comes before g2 could start at 3.5: merged.
    gradients = ready((0.0, 1), (0.5, 1), (3.0, 1), (3.2, 1))
    assert mg_wfbp_greedy(gradients, line(1, 1), 1.0) == ((0, 1), (2, 3))
    # waiting 1.5 for a start-up of 1 does not pay
    assert mg_wfbp_greedy(ready((0.0, 1), (1.5, 1)), line(1, 1), 1.0) == ((0,), (1,))


@PROFILE
@given(
    st.lists(st.tuples(st.floats(0, 3), st.integers(0, 50), st.sampled_from([F, F, F, D])), min_size=1, max_size=9),
    st.floats(0.01, 3),
    st.floats(0, 0.2),
)
def test_the_optimum_is_the_best_of_all_groupings(rows, start_up, slope):
    gradients = ready(*((time, size, kind) for (time, size, kind) in sorted(rows, key=lambda row: row[0])))
    cost = line(start_up, slope)
    count = len(gradients)
    best = float("inf")
    for cuts in range(count):
        for places in combinations(range(1, count), cuts):
            borders = [0, *places, count]
            plan = tuple(tuple(range(a, b)) for a, b in pairwise(borders))
            if all(len({gradients[index].dtype for index in bucket}) == 1 for bucket in plan):
                best = min(best, end_of_communication(gradients, plan, cost))
    found = end_of_communication(gradients, optimal(gradients, cost), cost)
    assert found == pytest.approx(best, rel=1e-12)
    greedy = end_of_communication(gradients, mg_wfbp_greedy(gradients, cost, start_up), cost)
    alone = end_of_communication(gradients, one_each(gradients), cost)
    assert found <= greedy * (1 + 1e-12)
    assert greedy <= alone * (1 + 1e-12)


@PROFILE
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 300), st.sampled_from([F, D, "bfloat16"])), max_size=30),
    st.integers(1, 400),
)
def test_every_plan_holds_every_gradient_once_and_one_type_a_bucket(rows, limit):
    gradients = ready(*((float(time), size, kind) for time, size, kind in sorted(rows, key=lambda row: row[0])))
    cost = line(1.0, 0.01)
    for plan in (
        one_each(gradients),
        one_for_all(gradients),
        horovod(gradients, threshold_bytes=limit, cycle_s=1.0),
        pytorch_ddp(gradients, first_bucket_bytes=limit, bucket_bytes=2 * limit),
        mg_wfbp_greedy(gradients, cost, 1.0),
        optimal(gradients, cost),
    ):
        assert sorted(index for bucket in plan for index in bucket) == list(range(len(gradients)))
        assert all(len({gradients[index].dtype for index in bucket}) == 1 for bucket in plan)


def test_numbers_of_numpy_are_numbers_and_its_booleans_are_none():
    gradients = [Gradient(name="g", bytes=np.int64(60), ready_s=np.float32(0)) for _ in range(3)]
    assert horovod(gradients, threshold_bytes=np.int32(120), cycle_s=np.float64(1)) == ((0, 1), (2,))
    for size in (np.True_, 2**63, 10**400):
        with pytest.raises(UsageError, match="bytes of g is"):
            Gradient(name="g", bytes=size, ready_s=0.0)


def test_true_is_no_number_and_order_matters():
    with pytest.raises(UsageError, match="not a number"):
        horovod(sizes(1), threshold_bytes=True)
    with pytest.raises(UsageError, match="not a number"):
        Gradient(name="g", bytes=True, ready_s=0.0)
    with pytest.raises(UsageError, match="whole number of bytes"):
        pytorch_ddp(sizes(1), bucket_bytes=1.5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="not a number"):
        mg_wfbp_greedy(sizes(1), line(1, 1), True)
    for told in ({"partition_bytes": True}, {"threshold_bytes": -1}, {"cycle_s": float("nan")}, {"bucket_bytes": 1.5}):
        with pytest.raises(UsageError, match=next(iter(told))):
            Settings(**told)
    with pytest.raises(UsageError, match="partition_bytes must be at least 1"):
        Settings(partition_bytes=0)
    with pytest.raises(UsageError, match="stands after"):
        one_each(ready((1.0, 1), (0.5, 1)))
