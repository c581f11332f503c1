"""ASTRA-sim 1.0's workload: a layer table in cycles, backward split in input gradient and weight gradient.

First line the parallelism (`DATA`), second the layer count, then a row a layer: name, -1, forward cycles,
collective, bytes, input-gradient cycles, collective, bytes, weight-gradient cycles, collective, bytes, update
delay.

Source: github astra-sim/astra-sim, branch ASTRA-sim-1.0.
"""

from __future__ import annotations

from pathlib import Path

from pycomm.trace.lines import Lines
from pycomm.trace.trace import Layer, Tensor, Trace

_SECONDS_PER_CYCLE = 1e-9  # ASTRA-sim's clock: 1 GHz (its default, one cycle a nanosecond)


def looks_like(path: Path, head: str) -> bool:
    return head.split("\n")[0].strip() == "DATA"


def read(path: str | Path) -> Trace:
    """The data-parallel table as a trace, one cycle a nanosecond. Raises UsageError on bad input."""
    lines = Lines(path)
    layers: list[Layer] = []
    wanted = 0
    update_s = 0.0
    for line in lines:
        if lines.number == 1:
            if line.strip() != "DATA":
                raise lines.fail(f"parallelism {line.strip()!r}; only DATA is a synchronous SGD")
        elif lines.number == 2:
            wanted = lines.whole(line.strip(), "layer count")
        elif line.strip():
            row = line.split()
            if len(row) != 12:
                raise lines.fail(f"{len(row)} columns, 12 wanted")
            forward, input_gradient, weight_gradient, update = (
                lines.number_of(row[column], what) * _SECONDS_PER_CYCLE
                for column, what in (
                    (2, "forward"),
                    (5, "input gradient"),
                    (8, "weight gradient"),
                    (11, "update"),
                )
            )
            size = lines.whole(row[10], "weight-gradient bytes")
            layers.append(
                Layer(
                    name=row[0],
                    forward_s=forward,
                    backward_s=input_gradient + weight_gradient,
                    input_gradient_s=input_gradient,
                    tensors=(Tensor(name=f"{row[0]}.weight", bytes=size),) if row[9] == "ALLREDUCE" else (),
                )
            )
            update_s += update
    if len(layers) != wanted or not layers:
        raise lines.fail(f"{len(layers)} layers, {wanted} promised in line 2")
    return Trace(
        name=Path(path).stem,
        layers=tuple(layers),
        update_s=update_s,
        source=f"ASTRA-sim workload {Path(path).name}",
    )
