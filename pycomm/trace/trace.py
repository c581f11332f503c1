"""What a training iteration is made of: layers with their times and tensors, and the edges between them.

Times are seconds, sizes bytes. Layers stand in forward order (0 is nearest the input), so gradients appear in
the reverse order. A time that the source does not give is None, never 0: see `pycomm.trace.calibrate`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from pycomm.checks import check_bytes, check_time, check_whole
from pycomm.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """A learnable tensor and its gradient, which has the same size and type. Raises UsageError for a size that is
    none."""

    name: str
    bytes: int
    dtype: str = "float32"

    def __post_init__(self) -> None:
        object.__setattr__(self, "bytes", check_bytes(self.bytes, f"bytes of {self.name}"))


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One layer (or operator): its computing times in seconds, and the tensors it learns.

    `backward_s` is the whole backward time; `input_gradient_s` is the share of it spent on the gradient
    handed on to the layer before, None where the source does not split it. Raises UsageError for a time that is none.
    """

    name: str
    forward_s: float | None
    backward_s: float
    input_gradient_s: float | None = None
    tensors: tuple[Tensor, ...] = ()

    def __post_init__(self) -> None:
        for name in ("forward_s", "backward_s", "input_gradient_s"):
            value = getattr(self, name)
            if value is not None or name == "backward_s":
                object.__setattr__(self, name, check_time(value, f"{name} of {self.name}"))
        if self.input_gradient_s is not None and self.input_gradient_s > self.backward_s:
            raise UsageError(f"input_gradient_s of {self.name} is more than backward_s, of which it is a part")

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
    None where the source does not say. `batch` is samples a worker. Raises UsageError for a time or batch that is none,
    and for an edge that does not point forward.
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

    def __post_init__(self) -> None:
        for name in ("input_s", "copy_s", "update_s"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, check_time(getattr(self, name), name))
        if self.batch is not None:
            object.__setattr__(self, "batch", check_whole(self.batch, "batch", 1))
        object.__setattr__(self, "edges", tuple(_checked_edge(edge, len(self.layers)) for edge in self.edges))

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


def _checked_edge(edge: tuple[int, ...], layers: int) -> tuple[int, int]:
    places = [check_whole(place, f"edge {list(edge)}") for place in edge]
    if len(places) != 2 or not places[0] < places[1] < layers:
        raise UsageError(f"edge {list(edge)} must point forward, from one to another of {layers} layers")
    return places[0], places[1]
