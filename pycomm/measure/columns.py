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
    """The shortest median of rows that belong together; None when there is nothing to compare."""
    medians = [case.time_s.median for case in cases if case.time_s is not None]
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
    return BEST if case.time_s.median <= best_s else f"{case.time_s.median / best_s:.2f}"


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


def choose_columns(*, types: int, places: int, names: list[str], contest: bool) -> list[Column]:
    """The columns that say something: type and place where they vary, × best where groups are compared."""
    widest = max([NAME.width, *map(len, names)])
    name = Column(NAME.heading, NAME.unit, widest, NAME.text, right=False)
    varying = [TYPE] * (types > 1) + [PLACE] * (places > 1)
    return [SIZE, *varying, name, *TIMES, *[BEHIND] * contest, WRONG]
