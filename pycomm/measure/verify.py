"""Running an operation once and counting what is wrong afterwards: results, guard zones, the input."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pycomm.measure.contents import Contents, count_wrong_elements, fill_pieces
from pycomm.measure.elements import element_type
from pycomm.measure.pattern import choose_period
from pycomm.units import SIZE_LIMIT

Array = npt.NDArray[Any]

GUARD_BYTES: Final = 256  # before and after a result: wide enough to keep the alignment of 64
LINE_BYTES: Final = 64  # chunks begin on cache lines
_GUARD: Final = 0xA5


@dataclass(frozen=True)
class Guarded:
    """An array of `count` elements with guard zones around it, all in one piece of memory."""

    whole: Array
    inner: Array

    def paint(self) -> None:
        """Fill the guard zones."""
        for zone in self._zones():
            zone.view(np.uint8)[:] = _GUARD

    def count_damaged(self) -> int:
        """How many elements of the guard zones were written to."""
        return sum(
            int(np.any(zone.view(np.uint8).reshape(zone.size, -1) != _GUARD, axis=1).sum()) for zone in self._zones()
        )

    def _zones(self) -> tuple[Array, Array]:
        guard = (self.whole.size - self.inner.size) // 2
        return self.whole[:guard], self.whole[self.whole.size - guard :]


@dataclass(frozen=True)
class Buffers:
    """What one rank passes: in place, `send` and `receive` are one memory."""

    send: Guarded
    receive: Guarded

    @property
    def in_place(self) -> bool:
        return self.send is self.receive


Allocate = Callable[[int, "np.dtype[Any]"], Array]


def allocate_ordinary(count: int, dtype: "np.dtype[Any]") -> Array:
    """An uninitialised array that begins on a cache line, wherever the allocator puts it."""
    size = count * dtype.itemsize + LINE_BYTES
    if size >= SIZE_LIMIT:
        raise MemoryError(f"{size} bytes are more than any memory has")  # NumPy calls this a ValueError
    raw = np.empty(size, np.uint8)
    start = -raw.ctypes.data % LINE_BYTES
    return raw[start : start + count * dtype.itemsize].view(dtype)


def allocate_buffers(send_count: int, receive_count: int, dtype: str, in_place: bool, allocate: Allocate) -> Buffers:
    """Buffers of so many elements from ``allocate(count, dtype)``, which gives one-dimensional arrays.

    In place there is one, of the larger count.
    """

    def guarded(count: int) -> Guarded:
        kind = element_type(dtype)
        guard = GUARD_BYTES // kind.itemsize
        whole = allocate(count + 2 * guard, kind)
        return Guarded(whole, whole[guard : guard + count])

    if in_place:
        whole = guarded(max(send_count, receive_count))
        return Buffers(whole, whole)
    return Buffers(guarded(send_count), guarded(receive_count))


def pattern_period(count: int, itemsize: int, ranks: int, segments: int = 1) -> int:
    """A period that divides no chunk or segment of a buffer cut for up to 2 × `ranks` chunks or equal blocks."""
    lengths = []
    for chunks in range(1, 2 * ranks + 1):
        for chunk in (_part(count, chunks, itemsize), -(-count // chunks)):
            lengths += [chunk, _part(chunk, segments, itemsize)]
    return choose_period(lengths)


def _part(count: int, parts: int, itemsize: int) -> int:
    even, line = -(-count // parts), LINE_BYTES // itemsize
    return even if even < line else -(-even // line) * line


def count_wrong(run: Callable[[], object], buffers: Buffers, contents: Contents) -> int:
    """Fill the buffers, run once, and count wrong elements.

    Written guard zones count, and out of place so does a changed input.
    """
    buffers.send.paint()
    buffers.receive.paint()
    fill_pieces(buffers.receive.inner, contents.before)
    if contents.send is not None:
        fill_pieces(buffers.send.inner, contents.send)
    run()
    wrong = count_wrong_elements(buffers.receive.inner, contents.after) + buffers.receive.count_damaged()
    if contents.send is not None:
        wrong += count_wrong_elements(buffers.send.inner, contents.send) + buffers.send.count_damaged()
    return wrong


def settle(buffers: Buffers, op: str) -> None:
    """In place, give the buffer contents that repeated calls leave as they are.

    A sum that doubles at every call would soon be infinite, and a product of halves denormal and slow.
    """
    if buffers.in_place and op in ("sum", "avg", "prod"):
        buffers.receive.inner[:] = 1 if op == "prod" else 0
