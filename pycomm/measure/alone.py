"""Rows of benchmarks that one process runs alone: packing, copies."""

from dataclasses import replace
from typing import Any

import numpy as np

from pycomm.measure.record import CaseRecord, Loop
from pycomm.measure.statistics import summarise
from pycomm.units import NANOSECONDS_A_SECOND


def blank_row(**fields: Any) -> CaseRecord:
    """A row before anything is known of it; `fields` are those of CaseRecord that no world gives."""
    return CaseRecord(**fields, op="", in_place=False, buffers="ordinary", ranks=1, workers=1, hosts=1, status="failed")


def timed_row(blank: CaseRecord, elapsed_ns: Any, warmup: int, loop: Loop) -> CaseRecord:
    """The row with its times, one of `elapsed_ns` a call."""
    summary = summarise(np.asarray(elapsed_ns, np.float64) / NANOSECONDS_A_SECOND)
    return replace(
        blank,
        status="ok",
        iterations=len(elapsed_ns),
        warmup=warmup,
        loop=loop,
        time_s=summary,
        algbw_Bps=blank.bytes / summary.median if summary.median > 0 else None,
    )
