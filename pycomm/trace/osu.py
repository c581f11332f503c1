"""A latency table of the OSU micro-benchmarks: `size_bytes  average_microseconds`, # begins a comment.

Some logs prefix each row with the node count and a comma. Not a trace but a measured cost: see
`pycomm.model`.
"""

from __future__ import annotations

from pathlib import Path

from pycomm.trace.lines import Lines


def read_latencies(path: str | Path) -> tuple[tuple[int, float], ...]:
    """(bytes, seconds) in the file's order. Raises UsageError with file, line and reason."""
    lines = Lines(path)
    rows: list[tuple[int, float]] = []
    for line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        fields = line.split(",")[-1].split()
        if len(fields) != 2:
            raise lines.fail(f"{len(fields)} columns, 'size microseconds' wanted")
        size = lines.whole(fields[0], "size")
        if rows and size <= rows[-1][0]:
            raise lines.fail(f"size {size} after {rows[-1][0]}: sizes must grow")
        rows.append((size, lines.number_of(fields[1], "latency") * 1e-6))
    if not rows:
        raise lines.fail("no rows")
    return tuple(rows)
