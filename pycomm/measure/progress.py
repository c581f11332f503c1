"""The progress bar: which row is being measured, of how many."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pycomm.measure.columns import plain_name
from pycomm.measure.record import CaseRecord, EndRecord, RunRecord
from pycomm.measure.row import Row
from pycomm.units import format_bytes


def make_progress(console: Console) -> Progress:
    """A bar that vanishes when it stops."""
    return Progress(
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", style="dim"),
        console=console,
        transient=True,
    )


def describe_row(row: Row) -> str:
    """``ring, 64 KiB of float32``."""
    contender = row.contender
    name = plain_name(contender.backend, contender.algorithm, contender.options)
    return f"{name}, {format_bytes(row.bytes)} of {row.dtype}"


class ProgressSink:
    """The bar alone, on a terminal that the rows do not go to."""

    def __init__(self, console: Console, rows: int) -> None:
        self._progress = make_progress(console)
        self._task = self._progress.add_task("", total=rows)

    def begin(self, run: RunRecord) -> None:
        self._progress.start()

    def begin_group(self, rows: int) -> None: ...

    def begin_row(self, row: Row) -> None:
        self._progress.update(self._task, description=describe_row(row))

    def add(self, case: CaseRecord) -> None:
        self._progress.advance(self._task)

    def end_group(self) -> None: ...

    def end(self, end: EndRecord) -> None:
        self._progress.stop()
