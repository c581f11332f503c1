"""Gradient packing: many tensors in one buffer, so that one all-reduce moves them all."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pycomm import _core
from pycomm.cuda.packing import DevicePacking, dtype_of, is_on_device
from pycomm.errors import UsageError

Array = npt.NDArray[np.generic]


class GradientPacker:
    """Where each tensor of a list lies in one buffer, planned once and used every iteration.

    The tensors have one type, and the buffer has one: theirs, or a narrower or wider one to send. No tensor is
    split, and they lie in the order given.

    Arrays are NumPy's, or lie on one GPU and have the CUDA array interface (CuPy, torch and numba have it): then the
    packing kernels do the same on a stream, and give the same bits.

    shapes: the shape of each tensor, a tuple of ints (or one int).
    dtype: the tensors' type: float64, float32, float16, bfloat16 (ml_dtypes), int64, int32, int8 or uint8.
    buffer_dtype: the buffer's type, by default the tensors'. Conversions exist among float32, float16 and bfloat16,
        and between float64 and float32.
    alignment_bytes: each tensor begins at a multiple of it, a power of two; by default they lie side by side.

    Raises UsageError for a type without conversion, a negative extent, or another alignment.

    >>> import numpy as np
    >>> gradients = [np.ones((2, 3), np.float32), np.full(4, 2, np.float32)]
    >>> packer = GradientPacker([g.shape for g in gradients], np.float32)
    >>> buffer = packer.pack(gradients)
    >>> buffer.tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    >>> packer.unpack(buffer, gradients, factor=0.5)
    >>> gradients[1].tolist()
    [1.0, 1.0, 1.0, 1.0]
    """

    def __init__(
        self,
        shapes: Sequence[Sequence[int] | int],
        dtype: npt.DTypeLike,
        *,
        buffer_dtype: npt.DTypeLike | None = None,
        alignment_bytes: int | None = None,
    ) -> None:
        self.shapes = tuple(_shape_of(shape) for shape in shapes)
        self.dtype = _type_of(dtype, "dtype")
        self.buffer_dtype = self.dtype if buffer_dtype is None else _type_of(buffer_dtype, "buffer_dtype")
        if alignment_bytes is not None and (type(alignment_bytes) is not int or alignment_bytes < 1):
            raise UsageError(f"packing: alignment: found {alignment_bytes!r} bytes, wanted a power of two")
        self._plan = _core.PackPlan(self.shapes, self.dtype, self.buffer_dtype, alignment_bytes or 0)
        self._on_device: DevicePacking | None = None

    @classmethod
    def like(
        cls,
        tensors: Sequence[Any],
        *,
        buffer_dtype: npt.DTypeLike | None = None,
        alignment_bytes: int | None = None,
    ) -> GradientPacker:
        """A packer for tensors with these shapes, in either place. Raises UsageError for none or different types."""
        if not tensors:
            raise UsageError("packing: found no tensor, wanted at least 1")
        first = dtype_of(tensors[0], "packing: tensor 0")
        for index, tensor in enumerate(tensors):
            dtype = dtype_of(tensor, f"packing: tensor {index}")
            if dtype != first:
                raise UsageError(f"packing: tensor {index}: found {dtype}, wanted {first} as tensor 0")
        shapes = [tensor.shape for tensor in tensors]
        return cls(shapes, first, buffer_dtype=buffer_dtype, alignment_bytes=alignment_bytes)

    @property
    def count(self) -> int:
        """Elements of the buffer, gaps for alignment included."""
        return self._plan.count

    @property
    def bytes(self) -> int:
        """Bytes of the buffer."""
        return self.count * self.buffer_dtype.itemsize

    @property
    def offsets(self) -> tuple[int, ...]:
        """The element of the buffer at which each tensor begins."""
        return tuple(self._plan.offsets)

    def pack(self, tensors: Sequence[Any], buffer: Any = None, *, factor: float = 1.0, stream: Any = None) -> Any:
        """Writes tensors × factor into the buffer, zeros into the gaps, and returns it.

        buffer: one dimension, `count` elements of `buffer_dtype`, contiguous (`comm.empty` gives one in shared
            memory); a new one by default, on a GPU a ``pycomm.cuda.DeviceBuffer``. It must not overlap a tensor.
        factor: 1 / workers turns a later sum into a mean. The product is computed in float32 (float64 if either
            type is) and rounded once to the buffer's type. Integers take 1 only.
        stream: for arrays on a GPU, an object with ``__cuda_stream__`` on which it is done after the call returned;
            None for the default stream.

        Raises UsageError, naming the tensor, for another number, type or shape, an array that is not contiguous, or
        arrays some of which are on a GPU and some not. Unavailable, for arrays on a GPU where this build has none.
        Cost: each element is read once and written once; the GIL is released.
        """
        number = _factor_of(factor)
        if self._on_gpu(tensors, buffer, stream):
            return self._device().pack(tensors, buffer, number, stream)
        if buffer is None:
            buffer = np.empty(self.count, self.buffer_dtype)
        self._plan.pack(buffer, tensors, number)
        return buffer

    def unpack(self, buffer: Any, tensors: Sequence[Any], *, factor: float = 1.0, stream: Any = None) -> None:
        """Writes the buffer × factor into the tensors; the reverse of `pack`, with the same checks and cost."""
        number = _factor_of(factor)
        if self._on_gpu(tensors, buffer, stream):
            self._device().unpack(buffer, tensors, number, stream)
        else:
            self._plan.unpack(buffer, tensors, number)

    def time_on_device(self, tensors: Sequence[Any], buffer: Any, to_buffer: bool, samples: int, batch: int) -> Any:
        """Nanoseconds, by events, of each of `samples` samples of `batch` calls of `pack` or `unpack` on a GPU."""
        return self._device().time(tensors, buffer, to_buffer, samples, batch)

    def _device(self) -> DevicePacking:
        if self._on_device is None:
            self._on_device = DevicePacking(self.shapes, self.offsets, self.count, self.dtype, self.buffer_dtype)
        return self._on_device

    @staticmethod
    def _on_gpu(tensors: Sequence[Any], buffer: Any, stream: Any) -> bool:
        """Whether the arrays are on a GPU. Raises UsageError where some are and some aren't."""
        named = {f"tensor {index}": tensor for index, tensor in enumerate(tensors)}
        if buffer is not None:
            named["the buffer"] = buffer
        places = {name: is_on_device(array) for name, array in named.items()}
        on_gpu = any(places.values())
        if on_gpu and not all(places.values()):
            there = next(name for name, on in places.items() if on)
            here = next(name for name, on in places.items() if not on)
            raise UsageError(f"packing: {there} is on a GPU and {here} is not: wanted all arrays in one place")
        if stream is not None and not on_gpu:
            raise UsageError("packing: stream: found one, wanted none for arrays in host memory")
        return on_gpu


def _type_of(dtype: npt.DTypeLike, name: str) -> np.dtype[Any]:
    try:
        return np.dtype(dtype)
    except TypeError:
        raise UsageError(f"packing: {name}: {dtype!r} is no type NumPy knows") from None


def _shape_of(shape: Sequence[int] | int) -> tuple[int, ...]:
    extents = tuple(shape) if isinstance(shape, Iterable) else (shape,)
    for extent in extents:
        if isinstance(extent, bool) or not isinstance(extent, (int, np.integer)):
            raise UsageError(f"packing: shape {shape!r}: {extent!r} is not a whole number")
    return tuple(int(extent) for extent in extents)


def _factor_of(factor: float) -> float:
    if isinstance(factor, bool) or not isinstance(factor, (int, float, np.integer, np.floating)):
        raise UsageError(f"packing: factor: found {factor!r}, wanted a number")
    if not math.isfinite(factor):
        raise UsageError(f"packing: factor: found {factor!r}, wanted a finite number")
    return float(factor)
