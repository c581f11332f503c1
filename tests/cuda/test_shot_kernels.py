"""The one-shot and two-shot kernels in the emulator, as the engine kernel is tested."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pycomm import _emulator

DTYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "uint8"]
OPS = ["sum", "prod", "min", "max", "avg"]
COUNTS = [1, 3, 17, 64, 131, 5, 40, 259]
SHOTS = list(itertools.product(["one", "two"], ["line", "bulk"]))
SEEDS = 1000


@pytest.mark.parametrize("ranks", range(1, 9))
@pytest.mark.parametrize(("shot", "form"), SHOTS)
def test_every_type_and_op_gives_numpys_result(
    shot: str, form: str, ranks: int, shot_buffers: Callable[..., Any]
) -> None:
    for i, (dtype, op) in enumerate(itertools.product(DTYPES, OPS)):
        count = COUNTS[(i + ranks) % len(COUNTS)]
        inputs, expected = shot_buffers(ranks, count, 2, dtype, op, seed=i)
        given = {"dtype": dtype, "op": op, "in_place": i % 2 == 1, "shift": i % 3, "blocks": 1 + i % 3,
                 "threads": (1, 4, 3)[i % 3]}  # fmt: skip
        outcome = _emulator.attempt_shot(
            shot=shot, form=form, ranks=ranks, inputs=inputs, expected=expected, first_seed=100 * i, **given
        )
        assert outcome.failed == 0, (given, count, outcome.first_failure)


@pytest.mark.parametrize(("shot", "form"), SHOTS)
def test_a_thousand_interleavings_give_one_result(shot: str, form: str, shot_buffers: Callable[..., Any]) -> None:
    inputs, expected = shot_buffers(3, 20, 2, "int32", "sum", seed=2)
    outcome = _emulator.attempt_shot(
        shot=shot, form=form, ranks=3, blocks=2, threads=2, dtype="int32", op="sum", in_place=True,
        inputs=inputs, expected=expected, seeds=SEEDS,
    )  # fmt: skip
    assert (outcome.seeds, outcome.failed) == (SEEDS, 0), outcome.first_failure


@pytest.mark.parametrize(
    ("mutation", "form"),
    [("no_fence", "bulk"), ("no_acquire", "bulk"), ("no_barrier", "bulk"), ("torn_line", "line")],
)
@pytest.mark.parametrize("shot", ["one", "two"])
def test_a_mutation_is_caught_by_a_wrong_result(
    shot: str, mutation: str, form: str, shot_buffers: Callable[..., Any]
) -> None:
    inputs, expected = shot_buffers(3, 64, 3, "int32", "sum", seed=2)
    given = {"shot": shot, "form": form, "ranks": 3, "blocks": 2, "dtype": "int32", "op": "sum",
             "in_place": True, "inputs": inputs, "expected": expected, "first_call": 4}  # fmt: skip
    assert _emulator.attempt_shot(seeds=50, **given).failed == 0
    outcome = _emulator.attempt_shot(seeds=SEEDS, mutation=mutation, **given)
    assert outcome.failed > 0
    assert "is wrong" in outcome.first_failure


@pytest.mark.parametrize(("shot", "form"), SHOTS)
def test_calls_pass_the_end_of_a_flag(shot: str, form: str, shot_buffers: Callable[..., Any]) -> None:
    inputs, expected = shot_buffers(2, 20, 6, "float32", "sum", seed=3)
    outcome = _emulator.attempt_shot(
        shot=shot, form=form, ranks=2, blocks=1, dtype="float32", op="sum", in_place=False,
        inputs=inputs, expected=expected, first_call=2**32 - 3, seeds=20,
    )  # fmt: skip
    assert outcome.failed == 0, outcome.first_failure


@pytest.mark.parametrize(("shot", "form"), SHOTS)
def test_a_silent_rank_is_named(shot: str, form: str, shot_buffers: Callable[..., Any]) -> None:
    inputs, expected = shot_buffers(3, 64, 1, "float32", "sum", seed=3)
    outcome = _emulator.attempt_shot(
        shot=shot, form=form, ranks=3, blocks=1, dtype="float32", op="sum", in_place=False,
        inputs=inputs, expected=expected, patience=20_000, silent_rank=2,
    )  # fmt: skip
    assert outcome.first_failure.startswith("rank 0 gave up waiting for a message from rank 2 (lane 0, step 0")


def test_sums_of_16_bits_are_rounded_once_in_rank_order() -> None:
    # 2048 + 1 + 1 + 1: rounding to float16 after each addition stays at 2048; float32 in between gives 2051 -> 2052.
    data = [np.full(9, v, np.float16) for v in (2048, 1, 1, 1)]
    expected = np.full(9, 2052, np.float16)
    for shot, form in SHOTS:
        outcome = _emulator.attempt_shot(
            shot=shot, form=form, ranks=4, blocks=1, dtype="float16", op="sum", in_place=False,
            inputs=[[d.tobytes() for d in data]], expected=[[expected.tobytes()] * 4],
        )  # fmt: skip
        assert outcome.failed == 0, outcome.first_failure
