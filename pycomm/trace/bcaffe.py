"""B-Caffe's log: one row a learnable tensor, backward and communication time in microseconds.

Row: `[param_id, size, compute_time, communication_time(, merged_time)]`, `size` in float32 elements. A
layer's weight and bias rows repeat its backward time, so equal neighbours are one layer. A log may hold
several blocks of rows; the last one counts. Forward, input, copy and update times are not in it.

Source: github hclhkbu/B-Caffe, distributed.cpp; format as told in the README of its logs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pycomm.trace.lines import Lines
from pycomm.trace.trace import Layer, Tensor, Trace

_ROW = re.compile(r"\[([^\]]*)\]\s*$")
_FLOAT32_BYTES = 4


@dataclass(frozen=True)
class TensorRow:
    """A row of the log: times in seconds. `merged_s` is None in logs without that column."""

    param: int
    bytes: int
    backward_s: float
    communication_s: float
    merged_s: float | None


def looks_like(path: Path, head: str) -> bool:
    return "distributed.cpp" in head and "[" in head


def read_rows(path: str | Path) -> tuple[TensorRow, ...]:
    """The last block's rows, in forward order. Raises UsageError with file, line and reason."""
    lines = Lines(path)
    rows: list[TensorRow] = []
    before = 0  # rows of the block before
    for line in lines:
        if not line.strip():
            continue
        found = _ROW.search(line)
        if not found:
            raise lines.fail("no [param_id, size, compute_time, communication_time] at its end")
        fields = [text.strip() for text in found.group(1).split(",")]
        if len(fields) not in (4, 5):
            raise lines.fail(f"{len(fields)} values in the bracket, 4 or 5 wanted")
        param = lines.whole(fields[0], "param_id")
        if param == 0:
            before = len(rows)
            rows.clear()
        if param != len(rows):
            raise lines.fail(f"param_id {param} where {len(rows)} should follow")
        rows.append(
            TensorRow(
                param=param,
                bytes=lines.whole(fields[1], "size") * _FLOAT32_BYTES,
                backward_s=lines.number_of(fields[2], "compute_time") * 1e-6,
                communication_s=lines.number_of(fields[3], "communication_time") * 1e-6,
                merged_s=lines.number_of(fields[4], "merged_time") * 1e-6 if len(fields) == 5 else None,
            )
        )
    if not rows:
        raise lines.fail("no rows")
    if len(rows) < before:
        raise lines.fail(f"the last block ends after {len(rows)} rows, the one before has {before}")
    return tuple(rows)


def layers_of(rows: tuple[TensorRow, ...]) -> tuple[tuple[TensorRow, ...], ...]:
    """The rows grouped into layers: a weight and the bias behind it, known by their equal backward time."""
    groups: list[list[TensorRow]] = []
    for row in rows:
        if groups and len(groups[-1]) == 1 and groups[-1][0].backward_s == row.backward_s:
            groups[-1].append(row)
        else:
            groups.append([row])
    return tuple(tuple(group) for group in groups)


def read(path: str | Path) -> Trace:
    """The log as a trace whose forward, input, copy and update times are unknown."""
    layers = tuple(
        Layer(
            name=f"layer{index}",
            forward_s=None,
            backward_s=group[0].backward_s,
            tensors=tuple(Tensor(name=f"param{row.param}", bytes=row.bytes) for row in group),
        )
        for index, group in enumerate(layers_of(read_rows(path)))
    )
    return Trace(name=Path(path).stem, layers=layers, source=f"B-Caffe log {Path(path).name}")
