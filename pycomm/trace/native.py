"""The project's own trace format: JSON lines, one object a line, times in seconds and sizes in bytes.

    {"trace": NAME, "schema": 1, "batch": …, "device": …, "input_s": …, "copy_s": …, "update_s": …, "source": …}
    {"layer": NAME, "forward_s": …, "backward_s": …, "input_gradient_s": …, "tensors": [[NAME, BYTES, DTYPE], …]}
    {"edges": [[FROM, TO], …]}

First the trace, then its layers in forward order, last the edges where the graph branches: places of layers from 0.
A time that is not known is left out or null; only backward_s has to be there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pycomm.errors import UsageError
from pycomm.files import write_text
from pycomm.trace.lines import Lines
from pycomm.trace.trace import Layer, Tensor, Trace, check_bytes, check_time

SCHEMA = 1


def looks_like(path: Path, head: str) -> bool:
    return head.lstrip().startswith('{"trace"')


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
    head: dict[str, Any] = {}
    layers: list[Layer] = []
    edges: tuple[tuple[int, int], ...] = ()
    for line in lines:
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            if not isinstance(record, dict):
                raise UsageError("not a JSON object")
            if "trace" in record:
                if record.get("schema") != SCHEMA:
                    raise UsageError(f"schema {record.get('schema')!r}, this version reads {SCHEMA}")
                head = record
            elif "layer" in record:
                layers.append(_layer(record))
            elif "edges" in record:
                edges = _edges(record["edges"], len(layers))
            else:
                raise UsageError("neither a trace, a layer nor edges")
        except json.JSONDecodeError as error:
            raise lines.fail(f"not JSON: {error.msg}") from None
        except KeyError as error:
            raise lines.fail(f"no {error}") from None
        except (UsageError, TypeError, ValueError) as error:
            raise lines.fail(str(error)) from None
    if not head or not layers:
        raise lines.fail("no trace line" if not head else "no layers")
    try:
        return Trace(
            name=str(head["trace"]),
            layers=tuple(layers),
            edges=edges,
            input_s=_time(head, "input_s"),
            copy_s=_time(head, "copy_s"),
            update_s=_time(head, "update_s"),
            batch=None if head.get("batch") is None else check_bytes(head["batch"], "batch"),
            device=head.get("device"),
            source=str(head.get("source", "")),
        )
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def _time(record: dict[str, Any], key: str) -> float | None:
    return None if record.get(key) is None else check_time(record[key], key)


def _layer(record: dict[str, Any]) -> Layer:
    name = str(record["layer"])
    backward_s = check_time(record["backward_s"], "backward_s")
    input_gradient_s = _time(record, "input_gradient_s")
    if input_gradient_s is not None and input_gradient_s > backward_s:
        raise UsageError("input_gradient_s is more than backward_s, of which it is a part")
    return Layer(
        name=name,
        forward_s=_time(record, "forward_s"),
        backward_s=backward_s,
        input_gradient_s=input_gradient_s,
        tensors=tuple(
            Tensor(name=str(tensor), bytes=check_bytes(size, f"bytes of {tensor}"), dtype=str(dtype))
            for tensor, size, dtype in record.get("tensors", ())
        ),
    )


def _edges(pairs: list[list[int]], layers: int) -> tuple[tuple[int, int], ...]:
    edges = tuple((source, target) for source, target in pairs)
    for source, target in edges:
        if not (0 <= source < target < layers):
            raise UsageError(f"edge [{source}, {target}] must point forward among {layers} layers")
    return edges
