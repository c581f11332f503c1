"""Rows of text as a table, markdown, CSV or JSON lines, for the commands of the model."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence

FORMATS = ("table", "csv", "json", "markdown")


def render(format: str, headings: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> str:
    """The rows under their headings; `notes`, one a row, follow each row of a table, else stand in a last column.

    Raises nothing for rows shorter than the headings: they are the caller's.
    """
    if format != "table" and any(notes):
        headings = [*headings, "advice"]
        rows = [[*row, note] for row, note in zip(rows, notes, strict=True)]
    if format == "csv":
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([headings, *rows])
        return text.getvalue().rstrip("\n")
    if format == "json":
        return "\n".join(json.dumps(dict(zip(headings, row, strict=True))) for row in rows)
    if format == "markdown":
        lines = [headings, ["---"] * len(headings), *rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)
    widths = [max(len(line[column]) for line in [headings, *rows]) for column in range(len(headings))]
    lines_out: list[str] = []
    for index, row in enumerate([headings, *rows]):
        lines_out.append("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
        if index and index <= len(notes) and notes[index - 1]:
            lines_out.append(f"    {notes[index - 1]}")
    return "\n".join(lines_out)
