"""Sizes, durations, rates and shares: read from text, and written for people. Only here stand 1e9 and 1024.

A size is a whole number of bytes. K M G T and KiB MiB GiB TiB are powers of two, kB MB GB TB powers of ten,
in either case: ``64k`` = ``64K`` = ``64KiB`` = 65536 and ``64kB`` = 64000.

>>> parse_size("1.5K")
1536
>>> parse_sizes("1K,4:64:x4")
[4, 16, 64, 1024]
"""

import re
from collections.abc import Iterator
from typing import Final

from pycomm.errors import UsageError

SIZE_LIMIT: Final = 2**63  # sizes stay below it
RANGE_LIMIT: Final = 100_000  # sizes in one range, at most

NANOSECONDS_A_SECOND: Final = 1_000_000_000
MICROSECONDS_A_SECOND: Final = 1e6
BYTES_A_GB: Final = 1e9

_PREFIXES: Final = "kmgt"
_SIZE: Final = re.compile(r"([0-9]+)(?:\.([0-9]+))?(b|[kmgt](?:i?b)?)?", re.ASCII | re.IGNORECASE)
_FACTOR: Final = re.compile(r"[0-9]{1,19}", re.ASCII)
_PERCENT: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)%", re.ASCII)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "…")


def _refuse(option: str, text: str, wanted: str) -> UsageError:
    return UsageError(f"{option}: {_shown(text)}: {wanted}")


def _scale(suffix: str) -> int:
    suffix = suffix.lower()
    if suffix in ("", "b"):
        return 1
    power = _PREFIXES.index(suffix[0]) + 1
    scale: int = (1000 if suffix[1:] == "b" else 1024) ** power
    return scale


def parse_size(text: str, option: str = "size") -> int:
    """The bytes that ``text`` names: 0 or more, below 2⁶³.

    Raises UsageError, naming ``option`` and ``text``, for anything that is not exactly such a number.
    """
    match = _SIZE.fullmatch(text)
    if match is None or len(text) > 100:
        raise _refuse(option, text, "not a size: wanted bytes such as 4, 64K, 1.5M or 64kB")
    whole, fraction, suffix = match[1], match[2] or "", match[3] or ""
    numerator = int(whole + fraction) * _scale(suffix)
    denominator: int = 10 ** len(fraction)
    if numerator % denominator:
        raise _refuse(option, text, "not a whole number of bytes")
    if numerator // denominator >= SIZE_LIMIT:
        raise _refuse(option, text, "too large: sizes are below 2^63 bytes")
    return numerator // denominator


def _range(text: str, option: str) -> Iterator[int]:
    parts = text.split(":")
    if len(parts) != 3 or parts[2][:1] not in ("x", "+"):
        raise _refuse(option, text, "not a range: wanted FROM:TO:xFACTOR or FROM:TO:+STEP")
    start, stop = (_size_of(part, text, option) for part in parts[:2])
    if start < 1:
        raise _refuse(option, text, "a range starts at 1 byte or more")
    if start > stop:
        raise _refuse(option, text, "a range goes from the smaller to the larger size")
    if parts[2][0] == "x":
        if not _FACTOR.fullmatch(parts[2][1:]) or int(parts[2][1:]) < 2:
            raise _refuse(option, text, "the factor is a whole number of 2 or more")
        factor, step = int(parts[2][1:]), 0
    else:
        factor, step = 1, _size_of(parts[2][1:], text, option)
        if step < 1:
            raise _refuse(option, text, "the step is 1 byte or more")
        if (stop - start) // step + 1 > RANGE_LIMIT:
            raise _refuse(option, text, f"{(stop - start) // step + 1} sizes: at most {RANGE_LIMIT} in a range")
    size = start
    while size <= stop:
        yield size
        size = size * factor + step


def _size_of(part: str, text: str, option: str) -> int:
    """The size that stands in a range. Raises UsageError that names the whole range."""
    try:
        return parse_size(part, option)
    except UsageError as error:
        raise _refuse(option, text, str(error).removeprefix(f"{option}: ")) from None


def parse_sizes(text: str, option: str = "--sizes") -> list[int]:
    """The sizes in bytes that a list of sizes and ranges names, ascending, each once.

    A range ``4:64M:x4`` or ``1M:8M:+1M`` holds its end if it is hit. Raises UsageError as parse_size does.
    """
    sizes: set[int] = set()
    for item in text.split(","):
        if not item:
            raise _refuse(option, text, "an empty item" if text else "empty: wanted at least one size")
        sizes.update(_range(item, option) if ":" in item else [parse_size(item, option)])
    return sorted(sizes)


def parse_percent(text: str, option: str) -> float:
    """``"2%"`` as 0.02. Raises UsageError unless it is a number above 0 and a percent sign."""
    match = _PERCENT.fullmatch(text)
    share = float(match[1]) / 100 if match and len(text) <= 40 else 0.0
    if share <= 0:
        raise _refuse(option, text, "not a share: wanted a number above 0 with a percent sign, such as 2%")
    return share


def format_bytes(size: int) -> str:
    """A size in binary units, exact where it is whole, else in three digits: ``64 KiB``, ``10.1 MiB``."""
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if size >= 1024**power:
            scaled = size / 1024**power
            return f"{scaled:.0f} {unit}" if size % 1024**power == 0 else f"{scaled:.3g} {unit}"
    return f"{size} B"


def format_duration(duration_s: float) -> str:
    """Seconds in three digits and the unit that suits: ``4.87 ms``, ``120 ns``."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if duration_s >= scale * 0.9995:
            return f"{_three_digits(duration_s / scale)} {unit}"
    return f"{_three_digits(duration_s * NANOSECONDS_A_SECOND)} ns"


def format_rate(rate_Bps: float) -> str:
    """Bytes per second as GB/s (1 GB = 10⁹ B), without the unit, in three digits: ``12.3``, ``0.042``, ``<.001``."""
    rate_GBps = rate_Bps / BYTES_A_GB
    if 0 < rate_GBps < 0.0005:
        return "<.001"
    return f"{rate_GBps:.3f}" if rate_GBps < 0.9995 else _three_digits(rate_GBps)


def _three_digits(value: float) -> str:
    decimals = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{decimals}f}"
