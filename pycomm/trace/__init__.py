"""Traces: what one worker's iteration is made of, read from the formats people publish.

| format | module | holds |
|---|---|---|
| `native` | native | JSON lines, everything; read and written |
| `bcaffe` | bcaffe | backward and communication time of each tensor |
| `pipedream` | pipedream | operators with forward and backward time, and the graph's edges |
| `astra-sim` | astra | layers in cycles, backward split in input and weight gradient |
| `table` | table | Id Name Forward Backward Comm Size, microseconds and bytes |

A new format is one module with `looks_like(path, head)` and `read(path)`, and one row here.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from pycomm.errors import UsageError
from pycomm.trace import astra, bcaffe, native, pipedream, table
from pycomm.trace.calibrate import calibrate, scale_compute
from pycomm.trace.native import write
from pycomm.trace.osu import read_latencies
from pycomm.trace.trace import Layer, Tensor, Trace

__all__ = [
    "FORMATS",
    "Layer",
    "Tensor",
    "Trace",
    "calibrate",
    "read",
    "read_latencies",
    "scale_compute",
    "write",
]

FORMATS: dict[str, ModuleType] = {
    "native": native,
    "bcaffe": bcaffe,
    "pipedream": pipedream,
    "astra-sim": astra,
    "table": table,
}

_HEAD_CHARACTERS = 4096


def read(path: str | Path, format: str | None = None) -> Trace:
    """Read a trace; the format is recognised by its first lines unless it is named.

    Raises UsageError with file, line and reason.
    """
    if format is not None:
        if format not in FORMATS:
            raise UsageError(f"trace format {format!r}: one of {', '.join(FORMATS)}")
        module = FORMATS[format]
    else:
        try:
            with Path(path).open(encoding="utf-8-sig", errors="replace") as file:
                head = file.read(_HEAD_CHARACTERS)
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
        matching = [module for module in FORMATS.values() if module.looks_like(Path(path), head)]
        if not matching:
            raise UsageError(f"{path}:1: no known trace format ({', '.join(FORMATS)})")
        module = matching[0]
    trace = module.read(path)
    if not isinstance(trace, Trace):
        raise TypeError(f"{module.__name__}.read returned {type(trace).__name__}")
    return trace
