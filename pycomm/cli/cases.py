"""What the benchmarks without ranks do with their rows."""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from pycomm.measure.record import CaseRecord, RecordFile, to_line


def write_cases(
    cases: Iterable[CaseRecord],
    *,
    out: Path | None,
    force: bool,
    format_: str,
    table: Callable[[list[CaseRecord]], Table],
) -> int:
    """Write each case as it comes, then the table and each reason once. Returns the exit status."""
    file = RecordFile(out, force=force) if out is not None else None
    written = []
    for case in cases:
        written.append(case)
        if file is not None:
            file.write_line(to_line(case))
        if format_ == "json":
            print(to_line(case), flush=True)
    if file is not None:
        file.close()
    if format_ == "table":
        Console(highlight=False).print(table(written))
    for reason in dict.fromkeys(case.reason for case in written if case.reason):
        print(f"pycomm: {reason}", file=sys.stderr)
    return 1 if any(case.status in ("failed", "wrong") for case in written) else 0
