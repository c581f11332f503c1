"""The project's own trace format: JSON lines, one object a line, times in seconds and sizes in bytes.

    {"trace": NAME, "schema": 1, "batch": …, "device": …, "input_s": …, "copy_s": …, "update_s": …, "source": …}
    {"layer": NAME, "forward_s": …, "backward_s": …, "input_gradient_s": …, "tensors": [[NAME, BYTES, DTYPE], …]}
    {"edges": [[FROM, TO], …]}

First the trace, then its layers in forward order, last the edges where the graph branches: places of layers from 0.
A time that is not known is left out or null; only backward_s has to be there.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from pycomm.errors import UsageError
from pycomm.files import write_text
from pycomm.trace.lines import Lines
from pycomm.trace.trace import Layer, Tensor, Trace

SCHEMA = 1


def looks_like(path: Path, head: str) -> bool:
    """Its first line is an object that holds "trace", wherever in it."""
    return re.match(r'\s*\{.*"trace"\s*:', head) is not None


def write(trace: Trace, path: str | Path, *, force: bool = False) -> None:
    """Write `trace`. Raises UsageError if the file exists and `force` is not set, or it cannot be written."""
    head = {
        "trace": trace.name,
        "schema": SCHEMA,
        "batch": trace.batch,
        "device": trace.device,
        "input_s": trace.input_s,
        "copy_s": trace.copy_s,
        "update_s": trace.update_s,
        "source": trace.source,
    }
    lines: list[dict[str, Any]] = [head]
    for layer in trace.layers:
        lines.append(
            {
                "layer": layer.name,
                "forward_s": layer.forward_s,
                "backward_s": layer.backward_s,
                "input_gradient_s": layer.input_gradient_s,
                "tensors": [[tensor.name, tensor.bytes, tensor.dtype] for tensor in layer.tensors],
            }
        )
    if trace.edges:
        lines.append({"edges": [list(edge) for edge in trace.edges]})
    write_text(path, "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines), force=force)


def read(path: str | Path) -> Trace:
    """Read what `write` wrote. Raises UsageError with file, line and reason."""
    lines = Lines(path)
    head: Trace | None = None
    layers: list[Layer] = []
    edges: tuple[tuple[int, int], ...] | None = None
    for line in lines:
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            if not isinstance(record, dict):
                raise UsageError("not a JSON object")
            if "trace" in record:
                if head is not None:
                    raise UsageError("a second trace line")
                head = _head(record)
            elif "layer" in record:
                layers.append(_layer(record))
            elif "edges" in record:
                if edges is not None:
                    raise UsageError("a second line of edges")
                edges = _edges(record["edges"])
                Trace(
                    name="", layers=tuple(layers), edges=edges
                )  # refuses what points nowhere, while the line is known
            else:
                raise UsageError("neither a trace, a layer nor edges")
        except json.JSONDecodeError as error:
            raise lines.fail(f"not JSON: {error.msg}") from None
        except RecursionError:
            raise lines.fail("not a trace: nested too deeply") from None
        except ValueError as error:  # UsageError is one, and so is a number of too many digits
            raise lines.fail(str(error)) from None
    if head is None or not layers:
        raise lines.fail("no trace line" if head is None else "no layers")
    return replace(head, layers=tuple(layers), edges=edges or ())


def _head(record: dict[str, Any]) -> Trace:
    """The trace without its layers."""
    schema = record.get("schema")
    if schema is True or schema != SCHEMA:
        raise UsageError(f"schema {schema!r}, this version reads {SCHEMA}")
    return Trace(
        name=_text(record, "trace"),
        layers=(),
        input_s=record.get("input_s"),
        copy_s=record.get("copy_s"),
        update_s=record.get("update_s"),
        batch=record.get("batch"),
        device=None if record.get("device") is None else _text(record, "device"),
        source=_text(record, "source") if record.get("source") is not None else "",
    )


def _layer(record: dict[str, Any]) -> Layer:
    if record.get("backward_s") is None:
        raise UsageError("no 'backward_s'")
    tensors = record.get("tensors", [])
    if not isinstance(tensors, list) or not all(isinstance(row, list) and len(row) == 3 for row in tensors):
        raise UsageError("tensors must be a list of [NAME, BYTES, DTYPE]")
    return Layer(
        name=_text(record, "layer"),
        forward_s=record.get("forward_s"),
        backward_s=record["backward_s"],
        input_gradient_s=record.get("input_gradient_s"),
        tensors=tuple(Tensor(name=str(name), bytes=size, dtype=str(dtype)) for name, size, dtype in tensors),
    )


def _text(record: dict[str, Any], key: str) -> str:
    if not isinstance(record[key], str):
        raise UsageError(f"{key} is {record[key]!r}, not a text")
    return str(record[key])


def _edges(pairs: Any) -> tuple[tuple[int, int], ...]:
    if not isinstance(pairs, list) or not all(isinstance(pair, list) for pair in pairs):
        raise UsageError("edges must be a list of [FROM, TO]")
    return tuple(map(tuple, pairs))
