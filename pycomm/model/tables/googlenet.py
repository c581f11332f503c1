"""GoogLeNet (Szegedy et al., arXiv 1409.4842, table 1), with the biases of the Caffe model."""

from __future__ import annotations

from pycomm.model.tables.layers import ModelTable, Stack

# name: 1x1, 3x3 reduce, 3x3, 5x5 reduce, 5x5, pool projection
_INCEPTIONS = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}


def googlenet(auxiliary: bool = False) -> ModelTable:
    """`auxiliary` adds the two classifiers that only training uses, after 4a and 4d."""
    stack = Stack(3, 224, 224)
    stack.convolution("conv1", 64, 7, stride=2, padding=3)
    stack.pool(3, stride=2, round_up=True)
    stack.convolution("conv2_reduce", 64, 1)
    stack.convolution("conv2", 192, 3, padding=1)
    stack.pool(3, stride=2, round_up=True)
    for name, widths in _INCEPTIONS.items():
        _inception(stack, f"inception_{name}", widths)
        if name in ("3b", "4e"):
            stack.pool(3, stride=2, round_up=True)
        if auxiliary and name in ("4a", "4d"):
            _classifier(stack, f"loss_{name}")
    stack.go_to((stack.channels, 1, 1))
    stack.dense("classifier", 1000)
    return ModelTable(
        name="googlenet",
        layers=tuple(stack.layers),
        sample="image 3 x 224 x 224",
        source="arXiv 1409.4842; 6,998,552 parameters (bvlc_googlenet without its training-only classifiers)",
    )


def _inception(stack: Stack, name: str, widths: tuple[int, ...]) -> None:
    one, reduce3, three, reduce5, five, projection = widths
    start = stack.at
    stack.convolution(f"{name}/1x1", one, 1)
    stack.go_to(start)
    stack.convolution(f"{name}/3x3_reduce", reduce3, 1)
    stack.convolution(f"{name}/3x3", three, 3, padding=1)
    stack.go_to(start)
    stack.convolution(f"{name}/5x5_reduce", reduce5, 1)
    stack.convolution(f"{name}/5x5", five, 5, padding=2)
    stack.go_to(start)
    stack.convolution(f"{name}/pool_projection", projection, 1)
    stack.go_to((one + three + five + projection, stack.height, stack.width))


def _classifier(stack: Stack, name: str) -> None:
    after = stack.at
    stack.pool(5, stride=3, round_up=True)
    stack.convolution(f"{name}/conv", 128, 1)
    stack.dense(f"{name}/fc", 1024)
    stack.dense(f"{name}/classifier", 1000)
    stack.go_to(after)
