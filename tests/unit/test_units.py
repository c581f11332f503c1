"""Sizes are read strictly and the same everywhere."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pycomm import units
from pycomm.errors import UsageError
from pycomm.units import parse_percent, parse_size, parse_sizes


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("4", 4),
        ("4B", 4),
        ("4b", 4),
        ("10556587", 10556587),
        ("64K", 65536),
        ("64k", 65536),
        ("64KiB", 65536),
        ("64kib", 65536),
        ("64kB", 64000),
        ("64KB", 64000),
        ("1.5K", 1536),
        ("1.5M", 1572864),
        ("0.5k", 512),
        ("1.0", 1),
        ("2M", 2097152),
        ("2MB", 2000000),
        ("8g", 8589934592),
        ("1GB", 1000000000),
        ("1T", 1099511627776),
        ("1TB", 1000000000000),
        ("0.001kB", 1),
        ("9223372036854775807", 2**63 - 1),
        ("8388607T", 8388607 * 2**40),
    ],
)
def test_a_size_is_its_bytes(text, size):
    assert parse_size(text) == size


REFUSED = """ |1 K| 1K|1K |1Mxyz|8Gx|1e3|inf|nan|-1|+1|1_000|0x10|1.|.5|1.5|0.3K|K|B|1KK|1iB|1Ki|1P|1,5K|\
١٢|４|1\n|1K\n|\
9223372036854775808|8388608T|99999999999999999999999|1:2|--|None|4:64:4"""


@pytest.mark.parametrize("text", ["", *REFUSED.split("|"), "9" * 5000, "1." + "0" * 5000])
def test_anything_else_is_refused_naming_option_and_text(text):
    with pytest.raises(UsageError) as caught:
        parse_size(text, "--segment-bytes")
    assert "--segment-bytes" in str(caught.value)
    assert repr(text)[1:-1][:20] in str(caught.value)


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("4,1K,1M", [4, 1024, 1048576]),
        ("1K,4,1K,1024", [4, 1024]),
        ("4:64M:x4", [4 * 4**power for power in range(13)]),  # 4·4¹² = 64 Mi
        ("4:100:x4", [4, 16, 64]),
        ("1:8:x2", [1, 2, 4, 8]),
        ("1M:4M:+1M", [1048576, 2097152, 3145728, 4194304]),
        ("10:20:+4", [10, 14, 18]),
        ("7:7:x2", [7]),
        ("0,16:64:x2,20", [0, 16, 20, 32, 64]),
        ("4611686018427387904:9223372036854775807:x2", [2**62]),
        ("9223372036854775800:9223372036854775807:+5", [2**63 - 8, 2**63 - 3]),
    ],
)
def test_a_list_is_sorted_and_holds_each_size_once(text, sizes):
    assert parse_sizes(text) == sizes


@pytest.mark.parametrize(
    "text",
    [
        "", ",", "4,", ",4", "4,,8", "0:64:x2", "64:4:x2", "4:64:x1", "4:64:x0", "4:64:x1.5", "4:64:x-2",
        "4:64:x", "4:64:+0", "4:64:+", "4:64:-4", "4:64:*2", "4:64", "4:64:x2:8", ":64:x2", "4::x2", "4:64:2",
        "4:inf:x2", "4:64:x٢", "1:4G:+1", "4:64:x" + "9" * 5000,
    ],
)  # fmt: skip
def test_a_range_that_would_not_end_or_says_nothing_is_refused(text):
    with pytest.raises(UsageError, match="--sizes") as caught:
        parse_sizes(text)
    assert repr(text)[:20] in str(caught.value)


@given(start=st.integers(1, 2**63 - 1), stop=st.integers(1, 2**63 - 1), factor=st.integers(2, 2**40))
def test_a_geometric_range_increases_and_stays_inside(start, stop, factor):
    if start > stop:
        start, stop = stop, start
    sizes = parse_sizes(f"{start}:{stop}:x{factor}")
    assert sizes == sorted(set(sizes))
    assert sizes[0] == start
    assert sizes[-1] <= stop < sizes[-1] * factor
    assert all(after == before * factor for before, after in pairwise(sizes))


@given(st.integers(0, 2**63 - 1))
def test_plain_bytes_are_read_back_exactly(size):
    assert parse_size(str(size)) == size


def test_shares_need_their_percent_sign():
    assert parse_percent("2%", "--target-ci") == pytest.approx(0.02)
    assert parse_percent("0.5%", "--target-ci") == pytest.approx(0.005)
    for text in ("2", "0%", "-1%", "%", "two%", "2 %", "inf%", "1e3%", ""):
        with pytest.raises(UsageError, match="--target-ci"):
            parse_percent(text, "--target-ci")


def test_people_read_three_digits_and_a_unit():
    assert [units.format_bytes(size) for size in (0, 4, 1023, 1024, 65536, 10556587, 2**26, 3 * 2**39)] == [
        "0 B", "4 B", "1023 B", "1 KiB", "64 KiB", "10.1 MiB", "64 MiB", "1.5 TiB",
    ]  # fmt: skip
    durations = (1.25e-7, 9.999e-7, 1e-6, 4.8672e-3, 0.12345, 2.0, 99.96)
    assert [units.format_duration(duration) for duration in durations] == [
        "125 ns", "1.00 µs", "1.00 µs", "4.87 ms", "123 ms", "2.00 s", "100 s",
    ]  # fmt: skip
    rates = [units.format_rate(rate) for rate in (0, 4e5, 4.2e7, 1.2345e10, 1.2345e11)]
    assert rates == ["0.000", "<.001", "0.042", "12.3", "123"]
