"""VGG-16 (Simonyan & Zisserman, arXiv 1409.1556, configuration D)."""

from __future__ import annotations

from pycomm.model.tables.layers import ModelTable, Stack

_BLOCKS = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))


def vgg16() -> ModelTable:
    stack = Stack(3, 224, 224)
    for block, (channels, convolutions) in enumerate(_BLOCKS, start=1):
        for index in range(1, convolutions + 1):
            stack.convolution(f"conv{block}_{index}", channels, 3, padding=1)
        stack.pool(2, stride=2)
    stack.dense("fc6", 4096)
    stack.dense("fc7", 4096)
    stack.dense("fc8", 1000)
    return ModelTable(
        name="vgg16",
        layers=tuple(stack.layers),
        sample="image 3 x 224 x 224",
        source="arXiv 1409.1556 table 2: 138 million; 138,357,544 (torchvision vgg16)",
    )
