"""What a training iteration is made of: layers with their times and tensors, and the edges between them.

Times are seconds, sizes bytes. Layers stand in forward order (0 is nearest the input), so gradients appear in
the reverse order. A time that the source does not give is None, never 0: see `pycomm.trace.calibrate`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

from pycomm.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """A learnable tensor and its gradient, which has the same size and type."""

    name: str
    bytes: int
    dtype: str = "float32"


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One layer (or operator): its computing times in seconds, and the tensors it learns.

    `backward_s` is the whole backward time; `input_gradient_s` is the share of it spent on the gradient
    handed on to the layer before, None where the source does not split it.
    """

    name: str
    forward_s: float | None
    backward_s: float
    input_gradient_s: float | None = None
    tensors: tuple[Tensor, ...] = ()

    @property
    def weight_gradient_s(self) -> float | None:
        return None if self.input_gradient_s is None else self.backward_s - self.input_gradient_s

    @cached_property
    def bytes(self) -> int:
        return sum(tensor.bytes for tensor in self.tensors)


@dataclass(frozen=True, kw_only=True)
class Trace:
    """One worker's iteration. `edges` are pairs of layer indices, empty for a chain.

    `input_s` reads and decodes a batch, `copy_s` copies it to the device, `update_s` applies the gradients;
    None where the source does not say. `batch` is samples a worker.
    """

    name: str
    layers: tuple[Layer, ...]
    edges: tuple[tuple[int, int], ...] = ()
    input_s: float | None = None
    copy_s: float | None = None
    update_s: float | None = None
    batch: int | None = None
    device: str | None = None
    source: str = field(default="", compare=False)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(tensor for layer in self.layers for tensor in layer.tensors)

    @cached_property
    def bytes(self) -> int:
        return sum(layer.bytes for layer in self.layers)

    @property
    def forward_known(self) -> bool:
        return all(layer.forward_s is not None for layer in self.layers)

    @cached_property
    def forward_s(self) -> float:
        """Sum of the forward times that are known."""
        return sum(layer.forward_s or 0.0 for layer in self.layers)

    @cached_property
    def backward_s(self) -> float:
        return sum(layer.backward_s for layer in self.layers)

    @property
    def compute_s(self) -> float:
        """Forward, backward and update; unknown ones count 0."""
        return self.forward_s + self.backward_s + (self.update_s or 0.0)


def check_time(value: float, what: str) -> float:
    """`value` as a float, if it can be a duration. Raises UsageError for a bool, a negative, an inf or a NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"{what} is {value!r}, not a number")
    if not math.isfinite(value) or value < 0:
        raise UsageError(f"{what} is {value!r}; a time is finite and not negative")
    return float(value)


def check_bytes(value: float, what: str) -> int:
    """`value` as a whole number of bytes. Raises UsageError for a bool, a fraction or a negative."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"{what} is {value!r}, not a number")
    if not math.isfinite(value) or value < 0 or value != int(value):
        raise UsageError(f"{what} is {value!r}; a size is a whole number of bytes, not negative")
    return int(value)
