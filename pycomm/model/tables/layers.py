"""A model as a table: each layer's learnable tensors and its arithmetic per sample.

FLOPs count a multiply and an add as two. A layer's backward pass makes the gradient of its weights and,
unless it is the first, that of its input: each costs as much as the forward pass (Goodfellow, Bengio &
Courville, Deep Learning, 6.5). Normalisation, activation and pooling count one operation an element where
they have parameters, else nothing: they are bound by memory and small beside the products.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

Shape = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class ModelLayer:
    """`tensors` are (name, shape); FLOPs are per sample."""

    name: str
    tensors: tuple[tuple[str, Shape], ...]
    forward_flops: int
    input_gradient_flops: int
    weight_gradient_flops: int

    @property
    def parameters(self) -> int:
        return sum(prod(shape) for _, shape in self.tensors)

    @property
    def backward_flops(self) -> int:
        return self.input_gradient_flops + self.weight_gradient_flops


@dataclass(frozen=True, kw_only=True)
class ModelTable:
    """`sample` says what one sample is; `source` where structure and the published count come from."""

    name: str
    layers: tuple[ModelLayer, ...]
    sample: str
    source: str

    @property
    def parameters(self) -> int:
        return sum(layer.parameters for layer in self.layers)

    @property
    def tensors(self) -> int:
        return sum(len(layer.tensors) for layer in self.layers)

    @property
    def forward_flops(self) -> int:
        return sum(layer.forward_flops for layer in self.layers)

    @property
    def backward_flops(self) -> int:
        return sum(layer.backward_flops for layer in self.layers)


class Stack:
    """Collects layers and follows the activation's shape: channels, height, width."""

    def __init__(self, channels: int, height: int, width: int) -> None:
        self.layers: list[ModelLayer] = []
        self.channels, self.height, self.width = channels, height, width

    @property
    def at(self) -> tuple[int, int, int]:
        return self.channels, self.height, self.width

    def go_to(self, at: tuple[int, int, int]) -> None:
        """Continue from another activation: the start of a branch, or the concatenation after it."""
        self.channels, self.height, self.width = at

    def add(self, name: str, tensors: Iterable[tuple[str, Shape]], flops: int, *, to_input: bool = True) -> None:
        """A layer; `to_input` False for one that hands no gradient on (the first, or a table look-up)."""
        self.layers.append(
            ModelLayer(
                name=name,
                tensors=tuple((f"{name}.{tensor}", shape) for tensor, shape in tensors),
                forward_flops=flops,
                input_gradient_flops=flops if to_input and self.layers else 0,
                weight_gradient_flops=flops,
            )
        )

    def convolution(
        self,
        name: str,
        channels: int,
        kernel: int | tuple[int, int],
        *,
        stride: int = 1,
        padding: int | tuple[int, int] = 0,
        bias: bool = True,
        groups: int = 1,
    ) -> None:
        high, wide = (kernel, kernel) if isinstance(kernel, int) else kernel
        above, beside = (padding, padding) if isinstance(padding, int) else padding
        height = (self.height + 2 * above - high) // stride + 1
        width = (self.width + 2 * beside - wide) // stride + 1
        weight = (channels, self.channels // groups, high, wide)
        tensors: list[tuple[str, Shape]] = [("weight", weight)]
        if bias:
            tensors.append(("bias", (channels,)))
        self.add(name, tensors, 2 * prod(weight) * height * width)
        self.go_to((channels, height, width))

    def batch_norm(self, name: str) -> None:
        shape = (self.channels,)
        self.add(name, [("weight", shape), ("bias", shape)], 2 * self.channels * self.height * self.width)

    def pool(self, kernel: int, *, stride: int, padding: int = 0, round_up: bool = False) -> None:
        """Changes the shape only. `round_up`: windows that hang over the border count (Caffe)."""

        def size(edge: int) -> int:
            over = edge + 2 * padding - kernel
            return (-(-over // stride) if round_up else over // stride) + 1

        self.go_to((self.channels, size(self.height), size(self.width)))

    def dense(self, name: str, outputs: int, *, bias: bool = True, rows: int = 1) -> None:
        """A full product of the flattened activation; `rows` times (positions of a sequence)."""
        inputs = self.channels * self.height * self.width
        tensors: list[tuple[str, Shape]] = [("weight", (outputs, inputs))]
        if bias:
            tensors.append(("bias", (outputs,)))
        self.add(name, tensors, 2 * inputs * outputs * rows)
        self.go_to((outputs, 1, 1))
