"""Tables of published figures: CSV with named columns. What is wrong with one is said with file, line and reason."""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pycomm.errors import UsageError
from pycomm.trace.lines import Lines


@dataclass(frozen=True)
class Line:
    """The cells of a line by column. Its methods raise UsageError, naming file and line, for what is none."""

    where: str  # file:line
    cells: Mapping[str, str]

    def one_of(self, column: str, known: Collection[str]) -> str:
        """A text out of `known`."""
        text = self.cells[column]
        if text not in known:
            raise UsageError(f"{self.where}: {column} is {text!r}: one of {', '.join(known)}")
        return text

    def count(self, column: str) -> int:
        """A whole number from 1."""
        value = self.positive(column)
        if value != int(value):
            raise UsageError(f"{self.where}: {column} is {self.cells[column]!r}, not a whole number")
        return int(value)

    def positive(self, column: str) -> float:
        """A finite number above 0."""
        text = self.cells[column]
        try:
            value = float(text)
        except ValueError:
            raise UsageError(f"{self.where}: {column} is {text!r}, not a number") from None
        if not 0 < value < float("inf"):
            raise UsageError(f"{self.where}: {column} is {text!r}; it must be finite and positive")
        return value


def read_figures(path: Path, columns: Sequence[str]) -> list[Line]:
    """The lines under the heading, at least one. Raises UsageError where a file, a column or a cell is missing."""
    lines = Lines(path)
    names: list[str] = []
    found: list[Line] = []
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
            found.append(Line(f"{path}:{lines.number}", dict(zip(names, cells, strict=True))))
    if not found:
        raise lines.fail("no figures")
    return found
