"""Measured all-reduces from a results file, and the link they were measured on.

An algorithm's time on a plain link is A · α + B · n · β, where A and B are counted by simulating its schedule; so a
fit of its times at one number of ranks gives α and β, and the simulator takes them to any other.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pycomm.algorithms import registry
from pycomm.checks import check_bytes, check_positive, check_whole
from pycomm.errors import UsageError
from pycomm.model.costs import LatencyBandwidth, Piecewise
from pycomm.model.fit import Estimate, Fit, FittedPiece, fit_line, fit_pieces
from pycomm.model.network import Link, Network, link, link_from, simulate
from pycomm.trace.lines import Lines

FEWEST_SIZES = 3  # of a fit
_PROBE_BYTES = 1 << 22


@dataclass(frozen=True, kw_only=True)
class Variant:
    """What all cases of a series have in common: the fields of a case that make another all-reduce of it."""

    backend: str
    algorithm: str
    options: str
    transport: str
    dtype: str
    ranks: int
    device: str = "cpu"
    op: str = "sum"
    in_place: bool = False
    buffers: str = "ordinary"
    hosts: int = 1

    @property
    def name(self) -> str:
        """For people; of the last five fields what is not as usual."""
        options = f":{self.options}" if self.options else ""
        words = [self.backend, self.algorithm + options, self.transport, self.dtype]
        words += [self.device] * (self.device != "cpu") + [self.op] * (self.op != "sum")
        words += ["in place"] * self.in_place + [self.buffers] * (self.buffers != "ordinary")
        words += [f"{self.hosts} hosts"] * (self.hosts != 1)
        return " ".join([*words, f"{self.ranks} ranks"])


@dataclass(frozen=True, kw_only=True)
class Series:
    """One row of cases: the same all-reduce at growing sizes. `points` are (bytes, median seconds)."""

    variant: Variant
    points: tuple[tuple[int, float], ...]


def read_series(path: str | Path) -> tuple[Series, ...]:
    """The all-reduce cases with status ok of a results file, grouped. Raises UsageError with file, line and reason."""
    lines = Lines(path)
    groups: dict[Variant, dict[int, float]] = {}
    for text in lines:
        if not text.strip():
            continue
        record = _record(lines, text)
        if record["record"] != "case" or record.get("status") != "ok" or record.get("benchmark") != "allreduce":
            continue
        try:
            texts = ("backend", "algorithm", "options", "transport", "dtype", "device", "op", "buffers")
            ranks, size, time_s = record["ranks"], record["bytes"], record["time_s"]["median"]
            hosts, in_place = record.get("hosts", 1), bool(record["in_place"])
            fields = {name: str(record[name]) for name in texts}
        except (KeyError, TypeError) as error:
            raise lines.fail(f"case without {error}") from None
        try:
            variant = Variant(
                ranks=check_whole(ranks, "ranks", 1), hosts=check_whole(hosts, "hosts", 1), in_place=in_place, **fields
            )
            size, time_s = check_bytes(size, "bytes"), check_positive(time_s, "time_s.median")
        except UsageError as error:
            raise lines.fail(str(error)) from None
        if size > 0:
            groups.setdefault(variant, {})[size] = time_s
    if not groups:
        raise lines.fail("no all-reduce with status ok")
    return tuple(Series(variant=variant, points=tuple(sorted(points.items()))) for variant, points in groups.items())


def _record(lines: Lines, text: str) -> dict[str, Any]:
    """A line of a results or fit file. Raises UsageError with file, line and reason."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise lines.fail(f"not JSON: {error}") from None
    if not isinstance(record, dict) or "record" not in record:
        raise lines.fail("not a record of a results file")
    return record


def fit_series(series: Series, *, pieces: bool = True) -> Fit:
    """The series' fit; see `pycomm.model.fit`."""
    sizes, times = zip(*series.points, strict=True)
    return fit_pieces(sizes, times) if pieces else fit_line(sizes, times)


def parse_options(text: str) -> dict[str, int]:
    """`servers=2,dedicated` as a mapping. Raises UsageError."""
    options: dict[str, int] = {}
    for item in filter(None, text.split(",")):
        name, _, value = item.partition("=")
        if value and not value.isdecimal():
            raise UsageError(f"option {item!r}: {value!r} is not a whole number")
        options[name] = int(value) if value else 1
    return options


@dataclass(frozen=True, kw_only=True)
class FittedLink:
    """The link behind a fit, and the same at the ends of its confidence intervals."""

    link: Link
    low: Link
    high: Link


def link_behind(fit: Fit, algorithm: str, ranks: int, options: dict[str, int] | None = None) -> FittedLink:
    """The link on which `algorithm` on `ranks` ranks takes the fitted times.

    Reducing is not told apart from sending: its time goes into the link's time a byte. That is exact for carrying a
    ring to other rank counts, where both grow alike. Raises UsageError for fewer than 2 ranks.
    """
    if ranks < 2:
        raise UsageError("a link shows only between 2 ranks or more")
    size = _PROBE_BYTES // ranks * ranks
    only_latency = Network(between=Link(pieces=((0.0, 1.0, 0.0),)))
    only_bytes = Network(between=link(0.0, 1.0))
    starts = simulate(algorithm, ranks, [size], only_latency, options=options)[0].seconds
    bytes_a_byte = simulate(algorithm, ranks, [size], only_bytes, options=options)[0].seconds / size

    def at(bound: str) -> Link:
        cost = fit.cost(bound)
        return link_from(
            Piecewise(
                # a message of a start is this share of the buffer
                breaks=tuple(size * bytes_a_byte / starts for size in cost.breaks),
                pieces=tuple(
                    LatencyBandwidth(piece.latency_s / starts, piece.seconds_per_byte / bytes_a_byte)
                    for piece in cost.pieces
                ),
            ),
            source=f"fitted: {algorithm} on {ranks} ranks",
        )

    return FittedLink(link=at("value"), low=at("low"), high=at("high"))


def to_record(fit: Fit, series: Series) -> dict[str, Any]:
    """The fit as one JSON line of a fit file."""
    return {
        "record": "fit",
        **asdict(series.variant),
        "pieces": [
            {
                "from_bytes": piece.from_bytes,
                "latency_s": vars(piece.latency_s),
                "seconds_per_byte": vars(piece.seconds_per_byte),
                "residual": piece.residual,
                "points": piece.points,
            }
            for piece in fit.pieces
        ],
        "mean_error": fit.mean_error,
        "largest_error": fit.largest_error,
        "warnings": list(fit.warnings),
    }


def read_fitted(path: str | Path) -> tuple[tuple[str, int, dict[str, int], Fit], ...]:
    """(algorithm, ranks, options, fit) of a fit file, or of a results file, which is fitted first.

    Series of fewer than 3 sizes are left out. Raises UsageError with file, line and reason.
    """
    lines = Lines(path)
    found: list[tuple[str, int, dict[str, int], Fit]] = []
    for text in lines:
        if not text.strip():
            continue
        record = _record(lines, text)
        if record["record"] != "fit":
            continue
        try:
            pieces = tuple(
                FittedPiece(
                    float(check_bytes(piece["from_bytes"], "from_bytes")),
                    _estimate(piece["latency_s"]),
                    _estimate(piece["seconds_per_byte"]),
                    float(piece["residual"]),
                    int(piece["points"]),
                )
                for piece in record["pieces"]
            )
            fit = Fit(pieces, record["mean_error"], record["largest_error"], tuple(record["warnings"]))
            fit.cost()  # refuses pieces that are none or do not grow
            ranks = check_whole(record["ranks"], "ranks", 1)
            found.append((record["algorithm"], ranks, parse_options(record["options"]), fit))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise lines.fail(f"no fit record: {error}") from None
    if not found:
        return tuple(
            (one.variant.algorithm, one.variant.ranks, parse_options(one.variant.options), fit_series(one))
            for one in read_series(path)
            if len(one.points) >= FEWEST_SIZES
        )
    return tuple(found)


def _estimate(bounds: dict[str, Any]) -> Estimate:
    """Raises ValueError for a figure that is not finite, KeyError for one that is missing."""
    value, low, high = (float(bounds[name]) for name in ("value", "low", "high"))
    if not all(map(math.isfinite, (value, low, high))):
        raise ValueError(f"{bounds} is not finite")
    return Estimate(value, low, high)


def choose(
    fitted: Sequence[tuple[str, int, dict[str, int], Fit]], algorithm: str
) -> tuple[str, int, dict[str, int], Fit]:
    """The fit of that algorithm at most ranks; else of the first one the simulator can turn into a link."""
    names = {row.name for row in registry()}  # a library does not say which algorithm it used
    usable = [one for one in fitted if one[1] >= 2 and one[0] in names]
    if not usable:
        raise UsageError(f"no all-reduce by an algorithm of pycomm on 2 ranks or more, at {FEWEST_SIZES} sizes or more")
    same = [one for one in usable if one[0] == algorithm]
    return max(same or usable[:1], key=lambda one: one[1])
