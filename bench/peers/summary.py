"""The results file as two tables for each number of ranks, in Markdown."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from peers.cases import algorithm_of, name_of
from peers.phases import BUFFERS, LINE_BYTES
from peers.ratios import geometric_mean, ratio, smallest
from pycomm.measure.record import CaseRecord, RunRecord
from pycomm.units import MICROSECONDS_A_SECOND, format_bytes, format_duration

TABLES: Final = {"c": "C loop against C loop", "python": "Python against Python"}


@dataclass(frozen=True)
class Sheet:
    """The rows of one table at one number of ranks.

    Attributes:
        counted: the sizes that the geometric means are over.
        peers: the peers' columns.
    """

    table: str
    ranks: int
    cases: tuple[CaseRecord, ...]
    limits: tuple[CaseRecord, ...]
    counted: frozenset[int]

    @property
    def sizes(self) -> list[int]:
        return sorted({case.bytes for case in self.cases})

    @property
    def peers(self) -> list[str]:
        return list(dict.fromkeys(name_of(case) for case in self.cases if case.backend != "native"))

    def case(self, size: int, name: str, language: str = "") -> CaseRecord | None:
        """The row that has a time; pycomm's is the one timed in the table's own language unless another is named."""
        wanted = language or self.table
        for case in self.cases:
            timed = case.status == "ok" and case.loop is not None and case.loop.language == wanted
            if timed and case.bytes == size and name_of(case) == name:
                return case
        return None

    def time_s(self, size: int, name: str, language: str = "") -> float | None:
        """Its median."""
        case = self.case(size, name, language)
        return None if case is None or case.time_s is None else case.time_s.median

    def limit_s(self, kind: str, size: int) -> float | None:
        """The median of a limit."""
        for case in self.limits:
            if case.benchmark == f"limit {kind}" and case.bytes == size and case.time_s is not None:
                return case.time_s.median
        return None

    def ratios(self, buffers: str) -> dict[int, float]:
        """The fastest peer's time over pycomm's, by size."""
        found = {}
        for size in self.sizes:
            peers_s = [time_s for name in self.peers if (time_s := self.time_s(size, name)) is not None]
            own_s = self.time_s(size, f"pycomm {buffers}")
            if peers_s and own_s is not None:
                found[size] = ratio(peers_s, own_s)
        return found


def sheets(cases: Iterable[CaseRecord], counted: Iterable[int]) -> list[Sheet]:
    """The rows sorted into tables, in the order of the run."""
    cases = list(cases)
    limits = [case for case in cases if case.benchmark.startswith("limit ")]
    found = []
    for ranks in dict.fromkeys(case.ranks for case in cases):
        for table in TABLES:
            rows = tuple(case for case in cases if case.ranks == ranks and case.benchmark == f"allreduce {table}")
            if rows:
                mine = tuple(limit for limit in limits if limit.ranks == ranks)
                found.append(Sheet(table, ranks, rows, mine, frozenset(counted)))
    return found


def summary(
    run: RunRecord,
    all_sheets: Sequence[Sheet],
    libraries: Mapping[str, str],
    caches: Mapping[str, str],
    notes: Sequence[str],
) -> str:
    """The whole page. `libraries` are the peers' own words for their versions."""
    machine = run.machine
    memory = "" if machine.memory_bytes is None else f", {format_bytes(machine.memory_bytes)} of memory"
    lines = [
        "# Side by side",
        "",
        f"{machine.cpu}, {machine.cores} cores{memory}, {machine.system}; {run.started}.",
        ("Caches: " + ", ".join(f"{name} {size}" for name, size in caches.items()) + ".") if caches else "",
        "",
        "All-reduce, float32, sum, out of place; a barrier before every sample; medians of the slowest rank. A ratio "
        "is the time of the fastest peer over pycomm's: above 1, pycomm is ahead. "
        "[How it is measured](../../docs/peers.md).",
        "",
        *[f"- {name}: {version}" for name, version in {**run.versions, **libraries}.items()],
        *[f"- {note}" for note in notes],
    ]
    for sheet in all_sheets:
        lines += ["", f"## {sheet.ranks} ranks, {TABLES[sheet.table]}", "", *_table(sheet), "", *_means(sheet)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _table(sheet: Sheet) -> list[str]:
    own = [f"pycomm {buffers}" for buffers in BUFFERS]
    headings = ["Size", *sheet.peers, *own, *(f"ratio {buffers}" for buffers in BUFFERS)]
    if sheet.table == "c":
        headings += ["memory limit", "of the limit"]
    else:
        headings += [f"over the C loop, {buffers}" for buffers in BUFFERS]
    ratios = {buffers: sheet.ratios(buffers) for buffers in BUFFERS}
    rows = []
    for size in sheet.sizes:
        cells = [format_bytes(size) + ("" if size in sheet.counted else " *")]
        cells += [_duration(sheet.time_s(size, name)) for name in sheet.peers]
        cells += [_with_algorithm(sheet, size, name) for name in own]
        cells += [f"{ratios[buffers][size]:.2f}" if size in ratios[buffers] else "–" for buffers in BUFFERS]
        cells += _limit_cells(sheet, size) if sheet.table == "c" else [_added(sheet, size, name) for name in own]
        rows.append(cells)
    return markdown(headings, rows)


def _with_algorithm(sheet: Sheet, size: int, name: str) -> str:
    case = sheet.case(size, name)
    if case is None:
        return "–"
    return f"{_duration(sheet.time_s(size, name))} {algorithm_of(case)}"


def _limit_cells(sheet: Sheet, size: int) -> list[str]:
    limit_s, own_s = sheet.limit_s("memory", size), sheet.time_s(size, "pycomm symmetric")
    return [_duration(limit_s), "–" if limit_s is None or own_s is None else f"{limit_s / own_s:.0%}"]


def _added(sheet: Sheet, size: int, name: str) -> str:
    """What the call from Python costs above the native loop's."""
    python_s, c_s = sheet.time_s(size, name), sheet.time_s(size, name, "c")
    if python_s is None or c_s is None:
        return "–"
    return f"{(python_s - c_s) * MICROSECONDS_A_SECOND:+.2f} µs"


def _means(sheet: Sheet) -> list[str]:
    lines = []
    for buffers in BUFFERS:
        ratios = {size: value for size, value in sheet.ratios(buffers).items() if size in sheet.counted}
        if ratios:
            size, least = smallest(ratios)
            lines.append(
                f"- {buffers} buffers: geometric mean {geometric_mean(ratios.values()):.2f} over {len(ratios)} sizes; "
                f"the smallest ratio is {least:.2f}, at {format_bytes(size)}"
            )
    line_s, trip_s = sheet.limit_s("line", LINE_BYTES), sheet.limit_s("roundtrip", LINE_BYTES)
    own_s = sheet.time_s(LINE_BYTES, "pycomm symmetric")
    if sheet.table == "c" and line_s is not None and own_s is not None:
        lines.append(
            f"- {format_bytes(LINE_BYTES)}, symmetric buffers: {own_s / line_s:.2f} times the exchange of a line both "
            f"ways, which takes {format_duration(line_s)} (a line there and one back: {_duration(trip_s)})"
        )
    if any(size not in sheet.counted for size in sheet.sizes):
        lines.append("- \\* beside the line's limit only; not in the means")
    return lines


def _duration(duration_s: float | None) -> str:
    return "–" if duration_s is None else format_duration(duration_s)


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table whose columns line up in plain text too; the first column is text, the others are numbers."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    rule = ["-" * width if place == 0 else "-" * (width - 1) + ":" for place, width in enumerate(widths)]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "| " + " | ".join(padded) + " |"

    return [line(headings), "|" + "|".join(f" {dashes} " for dashes in rule) + "|", *map(line, rows)]
