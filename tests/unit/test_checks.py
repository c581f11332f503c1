"""Numbers that a caller gives: what is one, exactly, and what is none."""

from fractions import Fraction

import numpy as np
import pytest

from pycomm.checks import check_bytes, check_positive, check_time, check_whole
from pycomm.errors import UsageError

NONE = [True, np.True_, "1", None, [1], 1j]


@pytest.mark.parametrize("check", [check_time, check_positive, check_bytes, check_whole])
@pytest.mark.parametrize("value", [*NONE, float("nan"), float("inf"), -1, 10**400])
def test_what_is_no_number_or_beyond_all_is_refused_by_name(check, value):
    with pytest.raises(UsageError, match="the width is"):
        check(value, "the width")


@pytest.mark.parametrize("value", [3, 3.0, np.int8(3), np.float32(3), Fraction(3)])
def test_numbers_of_any_kind_are_numbers(value):
    for check, kind in ((check_time, float), (check_positive, float), (check_bytes, int)):
        found = check(value, "it")
        assert (found, type(found)) == (3, kind)


def test_the_largest_size_is_kept_to_the_byte():
    assert check_bytes(2**63 - 1, "it") == 2**63 - 1
    for value in (2**63, 2.0**63, 0.5):
        with pytest.raises(UsageError, match="a size is a whole number of bytes"):
            check_bytes(value, "it")


def test_a_time_may_be_0_and_a_positive_number_not():
    assert check_time(0, "it") == 0
    with pytest.raises(UsageError, match="it is 0; it must be finite and positive"):
        check_positive(0, "it")


def test_a_whole_number_has_a_least_and_a_most():
    assert check_whole(np.uint8(7), "it", 1, 7) == 7
    for value in (0, 8):
        with pytest.raises(UsageError, match=f"it is {value}; it must be 1 to 7"):
            check_whole(value, "it", 1, 7)
    with pytest.raises(UsageError, match=r"it is 3\.0, not a whole number"):
        check_whole(3.0, "it")
