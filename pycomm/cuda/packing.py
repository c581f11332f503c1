"""Packing on GPUs: the plan of a GradientPacker carried out by the packing kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import ml_dtypes
import numpy as np

from pycomm.cuda.interface import DeviceArray, device_array, stream_handle
from pycomm.cuda.memory import DeviceBuffer
from pycomm.cuda.probe import cuda_module, missing_device
from pycomm.errors import Unavailable, UsageError


def is_on_device(array: Any) -> bool:
    """Whether an array has the CUDA array interface."""
    return hasattr(array, "__cuda_array_interface__")


def dtype_of(array: Any, what: str) -> np.dtype[Any]:
    """The element type of an array in either place. Raises UsageError as `device_array`."""
    if not is_on_device(array):
        dtype = getattr(array, "dtype", None)
        if not isinstance(dtype, np.dtype):
            raise UsageError(f"{what}: found a {type(array).__name__}, wanted an array of NumPy or on a GPU")
        return dtype
    name = device_array(array, what).dtype
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


class DevicePacking:
    """A plan (element offsets of tensors in a buffer) on whatever GPU the arrays are: a native packer for each.

    Raises Unavailable where there is no GPU.
    """

    def __init__(
        self,
        shapes: Sequence[tuple[int, ...]],
        offsets: Sequence[int],
        count: int,
        dtype: np.dtype[Any],
        buffer_dtype: np.dtype[Any],
    ) -> None:
        if reason := missing_device():
            raise Unavailable(reason)
        self._module: Any = cast(Any, cuda_module())
        self._shapes = shapes
        self._offsets = list(offsets)
        self._counts = [math.prod(shape) for shape in shapes]
        self._count = count
        self._dtype = dtype
        self._buffer_dtype = buffer_dtype
        self._packers: dict[int, Any] = {}

    def pack(self, tensors: Sequence[Any], buffer: Any, factor: float, stream: Any) -> Any:
        """As ``GradientPacker.pack``; on the stream, where it has perhaps not happened yet on return."""
        addresses, device = self._addresses(tensors)
        if buffer is None:
            size = max(self._count * self._buffer_dtype.itemsize, 1)
            buffer = DeviceBuffer(self._module.DeviceMemory(device, size), self._buffer_dtype, self._count)
        place = self._place(buffer, device, writable=True)
        self._packer(device).pack(place, addresses, factor, stream_handle(stream, "packing: stream"))
        return buffer

    def unpack(self, buffer: Any, tensors: Sequence[Any], factor: float, stream: Any) -> None:
        """As ``GradientPacker.unpack``, on the stream."""
        addresses, device = self._addresses(tensors, writable=True)
        place = self._place(buffer, device)
        self._packer(device).unpack(place, addresses, factor, stream_handle(stream, "packing: stream"))

    def time(self, tensors: Sequence[Any], buffer: Any, to_buffer: bool, samples: int, batch: int) -> Any:
        """Nanoseconds, by events, of each sample of `batch` launches; the arrays are checked once, before."""
        addresses, device = self._addresses(tensors, writable=not to_buffer)
        place = self._place(buffer, device, writable=to_buffer)
        events, _ = self._packer(device).time(device, place, addresses, 1.0, to_buffer, samples, batch)
        return events

    def _packer(self, device: int) -> Any:
        if device not in self._packers:
            self._packers[device] = self._module.DevicePacker(
                device=device,
                begins=self._offsets,
                counts=self._counts,
                count=self._count,
                tensor_dtype=self._dtype.name,
                buffer_dtype=self._buffer_dtype.name,
            )
        return self._packers[device]

    def _addresses(self, tensors: Sequence[Any], *, writable: bool = False) -> tuple[list[int], int]:
        if len(tensors) != len(self._shapes):
            raise UsageError(f"packing: found {len(tensors)} tensors, wanted {len(self._shapes)}")
        addresses: list[int] = []
        devices: dict[int, int] = {}  # device: the first tensor on it
        for index, (tensor, shape) in enumerate(zip(tensors, self._shapes, strict=True)):
            what = f"packing: tensor {index}"
            found = device_array(tensor, what)
            found_shape = tuple(tensor.__cuda_array_interface__["shape"])
            if found_shape != shape:
                raise UsageError(f"{what}: found shape {found_shape}, wanted {shape}")
            _check(found, what, self._dtype, writable)
            if found.count:
                devices.setdefault(self._module.device_of(found.address), index)
            if len(devices) > 1:
                (there, first), (here, _) = devices.items()
                raise UsageError(f"{what}: found it on device {here}, wanted {there} as tensor {first}")
            addresses.append(found.address)
        return addresses, next(iter(devices), 0)

    def _place(self, buffer: Any, device: int, *, writable: bool = False) -> int:
        found = device_array(buffer, "packing: buffer")
        if found.count != self._count:
            raise UsageError(f"packing: buffer: found {found.count} elements, wanted {self._count}")
        _check(found, "packing: buffer", self._buffer_dtype, writable)
        if found.count and (on := self._module.device_of(found.address)) != device:
            raise UsageError(f"packing: buffer: found it on device {on}, wanted {device} as the tensors")
        return found.address


def _check(found: DeviceArray, what: str, dtype: np.dtype[Any], writable: bool) -> None:
    if found.dtype != dtype.name:
        raise UsageError(f"{what}: found {found.dtype}, wanted {dtype.name}")
    if writable and not found.writable:
        raise UsageError(f"{what}: found it read-only, wanted a writable array")
