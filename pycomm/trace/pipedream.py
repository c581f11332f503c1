"""PipeDream's profile: a graph of operators with forward and backward time in milliseconds, sizes in bytes.

`nodeK -- Operator(...) -- forward_compute_time=…, backward_compute_time=…, activation_size=…,
parameter_size=…`, then tab-indented edges `nodeA -- nodeB`. The node `Input` carries the time to load a
batch.

Source: github msr-fiddle/pipedream, graph/graph.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pycomm.trace.lines import Lines
from pycomm.trace.order import forward_order
from pycomm.trace.trace import Layer, Tensor, Trace

_FIELD = re.compile(r"(\w+)=([^,\s]+)")
_WANTED = ("forward_compute_time", "backward_compute_time", "parameter_size")


@dataclass(frozen=True)
class _Node:
    name: str
    operator: str
    forward_s: float
    backward_s: float
    bytes: int


def looks_like(path: Path, head: str) -> bool:
    return "forward_compute_time=" in head


def read(path: str | Path) -> Trace:
    """The graph as a trace: operators in an order that respects the edges. Raises UsageError on bad input."""
    lines = Lines(path)
    nodes: dict[str, _Node] = {}
    edges: list[tuple[str, str]] = []
    for line in lines:
        parts = line.strip().split(" -- ")
        if line.startswith("\t"):
            if len(parts) != 2:
                raise lines.fail("an edge is 'nodeA -- nodeB'")
            for name in parts:
                if name not in nodes:
                    raise lines.fail(f"edge with unknown node {name!r}")
            edges.append((parts[0], parts[1]))
        elif line.strip():
            node = _node(lines, parts)
            if node.name in nodes:
                raise lines.fail(f"node {node.name!r} stands twice")
            nodes[node.name] = node
    if not nodes:
        raise lines.fail("no nodes")
    names, indexed = forward_order(list(nodes), edges, str(lines.path))
    inputs = [index for index, name in enumerate(names) if nodes[name].operator.startswith("Input")]
    layers = tuple(
        Layer(
            name=f"{name}:{nodes[name].operator.split('(')[0]}",
            forward_s=0.0 if index in inputs else nodes[name].forward_s,
            backward_s=nodes[name].backward_s,
            tensors=(Tensor(name=f"{name}.parameters", bytes=nodes[name].bytes),) if nodes[name].bytes else (),
        )
        for index, name in enumerate(names)
    )
    return Trace(
        name=Path(path).name.split(".")[0],
        layers=layers,
        edges=indexed,
        input_s=sum(nodes[names[index]].forward_s for index in inputs) if inputs else None,
        source=f"PipeDream profile {Path(path).name}",
    )


def _node(lines: Lines, parts: list[str]) -> _Node:
    if len(parts) != 3:
        raise lines.fail("a node is 'nodeK -- Operator -- forward_compute_time=…, …'")
    found = dict(_FIELD.findall(parts[2]))
    missing = [key for key in _WANTED if key not in found]
    if missing:
        raise lines.fail(f"no {missing[0]}")
    return _Node(
        name=parts[0],
        operator=parts[1],
        forward_s=lines.number_of(found["forward_compute_time"], "forward_compute_time") * 1e-3,
        backward_s=lines.number_of(found["backward_compute_time"], "backward_compute_time") * 1e-3,
        bytes=lines.whole(found["parameter_size"], "parameter_size"),
    )
