"""The buffers that a rank passes to a collective, checked before any message is sent."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pycomm.collectives import COLLECTIVES, Collective
from pycomm.errors import UsageError

if TYPE_CHECKING:
    from pycomm.communicator import Communicator

Array = npt.NDArray[Any]

DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "uint8")


@dataclass(frozen=True)
class Buffers:
    """What the engine works on: this rank's input and output.

    In place they are one memory, or one is this rank's block of the other. None where the rank has none: both on a
    dedicated server, the input of a broadcast and the output of a reduce on every rank but the root.
    """

    collective: str
    send: Array | None
    receive: Array | None
    count: int  # elements of the larger
    dtype: str
    root: int
    in_place: bool
    symmetric: bool  # peers can read them in place

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return 2 if self.dtype == "bfloat16" else np.dtype(self.dtype).itemsize

    @property
    def key(self) -> tuple[str, int, str, int, bool, bool]:
        """What a prepared operation depends on, besides where the arrays lie."""
        return self.collective, self.count, self.dtype, self.root, self.in_place, self.symmetric


def checked_buffers(
    comm: Communicator, collective: str, send: Array | None, receive: Array | None, root: int = 0
) -> Buffers:
    """The arrays as the engine uses them. Raises UsageError, naming rank, argument, found and wanted.

    One array (no `receive`, or the same as `send`) is the larger buffer, in place. Arrays that a rank does not need
    are not looked at: `send` of a broadcast out of place, `receive` of a reduce, where it is not the root.
    """
    facts = COLLECTIVES[collective]
    where = f"rank {comm.rank} of {comm.ranks}: {collective}"
    if isinstance(root, bool) or not isinstance(root, int | np.integer) or not 0 <= root < comm.ranks:
        raise UsageError(f"{where}: root is {root!r}, needs a rank, 0 to {comm.ranks - 1}")
    one = "send" if collective != "broadcast" else "buffer"
    in_place = receive is None or receive is send
    if facts.rooted and comm.rank != root:
        if facts.reduces:
            send, receive = _checked_array(send, one, where), None
        else:
            receive = _checked_array(send, one, where) if in_place else _checked_array(receive, "receive", where)
            send = None
    elif in_place:
        whole = _checked_array(send, one, where)
        if facts.in_blocks:
            _check_divides(comm, whole, one, where)
        send = whole if facts.sends_blocks or not facts.in_blocks else own_block(whole, comm.rank, comm.ranks)
        receive = whole if facts.receives_blocks or not facts.in_blocks else own_block(whole, comm.rank, comm.ranks)
    else:
        send, receive = _checked_array(send, one, where), _checked_array(receive, "receive", where)
        _check_pair(comm, facts, where, send, receive)
        in_place = _lie_in_place(comm, facts, where, send, receive)
    if receive is not None and not receive.flags.writeable:
        raise UsageError(f"{where}: {one if in_place else 'receive'} is read-only, needs a writeable array")
    passed = [array for array in (send, receive) if array is not None]
    # The output of a reduce is the root's alone, and nobody reads it: where it lies need not be agreed on.
    shared = passed[:1] if collective == "reduce" else passed
    return Buffers(
        collective,
        send,
        receive,
        count=max(array.size for array in passed),
        dtype=_usable_name(passed[0].dtype),
        root=int(root),
        in_place=in_place,
        symmetric=all(comm.memory.reachable(array) for array in shared),
    )


def checked_server(comm: Communicator, collective: str, count: int, dtype: npt.DTypeLike) -> Buffers:
    """A dedicated server's side of the same."""
    where = f"rank {comm.rank} of {comm.ranks}: {collective}"
    number, name = checked_count(count, where), checked_dtype(dtype, where).name
    if name not in DTYPES:
        raise UsageError(f"{where}: dtype is {name}, needs one of {', '.join(DTYPES)}")
    return Buffers(collective, None, None, number, name, root=0, in_place=False, symmetric=False)


def checked_count(count: Any, where: str) -> int:
    """Elements, as an int. Raises UsageError, beginning with `where`, for what is no whole number from 0."""
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 0:
        raise UsageError(f"{where}: count is {count!r}, needs a whole number from 0")
    return int(count)


def checked_dtype(dtype: npt.DTypeLike, where: str) -> np.dtype[Any]:
    """The type as NumPy knows it. Raises UsageError, beginning with `where`, for none and for references to objects."""
    try:
        known = np.dtype(dtype)
    except TypeError:
        known = np.dtype(object)
    if dtype is None or known.hasobject:
        raise UsageError(f"{where}: dtype is {dtype!r}, needs one of {', '.join(DTYPES)}")
    return known


def own_block(whole: Array, rank: int, ranks: int) -> Array:
    """Block `rank` of an array of `ranks` equal blocks, as one dimension, in the same memory."""
    block = whole.size // ranks
    return whole.reshape(-1)[rank * block : (rank + 1) * block]


@functools.cache  # NumPy makes the name anew every time, which takes longer than all other checks
def _usable_name(dtype: np.dtype[Any]) -> str:
    """The name of a type that collectives take; empty for another."""
    return dtype.name if dtype.name in DTYPES and dtype.isnative else ""


def _checked_array(array: Array | None, name: str, where: str) -> Array:
    if not isinstance(array, np.ndarray):
        raise UsageError(f"{where}: {name} is a {type(array).__name__}, needs a NumPy array")
    if not _usable_name(array.dtype):
        raise UsageError(f"{where}: {name} has dtype {array.dtype}, needs one of {', '.join(DTYPES)}")
    if not array.flags.c_contiguous:
        raise UsageError(
            f"{where}: {name} has strides {array.strides}, needs a contiguous array (numpy.ascontiguousarray makes one)"
        )
    return array


def _check_divides(comm: Communicator, whole: Array, name: str, where: str) -> None:
    if whole.size % comm.ranks:
        raise UsageError(f"{where}: {name} has {whole.size} elements, needs a multiple of the {comm.ranks} ranks")


def _check_pair(comm: Communicator, facts: Collective, where: str, send: Array, receive: Array) -> None:
    """That the types agree, and the sizes are those of the collective."""
    if receive.dtype != send.dtype:
        raise UsageError(f"{where}: receive has dtype {receive.dtype}, needs {send.dtype} as send has")
    if facts.sends_blocks:
        _check_divides(comm, send, "send", where)
    wanted, why = send.nbytes, f"{send.nbytes} as send has"
    if facts.sends_blocks and not facts.receives_blocks:
        wanted, why = send.nbytes // comm.ranks, f"{send.nbytes} / {comm.ranks}"
    elif facts.receives_blocks and not facts.sends_blocks:
        wanted, why = send.nbytes * comm.ranks, f"{comm.ranks} × {send.nbytes}"
    if receive.nbytes != wanted:
        raise UsageError(f"{where}: receive has {receive.nbytes} bytes, needs {why}")


def _lie_in_place(comm: Communicator, facts: Collective, where: str, send: Array, receive: Array) -> bool:
    """Whether two arrays lie as in place; else they must be apart."""
    if not np.may_share_memory(send, receive):
        return False
    larger, smaller = (receive, send) if receive.nbytes > send.nbytes else (send, receive)
    if smaller.nbytes == larger.nbytes:
        place, wanted = larger.ctypes.data, "be one array"
    else:
        place, wanted = own_block(larger, comm.rank, comm.ranks).ctypes.data, f"be block {comm.rank} of the other"
    if smaller.ctypes.data != place:
        raise UsageError(f"{where}: send and receive overlap in part: one needs to {wanted}, or both to lie apart")
    return True
