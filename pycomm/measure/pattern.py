"""The verification pattern: what each rank puts in, and what must come out, so that no mistake cancels out.

docs/measuring.md says how and why. In short: every rank walks through a small set of values at random
(neighbours differ), each rank on a walk of its own, with a prime period that divides no chunk or segment;
results differ from their neighbours too; whatever part of the ranks is combined first is exact in the type.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pycomm.measure.elements import bits_of, element_type, exact_limit, is_float

Array = npt.NDArray[Any]

PERIODS: Final = (
    65521,
    65519,
    65497,
    65479,
)  # primes, larger than the parts any schedule here cuts a buffer into
_CHOICES: Final = 251  # values in a walk, at most
_EXTRA: Final = 4  # rank 0 has so many more, to keep neighbouring results apart
_FEWEST: Final = 4  # values that still make walks of different ranks and places differ soon
_EXPONENT_LIMIT: Final = {"float16": 14, "bfloat16": 120, "float32": 120, "float64": 1000}
_LEADER: Final = -1  # the walk that every leading rank of min and max follows
_MOVED: Final = -2  # the walk of elements that are moved and not combined


@dataclass(frozen=True)
class Pattern:
    """One period of what a rank contributes and of what every rank must get, in the element type."""

    contribution: Array
    expected: Array


@lru_cache(maxsize=8)
def make_walk(dtype: str, period: int = PERIODS[0]) -> Array:
    """One period for collectives that only move elements: exact in every type, and the first 251 all different."""
    walk = _walk(_MOVED, period, _CHOICES)
    distinct = np.argsort(_random(_MOVED, _CHOICES), kind="stable")
    if distinct[-1] == walk[_CHOICES]:
        distinct = np.roll(distinct, 1)
    walk[:_CHOICES] = distinct
    while walk[-1] in (walk[-2], walk[0]):
        walk[-1] = (walk[-1] + 1) % _CHOICES
    values: Array = walk.astype(element_type(dtype))
    values.flags.writeable = False
    return values


@dataclass(frozen=True)
class _Values:
    """The values a walk chooses from; at a place one rank in `spread` may change the exponent (prod)."""

    first: Array
    others: Array
    spread: int = 1


def choose_period(lengths: Iterable[int]) -> int:
    """The first of PERIODS that divides none of `lengths`: the elements in a run's chunks and segments."""
    lengths = [length for length in lengths if length > 0]
    return next((prime for prime in PERIODS if all(length % prime for length in lengths)), PERIODS[-1])


@lru_cache(maxsize=8)
def make_pattern(dtype: str, op: str, ranks: int, rank: int, period: int = PERIODS[0]) -> Pattern:
    """The pattern of contributor `rank` of `ranks`, the same on every machine, for ranks × period numbers."""
    if op in ("min", "max"):
        contribution, expected = _extremes(dtype, op, ranks, rank, period)
    else:
        contribution, expected = _combined(dtype, op, ranks, rank, period)
    kind = element_type(dtype)
    pattern = Pattern(contribution.astype(kind), expected.astype(kind))
    pattern.contribution.flags.writeable = pattern.expected.flags.writeable = False
    return pattern


def fill(buffer: Array, period: Array) -> None:
    """Repeat one period over a one-dimensional buffer of the same type."""
    target, source = bits_of(buffer), bits_of(period)
    whole = target.size // source.size * source.size
    target[:whole].reshape(-1, source.size)[:] = source
    target[whole:] = source[: target.size - whole]


def count_differing(buffer: Array, period: Array) -> int:
    """How many elements of a one-dimensional buffer are not, bit for bit, the repeated period."""
    found, wanted = bits_of(buffer), bits_of(period)
    differing = 0
    for start in range(0, found.size, wanted.size):
        part = found[start : start + wanted.size]
        differing += part.size - int(np.count_nonzero(part == wanted[: part.size]))
    return differing


def _random(stream: int, period: int) -> npt.NDArray[np.uint64]:
    """64-bit random numbers, one a place (splitmix64: Steele, Lea & Flood 2014)."""
    place = np.arange(1, period + 1, dtype=np.uint64)
    state = (place + np.uint64((stream + 2) << 32)) * np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: npt.NDArray[np.uint64] = state ^ (state >> np.uint64(31))
    return mixed


def _walk(rank: int, period: int, choices: int) -> npt.NDArray[np.int64]:
    """Numbers in [0, choices): each differs from the one before, the first also from the last."""
    steps = 1 + (_random(rank, period) % np.uint64(choices - 1)).astype(np.int64)
    steps[0] = max(rank, 0)  # while there are choices enough, no two ranks begin with the same value
    walk = np.cumsum(steps) % choices
    while walk[-1] in (walk[-2], walk[0]):
        walk[-1] = (walk[-1] + 1) % choices
    return walk


def _extremes(dtype: str, op: str, ranks: int, rank: int, period: int) -> tuple[Array, Array]:
    """At each place one rank, each in turn, leads with a high value, the same walk whoever leads."""
    choices = min((exact_limit(dtype) + 1) // 2, _CHOICES)
    high = choices + _walk(_LEADER, period, choices)
    leads = np.arange(period) % ranks == rank
    contribution = np.where(leads, high, _walk(rank, period, choices))
    if op == "max":
        return contribution, high
    return 2 * choices - 1 - contribution, 2 * choices - 1 - high


def _combined(dtype: str, op: str, ranks: int, rank: int, period: int) -> tuple[Array, Array]:
    """sum, avg and prod, carried in int64 or, for prod of a float type, in float64 (powers of two)."""
    values = _factors(dtype, ranks) if op == "prod" else _summands(dtype, op, ranks)
    combine: Callable[..., Any] = np.multiply if op == "prod" else np.add
    rest = np.full(period, 1 if op == "prod" else 0, values.first.dtype)
    mine = None
    for other in range(1, ranks):
        row = _row(values, other, ranks, period)
        mine = row if other == rank else mine
        combine(rest, row, out=rest)

    def results_of(first: Array, places: Any) -> Array:
        carried: Array = combine(first, rest[places])
        result = carried if is_float(dtype) else carried.astype(element_type(dtype))
        return _divided(result, dtype, ranks) if op == "avg" else result

    first = _separate(values.first, _walk(0, period, values.first.size), results_of)
    return first if mine is None else mine, results_of(first, slice(None))


def _summands(dtype: str, op: str, ranks: int) -> _Values:
    limit = exact_limit(dtype)
    scale = 1
    if op == "avg" and is_float(dtype):
        limit //= 2  # so that neighbouring sums stay apart when their quotients are rounded
    elif op == "avg":
        scale = ranks  # so that the division leaves no remainder that would hide a small difference
    choices = min((limit // scale - _EXTRA) // ranks, _CHOICES)
    if choices >= _FEWEST:
        first = np.arange(1, choices + _EXTRA + 1, dtype=np.int64)
        return _Values(first * scale, first[:choices] * scale)
    if not is_float(dtype):  # whole numbers wrap, and lose nothing by it: use them all
        every = np.arange(1, 256, dtype=np.int64)
        return _Values(every, every)
    # With signs, the sum of a part of the ranks chosen without knowing the values stays far below the limit.
    small = [-2, -1, 1, 2] if ranks <= 256 else [-1, 0, 1]
    return _Values(np.array([-4, -3, -2, -1, 1, 2, 3, 4], np.int64), np.array(small, np.int64))


def _factors(dtype: str, ranks: int) -> _Values:
    if is_float(dtype):
        limit = _EXPONENT_LIMIT[dtype]
        halves_and_doubles = np.array([2, -0.5, -2, 0.5])
        first = np.concatenate([halves_and_doubles, [4, -0.25, -4, 0.25]])
        return _Values(first, halves_and_doubles, spread=-(-(ranks - 1) // (limit - 2)) or 1)
    # Odd numbers: modulo a power of two each has an inverse, so that a wrapped product hides nothing.
    largest = next((odd for odd in range(_CHOICES, 8, -2) if odd**ranks <= exact_limit(dtype)), _CHOICES)
    odds = np.arange(3, largest + 1, 2, dtype=np.int64)
    return _Values(odds, odds)


def _row(values: _Values, rank: int, ranks: int, period: int) -> Array:
    """The contribution of a rank other than 0."""
    row = values.others[_walk(rank, period, values.others.size)]
    if values.spread == 1:
        return row
    # Only some ranks may change the exponent at a place; between such places the others alternate 1 and -1.
    turn = (_random(_LEADER, period) % np.uint64(values.spread)).astype(np.int64)
    active = (rank + turn) % values.spread == 0
    flips = np.cumsum((_random(rank + ranks, period) & np.uint64(1)).astype(np.int64) * active)
    return np.where(active, row, 1.0 - 2.0 * ((np.arange(period) + flips) % 2))


def _separate(choices: Array, walk: npt.NDArray[np.int64], results_of: Callable[[Array, Any], Array]) -> Array:
    """Rank 0's values, changed where neighbouring results would be equal; two passes settle nearly all.

    ``results_of(values, places)`` gives the results at those places if rank 0 contributes the values.
    """
    period = walk.size
    for _ in range(2):
        result = results_of(choices[walk], slice(None))
        for place in np.flatnonzero(result == np.roll(result, 1)):
            before, after = place - 1, (place + 1) % period
            options = results_of(choices, place)
            fits = (options != result[before]) & (options != result[after])
            fits[[walk[before], walk[after]]] = False
            if fits.any():
                walk[place] = np.flatnonzero(fits)[place % np.count_nonzero(fits)]
                result[place] = options[walk[place]]
    return choices[walk]


def _divided(total: Array, dtype: str, ranks: int) -> Array:
    """The division of avg by the rules of the kernels: in float32 or float64, or toward zero."""
    if not is_float(dtype):
        whole = total.astype(np.int64)
        toward_zero: Array = np.sign(whole) * (np.abs(whole) // ranks)
        return toward_zero
    wide = np.float64 if dtype == "float64" else np.float32
    quotient: Array = total.astype(wide) / wide(ranks)
    return quotient
