"""AlexNet in its one-column form (Krizhevsky 2014, arXiv 1404.5997), as torchvision ships it."""

from __future__ import annotations

from pycomm.model.tables.layers import ModelTable, Stack


def alexnet() -> ModelTable:
    stack = Stack(3, 224, 224)
    stack.convolution("conv1", 64, 11, stride=4, padding=2)
    stack.pool(3, stride=2)
    stack.convolution("conv2", 192, 5, padding=2)
    stack.pool(3, stride=2)
    stack.convolution("conv3", 384, 3, padding=1)
    stack.convolution("conv4", 256, 3, padding=1)
    stack.convolution("conv5", 256, 3, padding=1)
    stack.pool(3, stride=2)
    stack.dense("fc6", 4096)
    stack.dense("fc7", 4096)
    stack.dense("fc8", 1000)
    return ModelTable(
        name="alexnet",
        layers=tuple(stack.layers),
        sample="image 3 x 224 x 224",
        source="arXiv 1404.5997; 61,100,840 parameters (torchvision alexnet)",
    )
