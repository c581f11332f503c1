"""The table on standard output: rows as they finish, the best of each size marked; a comparison at the end.

On a terminal a group of rows is printed when it is complete, with the best marked, and below it lives what is
being measured now. Elsewhere every row is printed as it finishes.
"""

import itertools

from rich.console import Console, Group
from rich.live import Live
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from pycomm.measure.columns import (
    BEST,
    GAP,
    MISSING,
    SIZE,
    Column,
    best_median_s,
    choose_columns,
    contender_name,
    format_us,
    groups_that_fit,
    table_width,
)
from pycomm.measure.progress import describe_row, make_progress
from pycomm.measure.record import CaseRecord, EndRecord, RunRecord
from pycomm.measure.row import Row
from pycomm.units import format_bytes

_PLAIN_WIDTH = 400  # of a file or a pipe: a note has room, however long
_CELL = len("1234567 ") + len(BEST)  # of a comparison


class TableSink:
    """Prints a sweep's rows for people. `contenders` are the names in their order, `rows` how many will come."""

    def __init__(
        self,
        console: Console,
        *,
        title: str,
        contenders: list[str],
        rows: int,
        types: int,
        places: int,
        progress: bool = True,
    ) -> None:
        self._console = console
        self._terminal = console.is_terminal
        self._title = title
        self._contenders = contenders
        self._columns, self._left_out = choose_columns(
            types=types,
            places=places,
            names=contenders,
            contest=self._terminal and len(contenders) > 1,
            width=console.width,
        )
        self._group: list[CaseRecord] = []
        self._all: list[CaseRecord] = []
        self._header_due = True
        self._progress = make_progress(console)
        self._task = self._progress.add_task("", total=rows)
        self._live = Live(console=console, transient=True) if self._terminal and progress else None

    def begin(self, run: RunRecord) -> None:
        """Print the title."""
        self._console.print(Text(self._title, style="bold"))
        if self._left_out:
            self._console.print(f"left out, since the terminal is narrow: {', '.join(self._left_out)}", style="dim")
        if self._live is not None:
            self._live.start()

    def begin_group(self, rows: int) -> None:
        """A group starts."""
        self._group = []

    def begin_row(self, row: Row) -> None:
        """Show what is being measured."""
        self._progress.update(self._task, description=describe_row(row))
        self._show_current()

    def add(self, case: CaseRecord) -> None:
        """A row is there."""
        self._group.append(case)
        self._all.append(case)
        self._progress.advance(self._task)
        if not self._terminal:
            self._print([case], None)

    def end_group(self) -> None:
        """Print the group with its best row marked."""
        group, self._group = self._group, []
        self._show_current()
        if self._terminal:
            self._print(group, best_median_s(group))

    def end(self, end: EndRecord) -> None:
        """Print what has not been, and the comparison."""
        if self._live is not None:
            self._live.stop()
        if self._terminal and self._group:
            self._print(self._group, best_median_s(self._group))
        if len(self._contenders) > 1 and any(case.time_s for case in self._all):
            for title, comparison in compare(self._all, self._contenders, self._console.width):
                self._console.print()
                self._console.print(Text(title, style="bold"))
                self._console.print(comparison)

    def _show_current(self) -> None:
        if self._live is None:
            return
        parts: list[Table | Progress] = [self._progress]
        if self._group:
            parts.insert(0, self._rows(self._group, best_median_s(self._group)))
        self._live.update(Group(*parts), refresh=True)

    def _print(self, cases: list[CaseRecord], best_s: float | None) -> None:
        self._console.print(self._rows(cases, best_s))
        self._header_due = False

    def _rows(self, cases: list[CaseRecord], best_s: float | None) -> Table:
        return build_rows(self._columns, cases, best_s, header=self._header_due, width=self._console.width)


def plain_console(console: Console, *, force: bool = False) -> Console:
    """The console; a plain one, wide enough for a row a line, when its output is no terminal, or by `force`."""
    if console.is_terminal and not force:
        return console
    return Console(file=console.file, width=_PLAIN_WIDTH, highlight=False, force_terminal=False, no_color=True)


def build_rows(
    columns: list[Column], cases: list[CaseRecord], best_s: float | None, *, header: bool, width: int
) -> Table:
    """Rows as a table whose columns have the same widths every time, so that pieces fit together.

    What the columns leave of `width` characters is for a note, which is cut where it is longer.
    """
    table = Table(box=None, show_header=header, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold cyan")
    for column in columns:
        table.add_column(
            f"{column.heading}\n{column.unit}",
            justify="right" if column.right else "left",
            width=column.width,
            no_wrap=True,
            overflow="fold",
        )
    table.add_column("\n", no_wrap=True, max_width=max(1, width - table_width(columns)))
    for case in cases:
        texts = [column.text(case, best_s) for column in columns]
        best = case.time_s is not None and case.time_s.median == best_s
        note = case.reason if case.status == "ok" else f"{case.status}: {case.reason}"
        table.add_row(*texts, Text(note), style=_style(case, best))
    return table


def _style(case: CaseRecord, best: bool) -> str:
    if case.status in ("wrong", "failed"):
        return "bold red"
    if case.status == "skipped":
        return "dim"
    return "bold green" if best else ""


def compare(cases: list[CaseRecord], contenders: list[str], width: int) -> list[tuple[str, Table]]:
    """A title and table for each type and place: sizes down, contenders across, the best of a size marked.

    Several tables where all contenders have no room in `width` characters.
    """
    tables = []
    together = groups_that_fit(contenders, _CELL, width - SIZE.width - GAP)
    places = dict.fromkeys((case.dtype, case.in_place) for case in cases)
    for (dtype, in_place), names in itertools.product(places, together):
        chosen = [case for case in cases if (case.dtype, case.in_place) == (dtype, in_place)]
        table = Table(header_style="bold cyan", box=None, pad_edge=False, padding=(0, GAP, 0, 0))
        table.add_column("size", justify="right", no_wrap=True)
        for name in names:
            table.add_column(name, justify="right", no_wrap=True)
        for size in dict.fromkeys(case.bytes for case in chosen):
            of_size = {contender_name(case): case for case in chosen if case.bytes == size}
            table.add_row(format_bytes(size), *_cells(of_size, names))
        title = f"time of one call in µs (median), {dtype}, {place_name(in_place)}; {BEST} best of its size"
        tables.append((title, table))
    return tables


def _cells(of_size: dict[str, CaseRecord], names: list[str]) -> list[Text]:
    best_s = best_median_s(list(of_size.values()))
    cells = []
    for name in names:
        case = of_size.get(name)
        if case is None or case.time_s is None:
            text = MISSING if case is None or case.status == "skipped" else case.status
            cells.append(Text(f"{text}  ", style="dim" if text == MISSING else "bold red"))
        elif case.time_s.median == best_s:
            cells.append(Text(f"{format_us(case.time_s.median)} {BEST}", style="bold green"))
        else:
            cells.append(Text(f"{format_us(case.time_s.median)}  "))
    return cells


def place_name(in_place: bool) -> str:
    """``in place`` or ``out of place``."""
    return "in place" if in_place else "out of place"
