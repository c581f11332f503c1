"""ResNet-50 and ResNet-152 (He et al., arXiv 1512.03385, table 1): bottleneck blocks."""

from __future__ import annotations

from pycomm.model.tables.layers import ModelTable, Stack

_EXPANSION = 4
_PUBLISHED = {50: "25,557,032", 152: "60,192,808"}
_BLOCKS = {50: (3, 4, 6, 3), 152: (3, 8, 36, 3)}


def resnet50() -> ModelTable:
    return _resnet(50)


def resnet152() -> ModelTable:
    return _resnet(152)


def _resnet(depth: int) -> ModelTable:
    stack = Stack(3, 224, 224)
    _unit(stack, "conv1", 64, 7, stride=2, padding=3)
    stack.pool(3, stride=2, padding=1)
    for stage, blocks in enumerate(_BLOCKS[depth]):
        width = 64 << stage
        for block in range(blocks):
            _bottleneck(stack, f"stage{stage + 2}.{block}", width, 2 if stage and not block else 1, first=not block)
    stack.go_to((stack.channels, 1, 1))
    stack.dense("fc", 1000)
    return ModelTable(
        name=f"resnet{depth}",
        layers=tuple(stack.layers),
        sample="image 3 x 224 x 224",
        source=f"arXiv 1512.03385; {_PUBLISHED[depth]} parameters (torchvision resnet{depth})",
    )


def _unit(stack: Stack, name: str, channels: int, kernel: int, *, stride: int = 1, padding: int = 0) -> None:
    stack.convolution(name, channels, kernel, stride=stride, padding=padding, bias=False)
    stack.batch_norm(f"{name}.norm")


def _bottleneck(stack: Stack, name: str, width: int, stride: int, *, first: bool) -> None:
    start = stack.at
    _unit(stack, f"{name}.conv1", width, 1)
    _unit(stack, f"{name}.conv2", width, 3, stride=stride, padding=1)
    _unit(stack, f"{name}.conv3", width * _EXPANSION, 1)
    end = stack.at
    if first:
        stack.go_to(start)
        _unit(stack, f"{name}.projection", width * _EXPANSION, 1, stride=stride)
    stack.go_to(end)
