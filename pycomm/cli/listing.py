"""Rows as a table or markdown for people, as CSV or JSON lines for programs: for the commands of the model."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

FORMATS = ("table", "csv", "json", "markdown")


def render(format: str, headings: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> str:
    """The rows under their headings; `notes`, one a row, follow each row of a table, in markdown as a last column."""
    if format == "markdown":
        if any(notes):
            headings = [*headings, "advice"]
            rows = [[*row, note] for row, note in zip(rows, notes, strict=True)]
        lines = [headings, ["---"] * len(headings), *rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)
    widths = [max(len(line[column]) for line in [headings, *rows]) for column in range(len(headings))]
    lines_out: list[str] = []
    for index, row in enumerate([headings, *rows]):
        lines_out.append("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
        if index and index <= len(notes) and notes[index - 1]:
            lines_out.append(f"    {notes[index - 1]}")
    return "\n".join(lines_out)


def render_records(format: str, records: Sequence[Mapping[str, Any]]) -> str:
    """The records, which have the same fields, as CSV under one heading or as JSON lines."""
    if format == "json":
        return "\n".join(json.dumps(record, allow_nan=False) for record in records)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {name: str(value).lower() if isinstance(value, bool) else value for name, value in record.items()}
        for record in records
    )
    return text.getvalue().rstrip("\n")
