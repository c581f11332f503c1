"""Memory of a GPU that pycomm allocates itself: arrays with the CUDA array interface, without CuPy."""

from __future__ import annotations

from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from pycomm.communicator import Communicator
from pycomm.cuda.probe import cuda_module


class DeviceBuffer:
    """`count` elements from element `first` of a `_cuda.DeviceMemory`, as any library with the interface reads it."""

    def __init__(self, memory: Any, dtype: np.dtype[Any], count: int, first: int = 0) -> None:
        self.memory = memory
        self.dtype = dtype
        self.count = count
        self.first = first
        self.shape = (count,)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        address = self.memory.address + self.first * self.dtype.itemsize
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (address, False), "version": 3}


def write_bytes(memory: Any, array: npt.NDArray[Any]) -> None:
    """A contiguous host array into the first bytes of a `_cuda.DeviceMemory`. Raises DeviceError."""
    memory.write(array.view(np.uint8))


def read_bytes(memory: Any, array: npt.NDArray[Any]) -> None:
    """The first bytes of a `_cuda.DeviceMemory` into a contiguous host array. Raises DeviceError."""
    memory.read(array.view(np.uint8))


# What a rank keeps from row to row, as long as its communicator lives.
_kept: WeakKeyDictionary[Communicator, dict[str, Any]] = WeakKeyDictionary()


def device_stream(comm: Communicator, device: int) -> Any:
    """This rank's `_cuda.DeviceStream` on its device, the same again; it waits for no other stream."""
    mine = _kept.setdefault(comm, {})
    if "stream" not in mine:
        mine["stream"] = cast(Any, cuda_module()).DeviceStream(device)
    return mine["stream"]


def keep_memory(comm: Communicator, name: str, device: int, size: int) -> Any:
    """This rank's `_cuda.DeviceMemory` of that name, the same again while `size` (bytes) stays.

    Allocating and releasing wait for all kernels of the device, so both happen only where no rank has one in flight.
    Raises DeviceError if there is no room.
    """
    mine = _kept.setdefault(comm, {})
    held = mine.get(name)
    if held is None or (held.device, held.bytes) != (device, size):
        mine.pop(name, None)
        del held
        mine[name] = cast(Any, cuda_module()).DeviceMemory(device, size)
    return mine[name]
