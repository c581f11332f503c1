"""Tables of published figures: CSV with named columns. What is wrong with one is said with file, line and reason."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pycomm.trace.lines import Lines


@dataclass(frozen=True)
class Line:
    """The cells of the current line by column. Its methods raise UsageError, naming file and line."""

    lines: Lines
    cells: Mapping[str, str]

    def one_of(self, column: str, known: Collection[str]) -> str:
        """A text out of `known`."""
        text = self.cells[column]
        if text not in known:
            raise self.lines.fail(f"{column} is {text!r}: one of {', '.join(known)}")
        return text

    def count(self, column: str) -> int:
        """A whole number from 1."""
        self.positive(column)
        return self.lines.whole(self.cells[column], column)

    def positive(self, column: str) -> float:
        """A finite number above 0."""
        return self.lines.positive(self.cells[column], column)


def read_figures(path: Path, columns: Sequence[str]) -> Iterator[Line]:
    """The lines under the heading, at least one, each to be read before the next.

    Raises UsageError where a file, a column or a cell is missing.
    """
    lines = Lines(path)
    names: list[str] = []
    found = False
    for text in lines:
        if not text.strip():
            continue
        cells = next(csv.reader([text]))
        if not names:
            names = cells
            missing = [column for column in columns if column not in names]
            if missing:
                raise lines.fail(f"no column {missing[0]!r} in the heading")
        elif len(cells) != len(names):
            raise lines.fail(f"{len(cells)} columns, {len(names)} wanted")
        else:
            found = True
            yield Line(lines, dict(zip(names, cells, strict=True)))
    if not found:
        raise lines.fail("no figures")
