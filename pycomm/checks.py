"""Numbers that a caller gives, checked: `True` is no number, NumPy's are. Each raises UsageError, naming what it is."""

from __future__ import annotations

import math
import operator
from numbers import Integral, Real
from typing import Any

from pycomm.errors import UsageError
from pycomm.units import SIZE_LIMIT


def check_time(value: Any, what: str) -> float:
    """`value` as a float, if it can be a duration in seconds: finite and not negative."""
    number = _number(value, what)
    if not 0 <= number < math.inf:
        raise UsageError(f"{what} is {value!r}; a time is finite and not negative")
    return number


def check_positive(value: Any, what: str) -> float:
    """`value` as a float, if it is finite and above 0."""
    number = _number(value, what)
    if not 0 < number < math.inf:
        raise UsageError(f"{what} is {value!r}; it must be finite and positive")
    return number


def check_bytes(value: Any, what: str) -> int:
    """`value` as a whole number of bytes below 2^63; 12.0 is one."""
    number: float = _number(value, what)
    if isinstance(value, Integral):
        number = int(value)  # exactly: a float has no 2^63 - 1
    if not 0 <= number < SIZE_LIMIT or number != int(number):
        raise UsageError(f"{what} is {value!r}; a size is a whole number of bytes, not negative and below 2^63")
    return int(number)


def check_whole(value: Any, what: str, least: int = 0, most: int = 2**31 - 1) -> int:
    """`value` as an int from `least` to `most`; 12.0 is none."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise UsageError(f"{what} is {value!r}, not a whole number")
    number = operator.index(value)
    if not least <= number <= most:
        raise UsageError(f"{what} is {value!r}; it must be {least} to {most}")
    return number


def _number(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise UsageError(f"{what} is {value!r}, not a number")
    try:
        return float(value)
    except OverflowError:
        return math.inf
