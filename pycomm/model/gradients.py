"""Gradients in the order they appear: what a bucket plan groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from pycomm.checks import check_bytes, check_time
from pycomm.errors import UsageError
from pycomm.trace.trace import Trace


@dataclass(frozen=True, kw_only=True)
class Gradient:
    """A tensor's gradient; `ready_s` counts from the start of the backward pass; `layer` is its place in the trace."""

    name: str
    bytes: int
    ready_s: float
    dtype: str = "float32"
    layer: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "bytes", check_bytes(self.bytes, f"bytes of {self.name}"))
        object.__setattr__(self, "ready_s", check_time(self.ready_s, f"ready_s of {self.name}"))


def gradients_of(trace: Trace) -> tuple[Gradient, ...]:
    """The trace's gradients, last layer first; those of one layer appear together, its last tensor first.

    Layers without parameters take no part: they only move ready times.
    """
    gradients: list[Gradient] = []
    clock_s = 0.0
    for index in range(len(trace.layers) - 1, -1, -1):
        layer = trace.layers[index]
        clock_s += layer.backward_s
        gradients.extend(
            Gradient(name=tensor.name, bytes=tensor.bytes, ready_s=clock_s, dtype=tensor.dtype, layer=index)
            for tensor in reversed(layer.tensors)
        )
    return tuple(gradients)


def check_order(gradients: Sequence[Gradient]) -> None:
    """Raises UsageError unless ready times never fall."""
    for before, after in pairwise(gradients):
        if after.ready_s < before.ready_s:
            raise UsageError(
                f"gradients must stand in the order they appear: {after.name} at {after.ready_s} s "
                f"stands after {before.name} at {before.ready_s} s"
            )
