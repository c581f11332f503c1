"""What the benchmarks without ranks do with their rows."""

import os
import socket
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from pycomm.cli.options import command_line
from pycomm.errors import UsageError
from pycomm.launched import launched_ranks
from pycomm.measure.record import CaseRecord, Member, RecordFile, WorldRecord
from pycomm.measure.session import describe_run, record_run
from pycomm.measure.sinks import FORMATS, FileLines, Output, Several
from pycomm.measure.sweep import Counts
from pycomm.measure.table import plain_console


def write_cases(
    cases: Iterable[CaseRecord],
    *,
    out: Path | None,
    force: bool,
    format_: str,
    table: Callable[[list[CaseRecord], int], Table],
) -> int:
    """Write each case as it comes, then the table, in so many characters, and each reason once.

    Returns the exit status.

    Raises UsageError where a launcher has started several of this process: they would disturb each other.
    """
    launched = launched_ranks()
    if launched is not None and launched[1] > 1:
        raise UsageError(f"this benchmark is of one process, but {launched[0]} started {launched[1]}: start it alone")
    outputs: list[Output] = []
    if out is not None:
        outputs.append(FileLines(RecordFile(out, force=force)))
    if format_ in FORMATS:
        outputs.append(FORMATS[format_](sys.stdout))
    output = Several(outputs)
    written: list[CaseRecord] = []

    def measure(counts: Counts) -> None:
        for case in cases:
            written.append(case)
            counts.add(case.status)
            output.add(case)

    alone = WorldRecord("single", "", (Member(0, socket.gethostname(), os.getpid()),))
    status = record_run(output, describe_run(alone, command_line()), measure)
    if format_ not in FORMATS:
        console = plain_console(Console(highlight=False), force=launched is not None)
        console.print(table(written, console.width))
    for reason in dict.fromkeys(case.reason for case in written if case.reason):
        print(f"pycomm: {reason}", file=sys.stderr)
    return status
