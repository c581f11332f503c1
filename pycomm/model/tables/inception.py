"""Inception-v3 (Szegedy et al., arXiv 1512.00567), the network that torchvision and TensorFlow ship."""

from __future__ import annotations

from pycomm.model.tables.layers import ModelTable, Stack

Kernel = int | tuple[int, int]
# a branch is a list of (channels, kernel, stride, padding)
Unit = tuple[int, Kernel, int, int | tuple[int, int]]
_ROW, _COLUMN = (1, 7), (7, 1)


def inception_v3() -> ModelTable:
    stack = Stack(3, 299, 299)
    for index, unit in enumerate([(32, 3, 2, 0), (32, 3, 1, 0), (64, 3, 1, 1)]):
        _unit(stack, f"stem{index}", unit)
    stack.pool(3, stride=2)
    for index, unit in enumerate([(80, 1, 1, 0), (192, 3, 1, 0)], start=3):
        _unit(stack, f"stem{index}", unit)
    stack.pool(3, stride=2)
    for name, pool in (("5b", 32), ("5c", 64), ("5d", 64)):
        _mixed(stack, name, _module_a(pool))
    _mixed(stack, "6a", [[(384, 3, 2, 0)], [(64, 1, 1, 0), (96, 3, 1, 1), (96, 3, 2, 0)]], pooled=True)
    for name, width in (("6b", 128), ("6c", 160), ("6d", 160), ("6e", 192)):
        _mixed(stack, name, _module_b(width))
    _mixed(
        stack,
        "7a",
        [
            [(192, 1, 1, 0), (320, 3, 2, 0)],
            [(192, 1, 1, 0), (192, _ROW, 1, (0, 3)), (192, _COLUMN, 1, (3, 0)), (192, 3, 2, 0)],
        ],
        pooled=True,
    )
    for name in ("7b", "7c"):
        _module_c(stack, name)
    stack.go_to((stack.channels, 1, 1))
    stack.dense("fc", 1000)
    return ModelTable(
        name="inception-v3",
        layers=tuple(stack.layers),
        sample="image 3 x 299 x 299",
        source="arXiv 1512.00567; 23,834,568 parameters (torchvision inception_v3, no auxiliary head)",
    )


def _unit(stack: Stack, name: str, unit: Unit) -> None:
    channels, kernel, stride, padding = unit
    stack.convolution(name, channels, kernel, stride=stride, padding=padding, bias=False)
    stack.batch_norm(f"{name}.norm")


def _mixed(stack: Stack, name: str, branches: list[list[Unit]], *, pooled: bool = False) -> None:
    """Branches side by side, concatenated; `pooled` adds the input itself, pooled with stride 2."""
    start = stack.at
    channels = start[0] if pooled else 0
    for branch, units in enumerate(branches):
        stack.go_to(start)
        for index, unit in enumerate(units):
            _unit(stack, f"{name}.{branch}.{index}", unit)
        channels += stack.channels
    stack.go_to((channels, stack.height, stack.width))


def _module_a(pool: int) -> list[list[Unit]]:
    return [
        [(64, 1, 1, 0)],
        [(48, 1, 1, 0), (64, 5, 1, 2)],
        [(64, 1, 1, 0), (96, 3, 1, 1), (96, 3, 1, 1)],
        [(pool, 1, 1, 0)],
    ]


def _module_b(width: int) -> list[list[Unit]]:
    row: Unit = (width, _ROW, 1, (0, 3))
    column: Unit = (width, _COLUMN, 1, (3, 0))
    return [
        [(192, 1, 1, 0)],
        [(width, 1, 1, 0), row, (192, _COLUMN, 1, (3, 0))],
        [(width, 1, 1, 0), column, row, column, (192, _ROW, 1, (0, 3))],
        [(192, 1, 1, 0)],
    ]


def _module_c(stack: Stack, name: str) -> None:
    """Its 3 x 3 branches end in a 1 x 3 and a 3 x 1 side by side."""
    start = stack.at
    _unit(stack, f"{name}.0.0", (320, 1, 1, 0))
    for branch, units in ((1, [(384, 1, 1, 0)]), (2, [(448, 1, 1, 0), (384, 3, 1, 1)])):
        stack.go_to(start)
        for index, unit in enumerate(units):
            _unit(stack, f"{name}.{branch}.{index}", unit)
        fork = stack.at
        _unit(stack, f"{name}.{branch}.row", (384, (1, 3), 1, (0, 1)))
        stack.go_to(fork)
        _unit(stack, f"{name}.{branch}.column", (384, (3, 1), 1, (1, 0)))
    stack.go_to(start)
    _unit(stack, f"{name}.3.0", (192, 1, 1, 0))
    stack.go_to((320 + 2 * 384 + 2 * 384 + 192, start[1], start[2]))
