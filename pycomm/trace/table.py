"""A plain table with the columns Id, Name, Forward, Backward, Comm and Size: one row a layer.

Times are microseconds, Size is bytes; columns are split at commas, tabs or runs of blanks; lines that begin
with # are comments. The columns are those of the layer-wise traces published with arXiv 1805.03812. `Comm`,
the measured aggregation of the layer, is not part of a trace: `read_communication` returns it.
"""

from __future__ import annotations

import re
from pathlib import Path

from pycomm.errors import UsageError
from pycomm.trace.lines import Lines
from pycomm.trace.trace import Layer, Tensor, Trace

_COLUMNS = ("id", "name", "forward", "backward", "comm", "size")
_DATA_LAYERS = ("data", "input")


def looks_like(path: Path, head: str) -> bool:
    for line in head.split("\n"):
        if line.strip() and not line.startswith("#"):
            return tuple(column.lower() for column in _split(line)) == _COLUMNS
    return False


def _split(line: str) -> list[str]:
    return [text for text in re.split(r"\s*,\s*|\t+|\s+", line.strip()) if text]


def _rows(path: str | Path) -> list[tuple[str, float, float, float, int]]:
    lines = Lines(path)
    rows: list[tuple[str, float, float, float, int]] = []
    headed = False
    for line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        fields = _split(line)
        if not headed:
            if tuple(column.lower() for column in fields) != _COLUMNS:
                raise lines.fail("the heading must be Id Name Forward Backward Comm Size")
            headed = True
            continue
        if len(fields) != len(_COLUMNS):
            raise lines.fail(f"{len(fields)} columns, {len(_COLUMNS)} wanted")
        lines.whole(fields[0], "Id")
        forward, backward, comm = (
            lines.number_of(fields[column], _COLUMNS[column].capitalize()) * 1e-6 for column in (2, 3, 4)
        )
        rows.append((fields[1], forward, backward, comm, lines.whole(fields[5], "Size")))
    if not rows:
        raise lines.fail("no layers")
    return rows


def read(path: str | Path) -> Trace:
    """The table as a trace; a first layer called data or input gives the input time. Raises UsageError."""
    rows = _rows(path)
    input_s = None
    if rows[0][0].lower() in _DATA_LAYERS:
        input_s = rows[0][1]
        rows = rows[1:]
    if not rows:
        raise UsageError(f"{path}: no layers beside the input")
    layers = tuple(
        Layer(
            name=name,
            forward_s=forward,
            backward_s=backward,
            tensors=(Tensor(name=f"{name}.weight", bytes=size),) if size else (),
        )
        for name, forward, backward, _, size in rows
    )
    return Trace(name=Path(path).stem, layers=layers, input_s=input_s, source=f"layer table {Path(path).name}")


def read_communication(path: str | Path) -> tuple[float, ...]:
    """The Comm column in seconds, one entry a layer of `read`."""
    rows = _rows(path)
    if rows[0][0].lower() in _DATA_LAYERS:
        rows = rows[1:]
    return tuple(row[3] for row in rows)
