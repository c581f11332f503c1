"""The engine kernel in the emulator: any schedule, rank count, type, op, count, alignment, interleaving."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from pycomm import _emulator

DTYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "uint8"]
OPS = ["sum", "prod", "min", "max", "avg"]
OPTIONS = {"ps": [{}, {"servers": 2}, {"servers": 2, "dedicated": 1}]}  # others are run without options
ROWS = [
    (name, collective, options)
    for name, collectives in _emulator.algorithms()
    for collective in collectives
    for options in OPTIONS.get(name, [{}])
]
COUNTS = [0, 1, 3, 17, 64, 131, 200, 259]
SEEDS = 1000  # interleavings a kernel


def row_id(row: tuple[str, str, dict[str, int]]) -> str:
    name, collective, options = row
    return "-".join([name, collective, *(f"{k}{v}" for k, v in options.items())])


def applies(options: dict[str, int], ranks: int) -> bool:
    servers = options.get("servers", 1)
    return servers < ranks if options.get("dedicated") else servers <= ranks


@pytest.mark.parametrize("ranks", range(1, 9))
@pytest.mark.parametrize("row", ROWS, ids=row_id)
def test_every_schedule_gives_numpys_result(
    row: tuple[str, str, dict[str, int]], ranks: int, engine_case: Callable[..., Any]
) -> None:
    name, collective, options = row
    if not applies(options, ranks):
        pytest.skip("more servers than this world has")
    if reason := _emulator.refusal(name, collective, ranks, options):
        pytest.skip(reason)
    ops = OPS if collective in ("allreduce", "reduce_scatter", "reduce") else ["sum"]
    scattered = collective in ("reduce_scatter", "allgather", "alltoall")
    for i, (dtype, op) in enumerate(itertools.product(DTYPES, ops)):
        # Every type and op; count, segments, lanes, form, place, shift and threads each go round.
        count = COUNTS[(i + ranks) % len(COUNTS)]
        if scattered:
            count -= count % ranks
        given = {
            "collective": collective, "options": options, "dtype": dtype, "op": op,
            "form": ("line", "bulk")[i % 2], "in_place": i // 2 % 2 == 1, "shift": i % 3,
            "segments": 1 + i % 4, "lanes": 1 + i % 3, "threads": (1, 4, 3)[i % 3], "root": i % ranks,
        }  # fmt: skip
        outcome = engine_case(name, ranks, count, seed=i, **given).attempt(1000 * i, 1)
        assert outcome.failed == 0, (given, count, outcome.first_failed_seed, outcome.first_failure)


@pytest.mark.parametrize("form", ["line", "bulk"])
@pytest.mark.parametrize("row", ROWS, ids=row_id)
def test_a_thousand_interleavings_give_one_result(
    row: tuple[str, str, dict[str, int]], form: str, engine_case: Callable[..., Any]
) -> None:
    name, collective, options = row
    if reason := _emulator.refusal(name, collective, 3, options):
        pytest.skip(reason)
    case = engine_case(name, 3, 15, calls=2, collective=collective, options=options, form=form,
                       dtype="int32", segments=2, lanes=2, threads=2)  # fmt: skip
    outcome = case.attempt(0, SEEDS)
    assert (outcome.seeds, outcome.failed) == (SEEDS, 0), outcome.first_failure


@pytest.mark.parametrize(
    ("mutation", "algorithm", "form"),
    [
        ("no_fence", "ring", "bulk"),
        ("no_fence", "tree", "line"),  # its two lanes hand the result over by a flag, also in line form
        ("no_acquire", "ring", "bulk"),
        ("no_acquire", "tree", "line"),
        ("torn_line", "ring", "line"),
        ("no_barrier", "ring", "bulk"),
    ],
)
def test_a_mutation_is_caught_by_a_wrong_result(
    mutation: str, algorithm: str, form: str, engine_case: Callable[..., Any]
) -> None:
    # In place and in slots that earlier calls have used, stale data looks like data: only results can tell.
    given = {"form": form, "dtype": "int32", "segments": 2, "first_call": 8, "in_place": True}
    case = engine_case(algorithm, 3, 40, calls=2, **given)
    assert case.attempt(0, 50).failed == 0
    outcome = case.attempt(0, SEEDS, mutation)
    assert outcome.failed > 0
    assert "is wrong" in outcome.first_failure


@pytest.mark.parametrize("row", ROWS, ids=row_id)
def test_bulk_copies_give_numpys_result_in_every_interleaving(
    row: tuple[str, str, dict[str, int]], engine_case: Callable[..., Any]
) -> None:
    name, collective, options = row
    if reason := _emulator.refusal(name, collective, 3, options):
        pytest.skip(reason)
    # Messages of more stages than there are, of a few, of none, and with a unit that is not whole.
    for i, (count, segments, shift) in enumerate([(303, 2, 0), (135, 1, 0), (66, 2, 0), (129, 2, 1)]):
        given = {
            "collective": collective, "options": options, "form": "bulk", "stage_bytes": (16, 32, 64, 16)[i],
            "dtype": ("int32", "uint8", "float64", "float32")[i], "segments": segments, "shift": shift,
            "lanes": 2, "threads": 1 + i % 3, "in_place": i % 2 == 1,
        }  # fmt: skip
        outcome = engine_case(name, 3, count, seed=i, calls=2, **given).attempt(1000 * i, SEEDS // 40)
        assert (outcome.seeds, outcome.failed) == (SEEDS // 40, 0), (given, count, outcome.first_failure)


@pytest.mark.parametrize(
    "mutation",
    ["no_fence_to_async", "no_fence_from_async", "no_wait", "read_wait", "no_stage_wait", "no_load_wait",
     "no_fence", "no_acquire", "no_barrier"],
)  # fmt: skip
def test_a_mutation_of_bulk_copies_is_caught_by_a_wrong_result(mutation: str, engine_case: Callable[..., Any]) -> None:
    given = {"form": "bulk", "stage_bytes": 16, "dtype": "int32", "segments": 2, "first_call": 8, "in_place": True}
    case = engine_case("ring", 3, 200, calls=2, **given)
    assert case.attempt(0, 50).failed == 0
    outcome = case.attempt(0, SEEDS, mutation)
    assert outcome.failed > 0
    assert "is wrong" in outcome.first_failure


def test_lines_need_neither_fence_nor_acquire(engine_case: Callable[..., Any]) -> None:
    case = engine_case("mesh", 3, 40, calls=2, form="line", dtype="int32", segments=2)
    assert case.attempt(0, 200, "no_fence").failed == 0


@pytest.mark.parametrize("form", ["line", "bulk"])
def test_message_numbers_pass_the_end_of_a_flag(form: str, engine_case: Callable[..., Any]) -> None:
    # 4 messages an edge and call: from call 2^30 on the flag of a line is past 2^32.
    case = engine_case("ring", 2, 64, calls=6, form=form, segments=2, first_call=2**30 - 3)
    assert case.attempt(0, 20).failed == 0


@pytest.mark.parametrize("form", ["line", "bulk"])
def test_a_silent_rank_is_named_with_lane_and_step(form: str, engine_case: Callable[..., Any]) -> None:
    case = engine_case("ring", 3, 40, form=form, segments=2, patience=20_000, silent_rank=1)
    for seed in range(10):
        outcome = case.attempt(seed, 1)
        assert outcome.failed == 1
        assert "gave up waiting for" in outcome.first_failure
    assert "rank 0 gave up waiting for a message from rank 2 (lane 0, step" in outcome.first_failure


@pytest.mark.parametrize("form", ["line", "bulk"])
def test_a_lane_that_waits_for_another_lets_it_name_the_silent_rank(form: str, engine_case: Callable[..., Any]) -> None:
    # In `tree` rank 0 hands the sum from the lane that takes it to the lane that sends it.
    case = engine_case("tree", 3, 40, form=form, segments=2, patience=20_000, silent_rank=2)
    for seed in range(40):
        assert case.attempt(seed, 1).first_failure.startswith("rank 0 gave up waiting for a message from rank 2 (lane")


def test_a_rank_that_waits_for_the_silent_one_says_so(engine_case: Callable[..., Any]) -> None:
    outcome = engine_case("mesh", 2, 40, form="bulk", patience=20_000, silent_rank=1).attempt(0, 1)
    assert outcome.first_failure.startswith("rank 0 gave up waiting for a message from rank 1 (lane 0, step 1")


def test_a_call_is_cut_to_its_size_and_its_queues_to_their_limit() -> None:
    limit = 64 << 20
    for algorithm in ("ring", "tree", "ps", "mesh"):
        small = _emulator.choose(algorithm, 8, "float32", 1000, limit, 16)
        assert (small["form"], small["segments"]) == ("line", 1)
        for count in (1 << 20, 10556587, 1 << 28):
            large = _emulator.choose(algorithm, 8, "float32", count, limit, 16)
            assert large["form"] == "bulk"
            assert large["queue_bytes"] <= limit
            assert large["lanes"] <= 32
            tight = _emulator.choose(algorithm, 8, "float32", count, 4 << 20, 16)
            assert tight["queue_bytes"] <= 4 << 20
            assert tight["segments"] >= large["segments"]
