"""What people read of a row: the columns of the table, each heading with its unit."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pycomm.measure.record import CaseRecord
from pycomm.units import MICROSECONDS_A_SECOND, format_bytes, format_rate

MISSING: Final = "—"
BEST: Final = "★"
NOISY: Final = "~"


@dataclass(frozen=True)
class Column:
    """A heading, its unit, the width in characters, and a row's text given the best median of its group."""

    heading: str
    unit: str
    width: int
    text: Callable[[CaseRecord, float | None], str]
    right: bool = True


def plain_name(backend: str, algorithm: str, options: str) -> str:
    """What competes: ``ring``, ``ps:servers=2``, ``mpi``."""
    name = algorithm if backend == "native" else backend
    return f"{name}:{options}" if options else name


def contender_name(case: CaseRecord) -> str:
    """The name of a row's contender."""
    return plain_name(case.backend, case.algorithm, case.options)


def best_median_s(cases: list[CaseRecord]) -> float | None:
    """The shortest median of rows that belong together; None when there is nothing to compare.

    Rows with dedicated servers sum fewer contributions than the others, and are not held against them.
    """
    timed = [(case.workers, case.time_s.median) for case in cases if case.time_s is not None]
    most = max((workers for workers, _ in timed), default=0)
    medians = [median for workers, median in timed if workers == most]
    return min(medians) if len(medians) > 1 else None


def format_us(duration_s: float) -> str:
    """Seconds as microseconds, three digits or whole: ``0.12``, ``44.1``, ``44012``."""
    duration_us = duration_s * MICROSECONDS_A_SECOND
    return f"{duration_us:.{2 if duration_us < 9.995 else 1 if duration_us < 99.95 else 0}f}"


def _rate(rate_Bps: float | None) -> str:
    return format_rate(rate_Bps) if rate_Bps else MISSING


def _median(case: CaseRecord, best_s: float | None) -> str:
    return MISSING if case.time_s is None else format_us(case.time_s.median)


def _spread(case: CaseRecord, best_s: float | None) -> str:
    if case.time_s is None or case.time_s.ci95_low is None:
        return MISSING
    noisy = any(warning.startswith("noisy") for warning in case.warnings)
    share = case.time_s.ci_share * 100
    return f"{NOISY if noisy else ''}{f'{share:.1f}' if share < 99.95 else '>99'}"


def _p99(case: CaseRecord, best_s: float | None) -> str:
    return MISSING if case.time_s is None else format_us(case.time_s.p99)


def _wire(case: CaseRecord, best_s: float | None) -> str:
    if case.time_s is None or case.wire_bytes_busiest_rank is None or case.time_s.median <= 0:
        return MISSING
    return _rate(case.wire_bytes_busiest_rank / case.time_s.median)


def _behind(case: CaseRecord, best_s: float | None) -> str:
    if case.time_s is None or best_s is None or best_s <= 0:
        return MISSING
    return BEST if case.time_s.median == best_s else f"{case.time_s.median / best_s:.2f}"


def _wrong(case: CaseRecord, best_s: float | None) -> str:
    return MISSING if case.wrong is None else str(case.wrong)


SIZE: Final = Column("size", "", 9, lambda case, best_s: format_bytes(case.bytes))
NAME: Final = Column("algorithm", "", 12, lambda case, best_s: contender_name(case), right=False)
TYPE: Final = Column("type", "", 8, lambda case, best_s: case.dtype, right=False)
PLACE: Final = Column("place", "", 5, lambda case, best_s: "in" if case.in_place else "out", right=False)
TIME: Final = Column("time", "µs", 8, _median)
RATE: Final = Column("rate", "GB/s", 5, lambda case, best_s: _rate(case.algbw_Bps))
TIMES: Final = (
    TIME,
    Column("±", "%", 5, _spread),
    Column("p99", "µs", 8, _p99),
    Column("algbw", "GB/s", 5, lambda case, best_s: _rate(case.algbw_Bps)),
    Column("busbw", "GB/s", 5, lambda case, best_s: _rate(case.busbw_Bps)),
    Column("wire", "GB/s", 5, _wire),
)
BEHIND: Final = Column("× best", "", 6, _behind)
WRONG: Final = Column("wrong", "elem.", 5, _wrong)


GAP: Final = 2  # characters between columns

# What a narrow terminal does without, the first first.
_DISPENSABLE: Final = ("p99", "algbw", "wire", "× best", "±")


def choose_columns(
    *, types: int, places: int, names: list[str], contest: bool, width: int
) -> tuple[list[Column], list[str]]:
    """The columns that say something and fit: type and place where they vary, × best where groups are compared.

    And the headings of those that `width` characters have no room for.
    """
    widest = max([NAME.width, *map(len, names)])
    name = Column(NAME.heading, NAME.unit, widest, NAME.text, right=False)
    varying = [TYPE] * (types > 1) + [PLACE] * (places > 1)
    columns = [SIZE, *varying, name, *TIMES, *[BEHIND] * contest, WRONG]
    left_out = []
    for heading in _DISPENSABLE:
        if table_width(columns) < width:
            break
        left_out += [column.heading for column in columns if column.heading == heading]
        columns = [column for column in columns if column.heading != heading]
    return columns, left_out


def table_width(columns: list[Column]) -> int:
    """Characters, the gap after the last column too."""
    return sum(column.width + GAP for column in columns)


def groups_that_fit(names: list[str], cell: int, width: int) -> list[list[str]]:
    """The names in groups, each of which has room in `width` characters with cells of at least `cell`."""
    groups: list[list[str]] = [[]]
    used = 0
    for name in names:
        needed = max(cell, len(name)) + GAP
        if groups[-1] and used + needed > width:
            groups.append([])
            used = 0
        groups[-1].append(name)
        used += needed
    return groups
