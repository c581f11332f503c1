"""Where rank 0 puts the rows of a sweep: a results file, and one format on standard output."""

import csv
import sys
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import IO, Any, Final, Protocol

from pycomm.measure.columns import PLACE, SIZE, TIMES, TYPE, WRONG, Column, contender_name
from pycomm.measure.record import CaseRecord, EndRecord, Loop, RecordFile, RunRecord, to_line
from pycomm.measure.row import Row
from pycomm.measure.statistics import Summary


class Output(Protocol):
    """A sweep's output, from the run record to the end record."""

    def begin(self, run: RunRecord) -> None: ...

    def begin_group(self, rows: int) -> None: ...

    def begin_row(self, row: Row) -> None: ...

    def add(self, case: CaseRecord) -> None: ...

    def end_group(self) -> None: ...

    def end(self, end: EndRecord) -> None: ...


class Lines:
    """An output that writes a line a row and needs to know nothing else."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def begin(self, run: RunRecord) -> None: ...

    def begin_group(self, rows: int) -> None: ...

    def begin_row(self, row: Row) -> None: ...

    def add(self, case: CaseRecord) -> None: ...

    def end_group(self) -> None: ...

    def end(self, end: EndRecord) -> None: ...

    def _write(self, line: str) -> None:
        self._file.write(line + "\n")
        self._file.flush()


class JsonLines(Lines):
    """The records themselves, on standard output."""

    def begin(self, run: RunRecord) -> None:
        self._write(to_line(run))

    def add(self, case: CaseRecord) -> None:
        self._write(to_line(case))

    def end(self, end: EndRecord) -> None:
        self._write(to_line(end))


class FileLines(JsonLines):
    """The records, into a results file."""

    def __init__(self, file: RecordFile) -> None:
        self._records = file

    def _write(self, line: str) -> None:
        self._records.write_line(line)

    def end(self, end: EndRecord) -> None:
        super().end(end)
        self._records.close()


class Csv(Lines):
    """Every field of a row, nested ones with a dot: ``time_s.median``."""

    def begin(self, run: RunRecord) -> None:
        self._row(csv_names())

    def add(self, case: CaseRecord) -> None:
        values = asdict(case)
        self._row([_csv_value(values, name) for name in csv_names()])

    def _row(self, cells: Sequence[Any]) -> None:
        csv.writer(self._file, lineterminator="\n").writerow(cells)
        self._file.flush()


def csv_names() -> list[str]:
    """The headings of the CSV."""
    nested = {"loop": Loop, "time_s": Summary, "host_time_s": Summary}
    names: list[str] = []
    for item in fields(CaseRecord):
        inner = nested.get(item.name)
        names += [item.name] if inner is None else [f"{item.name}.{part.name}" for part in fields(inner)]
    return names


def _csv_value(values: dict[str, Any], name: str) -> Any:
    outer, _, inner = name.partition(".")
    value = values[outer]
    if inner:
        value = None if value is None else value[inner]
    if isinstance(value, bool):
        return str(value).lower()
    return "; ".join(value) if isinstance(value, tuple) else value


class Markdown(Lines):
    """A Markdown table of what people read."""

    _COLUMNS: tuple[Column, ...] = (
        SIZE,
        TYPE,
        PLACE,
        Column("algorithm", "", 0, lambda case, best_s: contender_name(case), right=False),
        *TIMES,
        WRONG,
        Column("status", "", 0, lambda case, best_s: ": ".join(filter(None, (case.status, case.reason))), right=False),
    )

    def begin(self, run: RunRecord) -> None:
        self._cells([f"{column.heading} {column.unit}".strip() for column in self._COLUMNS])
        self._cells(["---:" if column.right else ":---" for column in self._COLUMNS])

    def add(self, case: CaseRecord) -> None:
        self._cells([column.text(case, None).replace("|", "\\|") for column in self._COLUMNS])

    def _cells(self, cells: list[str]) -> None:
        self._write(f"| {' | '.join(cells)} |")


# What standard output can hold beside a table.
FORMATS: Final[dict[str, type[Lines]]] = {"csv": Csv, "json": JsonLines, "markdown": Markdown}


class Several:
    """Several outputs as one, in order: the file first, so that what is seen is on disk."""

    def __init__(self, outputs: Sequence[Output]) -> None:
        self._outputs = outputs

    def begin(self, run: RunRecord) -> None:
        for output in self._outputs:
            output.begin(run)

    def begin_group(self, rows: int) -> None:
        for output in self._outputs:
            output.begin_group(rows)

    def begin_row(self, row: Row) -> None:
        for output in self._outputs:
            output.begin_row(row)

    def add(self, case: CaseRecord) -> None:
        for output in self._outputs:
            output.add(case)

    def end_group(self) -> None:
        for output in self._outputs:
            output.end_group()

    def end(self, end: EndRecord) -> None:
        for output in self._outputs:
            output.end(end)


class Notes(Lines):
    """Warnings on standard error: each once, when it first comes, and the counts at the end."""

    def __init__(self) -> None:
        self._skipped: dict[str, list[str]] = {}  # by reason: who, once a row
        self._noisy = 0
        self._seen: set[str] = set()

    def add(self, case: CaseRecord) -> None:
        if case.status == "skipped":
            self._skipped.setdefault(case.reason, []).append(contender_name(case))
        for warning in case.warnings:
            if warning.startswith("noisy"):
                self._noisy += 1
            elif warning not in self._seen and not warning.startswith("rank "):
                self._seen.add(warning)
                self._say(warning)

    def end(self, end: EndRecord) -> None:
        for reason, names in self._skipped.items():
            who = _some(list(dict.fromkeys(names)))
            self._say(f"{_rows(len(names))} skipped: {who}: {reason.removeprefix(f'{who}: ')}")
        if self._noisy:
            self._say(
                f"{_rows(self._noisy)} noisy (marked ~): the median is known less well than --target-ci; a larger "
                f"--max-seconds or a quieter machine helps"
            )

    def _say(self, warning: str) -> None:
        print(f"warning: {warning}", file=sys.stderr, flush=True)  # looked up now: a live table takes it over


def _some(names: list[str], most: int = 3) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def _rows(count: int) -> str:
    return f"{count} row{'s' * (count != 1)}"
