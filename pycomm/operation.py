"""A prepared collective, and the checks of its buffers that come before any message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pycomm import _core
from pycomm.algorithms import parse_algorithm
from pycomm.errors import UsageError

if TYPE_CHECKING:
    from pycomm.communicator import Communicator

Array = npt.NDArray[Any]

DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "uint8")
OPS = ("sum", "prod", "min", "max", "avg")


@dataclass(frozen=True)
class Buffers:
    """What a rank passes to a collective, checked. A dedicated server passes no arrays."""

    send: Array | None
    receive: Array | None
    count: int  # elements
    dtype: str
    in_place: bool
    symmetric: bool  # peers can read both in place

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return 2 if self.dtype == "bfloat16" else np.dtype(self.dtype).itemsize

    @property
    def key(self) -> tuple[int, str, bool, bool]:
        """What a prepared operation depends on, besides where the arrays lie."""
        return self.count, self.dtype, self.in_place, self.symmetric


def checked_buffers(comm: Communicator, collective: str, send: Array, receive: Array | None) -> Buffers:
    """The arrays as a collective can use them. Raises UsageError, naming rank, argument, found and wanted."""
    where = f"rank {comm.rank} of {comm.ranks}: {collective}"
    in_place = receive is None or receive is send
    receive = send if receive is None else receive
    for name, array in (("send", send), ("receive", receive)):
        if not isinstance(array, np.ndarray):
            raise UsageError(f"{where}: {name} is a {type(array).__name__}, needs a NumPy array")
        if array.dtype.name not in DTYPES or not array.dtype.isnative:
            raise UsageError(f"{where}: {name} has dtype {array.dtype}, needs one of {', '.join(DTYPES)}")
        if not array.flags.c_contiguous:
            raise UsageError(
                f"{where}: {name} has strides {array.strides}, needs a contiguous array "
                f"(numpy.ascontiguousarray makes one)"
            )
    if not receive.flags.writeable:
        raise UsageError(f"{where}: receive is read-only, needs a writeable array")
    if receive.dtype != send.dtype:
        raise UsageError(f"{where}: receive has dtype {receive.dtype}, needs {send.dtype} as send has")
    if receive.nbytes != send.nbytes:
        raise UsageError(f"{where}: receive has {receive.nbytes} bytes, needs {send.nbytes} as send has")
    if not in_place and np.may_share_memory(send, receive):
        in_place = send.ctypes.data == receive.ctypes.data
        if not in_place:
            raise UsageError(f"{where}: send and receive overlap in part, need to be one array or apart")
    symmetric = bool(comm.memory.reachable(send) and comm.memory.reachable(receive))
    return Buffers(send, receive, send.size, send.dtype.name, in_place, symmetric)


def checked_server(comm: Communicator, collective: str, count: int, dtype: npt.DTypeLike) -> Buffers:
    """A dedicated server's side of the same."""
    where = f"rank {comm.rank} of {comm.ranks}: {collective}"
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise UsageError(f"{where}: count is {count!r}, needs a whole number from 0")
    name = np.dtype(dtype).name
    if name not in DTYPES:
        raise UsageError(f"{where}: dtype is {name}, needs one of {', '.join(DTYPES)}")
    return Buffers(None, None, count, name, in_place=False, symmetric=False)


class Operation:
    """A collective that was checked once and is run many times on the same buffers; made by a communicator.

    Attributes:
        algorithm: the registry name, ``auto`` resolved.
        options: its options, ``""`` or as in ``"servers=2,dedicated"``.
        segments: messages a chunk is cut into.
        native: the `_core.Runnable` that a native loop can time.
    """

    def __init__(self, comm: Communicator, buffers: Buffers, *, op: str, algorithm: str) -> None:
        if op not in OPS:
            raise UsageError(f"rank {comm.rank} of {comm.ranks}: op is {op!r}, needs one of {', '.join(OPS)}")
        chosen = parse_algorithm(resolve(algorithm, comm.ranks, buffers))
        self.native = _core.Operation(
            comm.memory,
            chosen.name,
            dict(chosen.options),
            op,
            buffers.dtype,
            buffers.count,
            buffers.in_place,
            buffers.symmetric,
            buffers.send,
            buffers.receive,
        )
        self.algorithm = chosen.name
        self.options = chosen.options_text
        self.segments: int = self.native.segments
        self.buffers: Buffers | None = buffers

    def run(self) -> None:
        """Run once. A method, so that who holds it alone holds the arrays too."""
        self.native.run()

    def run_on(self, buffers: Buffers) -> None:
        """Run once on other buffers that agree in `key`, keeping no hold of them afterwards."""
        self.native.rebind(buffers.send, buffers.receive)
        self.buffers = None
        self.native.run()


MESH_BYTES = 4 << 10
DIRECT_BYTES = 1 << 20


def resolve(algorithm: str, ranks: int, buffers: Buffers) -> str:
    """The algorithm that `auto` stands for here; any other name as it is.

    Few bytes: the fewest hops, so everyone to everyone (`mesh`) among a few ranks, by doubling among many. Then
    `direct`, two hops at the least bytes. Beyond a mebibyte of ordinary buffers, where all depends on what stays in
    the caches, `ring`. The bounds are those seen on two cores with 2 to 7 ranks.
    """
    if algorithm != "auto":
        return algorithm
    size = buffers.count * buffers.itemsize
    if size <= MESH_BYTES:
        return "mesh" if ranks <= 8 else "recursive-doubling"
    return "direct" if buffers.symmetric or size <= DIRECT_BYTES else "ring"
