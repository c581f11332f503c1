"""Arrays of any library with the CUDA array interface, and streams of any with ``__cuda_stream__``, checked strictly.

Sources: Numba's "CUDA Array Interface (Version 3)"; cuda.core's "``__cuda_stream__`` protocol" (version 0).
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pycomm.buffers import DTYPES
from pycomm.errors import UsageError

_LEGACY_DEFAULT_STREAM: Final = 1
_PER_THREAD_DEFAULT_STREAM: Final = 2


@dataclass(frozen=True)
class DeviceArray:
    """Where an array lies on a GPU. `stream` is the one its contents are ready on; None: they are ready."""

    address: int
    count: int  # elements
    dtype: str
    writable: bool
    stream: int | None

    @property
    def bytes(self) -> int:
        """Bytes of its elements."""
        return self.count * _itemsize(self.dtype)


def device_array(array: Any, what: str) -> DeviceArray:
    """The array as kernels can use it.

    ``what`` begins the message of a refusal, as in "rank 2 of 4: allreduce: send". Bfloat16 is known by the array's
    own ``dtype`` attribute (CuPy with ml_dtypes, torch): the interface has no code for it, and two bare bytes are
    never taken for it.

    Raises UsageError, saying found and wanted: no interface, an old version, a type or byte order that is not
    supported, a mask, strides that are not those of a contiguous array, or an address that its type cannot have.
    """
    try:
        interface = array.__cuda_array_interface__
    except AttributeError:
        raise UsageError(
            f"{what} is a {type(array).__name__}, needs a GPU array with __cuda_array_interface__ "
            f"(CuPy, torch and numba have it)"
        ) from None
    if not isinstance(interface, dict):
        raise UsageError(f"{what}: __cuda_array_interface__ is a {type(interface).__name__}, needs a dict")
    for key in ("shape", "typestr", "data", "version"):
        if key not in interface:
            raise UsageError(f"{what}: __cuda_array_interface__ lacks {key!r}")
    version = interface["version"]
    if type(version) is not int or version < 2:
        raise UsageError(f"{what}: __cuda_array_interface__ has version {version!r}, needs 2 or 3")
    if interface.get("mask") is not None:
        raise UsageError(f"{what} is masked, needs an array without a mask")
    shape = _shape(interface["shape"], what)
    dtype = _dtype(interface["typestr"], array, what)
    itemsize = _itemsize(dtype)
    _check_strides(interface.get("strides"), shape, itemsize, what)
    count = 1
    for extent in shape:
        count *= extent
    address, read_only = _data(interface["data"], count, what)
    if address % itemsize:
        raise UsageError(f"{what} lies at {address:#x}, needs a multiple of the {itemsize} bytes of {dtype}")
    return DeviceArray(address, count, dtype, not read_only, _producer_stream(interface.get("stream"), what))


def stream_handle(stream: Any, what: str = "stream") -> int:
    """The handle of a stream: an object with ``__cuda_stream__``, or None for the legacy default stream.

    Raises UsageError for anything else: a bare number says neither whose stream it is nor that it still exists.
    """
    if stream is None:
        return 0
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is None:
        raise UsageError(
            f"{what} is a {type(stream).__name__}, needs an object with __cuda_stream__ or None "
            f"(cuda.core and CuPy from 14 have it)"
        )
    found = protocol() if callable(protocol) else protocol
    if not isinstance(found, tuple) or len(found) != 2 or any(type(part) is not int for part in found):
        raise UsageError(f"{what}: __cuda_stream__ gives {found!r}, needs (0, handle)")
    version, handle = found
    if version != 0:
        raise UsageError(f"{what}: __cuda_stream__ has version {version}, needs 0")
    if handle < 0:
        raise UsageError(f"{what}: __cuda_stream__ gives the handle {handle}, needs one from 0")
    return int(handle)


def is_default_stream(handle: int) -> bool:
    """Whether a handle is one of the streams that wait for each other's kernels."""
    return handle in (0, _LEGACY_DEFAULT_STREAM, _PER_THREAD_DEFAULT_STREAM)


def _shape(shape: Any, what: str) -> tuple[int, ...]:
    if not isinstance(shape, tuple) or any(not isinstance(n, int) or isinstance(n, bool) or n < 0 for n in shape):
        raise UsageError(f"{what}: __cuda_array_interface__ has shape {shape!r}, needs a tuple of whole numbers")
    return shape


def _dtype(typestr: Any, array: Any, what: str) -> str:
    own = str(getattr(array, "dtype", "")).removeprefix("torch.")
    if own == "bfloat16" and typestr in ("<V2", "|V2", "<f2"):
        return own
    try:
        found = np.dtype(typestr)
    except (TypeError, ValueError):
        raise UsageError(f"{what}: __cuda_array_interface__ has typestr {typestr!r}, which is no type") from None
    if not found.isnative or found.name not in DTYPES:
        raise UsageError(f"{what} has dtype {found.name} ({typestr!r}), needs one of {', '.join(DTYPES)}")
    return str(found.name)


def _itemsize(dtype: str) -> int:
    return 2 if dtype == "bfloat16" else np.dtype(dtype).itemsize


def _check_strides(strides: Any, shape: tuple[int, ...], itemsize: int, what: str) -> None:
    if strides is None or 0 in shape:
        return
    wanted = itemsize
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1 and stride != wanted:
            raise UsageError(f"{what} has strides {tuple(strides)} and shape {shape}, needs a contiguous array")
        wanted *= extent


def _data(data: Any, count: int, what: str) -> tuple[int, bool]:
    if not isinstance(data, tuple) or len(data) != 2 or type(data[0]) is not int or type(data[1]) is not bool:
        raise UsageError(f"{what}: __cuda_array_interface__ has data {data!r}, needs (address, read only)")
    address, read_only = data
    if address == 0 and count > 0:
        raise UsageError(f"{what} has {count} elements at address 0")
    return address, read_only


def _producer_stream(stream: Any, what: str) -> int | None:
    if stream is None:
        return None
    if type(stream) is not int or stream < 1:
        raise UsageError(f"{what}: __cuda_array_interface__ has stream {stream!r}, needs None or a number from 1")
    return int(stream)
