"""The verification pattern shows every mistake it is meant to show."""

from functools import reduce

import ml_dtypes
import numpy as np
import pytest

from pycomm.buffers import DTYPES
from pycomm.measure.elements import bits_of, element_type, exact_limit, is_float
from pycomm.measure.pattern import PERIODS, choose_period, count_differing, fill, make_pattern
from pycomm.operation import OPS

WORLDS = (1, 2, 3, 4, 7, 16, 31, 64, 130, 300)
COMBINING = ("sum", "prod", "avg")
SHORT = 2039  # a prime: the tests' period, so that they are quick


def contributions(dtype, op, ranks):
    return [make_pattern(dtype, op, ranks, rank, SHORT).contribution for rank in range(ranks)]


def expected(dtype, op, ranks):
    return make_pattern(dtype, op, ranks, 0, SHORT).expected


def step_by_step(dtype, op, rows):
    """The reduction in rank order, rounded or wrapped to the type at every step."""
    kind = element_type(dtype)
    step = {
        "sum": lambda a, b: (a + b).astype(kind),
        "avg": lambda a, b: (a + b).astype(kind),
        "prod": lambda a, b: (a * b).astype(kind),
        "min": np.minimum,
        "max": np.maximum,
    }[op]
    with np.errstate(over="ignore"):
        total = reduce(step, rows)
    if op != "avg":
        return total
    if is_float(dtype):
        wide = np.float64 if dtype == "float64" else np.float32
        return (total.astype(wide) / wide(len(rows))).astype(kind)
    return np.trunc(total.astype(np.float64) / len(rows)).astype(kind)


def same(left, right):
    return np.array_equal(bits_of(left), bits_of(right))


def test_the_periods_are_primes():
    for period in PERIODS:
        assert all(period % divisor for divisor in range(2, int(period**0.5) + 1))


@pytest.mark.parametrize("ranks", [2, 3, 8, 64])
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_any_order_of_reducing_gives_exactly_what_is_expected(dtype, op, ranks):
    rows = contributions(dtype, op, ranks)
    wanted = expected(dtype, op, ranks)
    random = np.random.default_rng(3)
    half = len(rows) // 2
    for order in (range(ranks), reversed(range(ranks)), random.permutation(ranks)):
        assert same(step_by_step(dtype, op, [rows[rank] for rank in order]), wanted)
    if op in ("sum", "prod") and half:  # two halves, as a tree or recursive doubling adds
        for parts in ((rows[:half], rows[half:]), (rows[::2], rows[1::2])):
            partial = [step_by_step(dtype, op, part) for part in parts]
            assert same(step_by_step(dtype, op, partial), wanted)


@pytest.mark.parametrize("ranks", WORLDS)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "uint8"])
def test_neighbours_differ_in_every_contribution(dtype, op, ranks):
    for rank in {0, 1 % ranks, ranks - 1}:
        row = bits_of(make_pattern(dtype, op, ranks, rank, SHORT).contribution)
        assert np.count_nonzero(row[1:] == row[:-1]) == 0


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ranks", [1, 2, 4, 7, 30])
def test_neighbours_differ_in_the_result(dtype, op, ranks):
    result = bits_of(expected(dtype, op, ranks))
    assert np.count_nonzero(result == np.roll(result, 1)) == 0


@pytest.mark.parametrize("ranks", [2, 4, 9, 31])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_sum_does_not_leave_the_type_where_that_can_be(dtype, ranks):
    rows = contributions(dtype, "sum", ranks)
    total = sum(row.astype(np.float64) for row in rows)
    fits = exact_limit(dtype) >= 4 * ranks + 4
    assert not fits or (total.max() <= exact_limit(dtype) and total.min() > 0)


WINDOW = 16  # a cache line of float32: the smallest piece a chunk or segment has, once there is more than one


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_no_window_of_the_result_comes_twice_in_a_period(dtype, op, ranks):
    """So a chunk or segment in the wrong place shows, whatever its offset."""
    result = bits_of(expected(dtype, op, ranks))
    windows = np.lib.stride_tricks.sliding_window_view(np.concatenate([result, result[: WINDOW - 1]]), WINDOW)
    assert len({window.tobytes() for window in windows}) == result.size


@pytest.mark.parametrize("ranks", [2, 4, 7])
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_missing_rank_shows_in_every_window(dtype, op, ranks):
    rows = contributions(dtype, op, ranks)
    wanted = expected(dtype, op, ranks)
    for rank in range(ranks):
        left = rows[:rank] + rows[rank + 1 :]
        total = step_by_step(dtype, "sum" if op == "avg" else op, left)
        if op == "avg":  # divided by all ranks, as the kernel would
            neutral = np.zeros_like(rows[0])
            total = step_by_step(dtype, "avg", [*left, neutral])
        shows = bits_of(total) != bits_of(wanted)
        window = max(WINDOW, ranks)
        whole = shows[: shows.size // window * window].reshape(-1, window)
        assert whole.any(axis=1).all()


@pytest.mark.parametrize("ranks", [2, 4, 7])
@pytest.mark.parametrize("op", COMBINING)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_rank_counted_twice_in_place_of_another_shows_in_every_window(dtype, op, ranks):
    rows = contributions(dtype, op, ranks)
    wanted = bits_of(expected(dtype, op, ranks))
    for rank in range(ranks):
        doubled = list(rows)
        doubled[(rank + 1) % ranks] = rows[rank]
        shows = bits_of(step_by_step(dtype, op, doubled)) != wanted
        whole = shows[: shows.size // WINDOW * WINDOW].reshape(-1, WINDOW)
        assert whole.any(axis=1).all()


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("chunk", "first", "second"), [(16, 0, 1), (16, 0, 2), (1024, 1, 3), (4096, 2, 5)])
def test_swapped_shifted_and_repeated_pieces_show(dtype, op, chunk, first, second):
    ranks, count = 4, 8 * chunk
    wanted = expected(dtype, op, ranks)
    right = np.empty(count, wanted.dtype)
    fill(right, wanted)
    assert count_differing(right, wanted) == 0
    one, other = slice(first * chunk, (first + 1) * chunk), slice(second * chunk, (second + 1) * chunk)

    swapped = right.copy()
    swapped[one], swapped[other] = right[other], right[one]
    assert count_differing(swapped, wanted) > chunk // 4

    repeated = right.copy()
    repeated[other] = right[one]
    assert count_differing(repeated, wanted) > chunk // 8

    for shift in (1, -1, 16):
        assert count_differing(np.roll(right, shift), wanted) > count // 4


@pytest.mark.parametrize("dtype", ["float32", "int8", "bfloat16"])
def test_a_contribution_put_into_the_wrong_chunk_shows(dtype):
    """One rank's chunks swapped before the reduction: every other rank was right."""
    rows = contributions(dtype, "sum", 4)
    moved = rows[2].copy()
    moved[0:64], moved[64:128] = rows[2][64:128], rows[2][0:64]
    total = step_by_step(dtype, "sum", [rows[0], rows[1], moved, rows[3]])
    assert np.count_nonzero(bits_of(total) != bits_of(expected(dtype, "sum", 4))) > 64


@pytest.mark.parametrize(
    ("dtype", "op", "ranks"),
    [
        *((dtype, op, ranks) for dtype in DTYPES for op in ("sum", "avg") for ranks in (2, 3, 4)),
        *((dtype, "sum", 8) for dtype in DTYPES),
        *((dtype, "prod", 4) for dtype in ("int64", "int32", "uint8")),
    ],
)
def test_even_one_element_tells_the_ranks_apart(dtype, op, ranks):
    first = [float(row[0]) for row in contributions(dtype, op, ranks)]
    assert len(set(first)) == ranks
    assert 0.0 not in first


def test_a_wrong_element_is_counted_once_each():
    pattern = make_pattern("float32", "sum", 4, 0)
    for count in (0, 1, 65520, 65521, 65522, 200_000):
        buffer = np.empty(count, np.float32)
        fill(buffer, pattern.expected)
        assert count_differing(buffer, pattern.expected) == 0
        if count:
            buffer[count - 1] += 1
            buffer[0] = np.nan
            assert count_differing(buffer, pattern.expected) == min(count, 2)


def test_types_of_another_package_are_compared_bit_by_bit():
    pattern = make_pattern("bfloat16", "avg", 3, 1)
    buffer = np.empty(100_000, ml_dtypes.bfloat16)
    fill(buffer, pattern.expected)
    buffer.view(np.uint16)[70_000] ^= 1
    assert count_differing(buffer, pattern.expected) == 1


def test_the_period_divides_no_part():
    assert choose_period([16, 4096, 10556587]) == PERIODS[0]
    assert choose_period([PERIODS[0] * 16]) == PERIODS[1]
    assert choose_period([PERIODS[0] * 16, PERIODS[1]]) == PERIODS[2]
    assert choose_period([0, 0]) == PERIODS[0]
