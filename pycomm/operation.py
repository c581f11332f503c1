"""A prepared collective."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pycomm import _core
from pycomm.algorithms import parse_algorithm
from pycomm.buffers import Buffers
from pycomm.errors import UsageError

if TYPE_CHECKING:
    from pycomm.communicator import Communicator

OPS = ("sum", "prod", "min", "max", "avg")


class Operation:
    """A collective that was checked once and is run many times on the same buffers; made by a communicator.

    Attributes:
        algorithm: the registry name, ``auto`` resolved.
        options: its options, ``""`` or as in ``"servers=2,dedicated"``.
        segments: messages a chunk is cut into.
        native: the `_core.Runnable` that a native loop can time.
    """

    def __init__(self, comm: Communicator, buffers: Buffers, *, op: str = "sum", algorithm: str = "auto") -> None:
        if op not in OPS:
            raise UsageError(f"rank {comm.rank} of {comm.ranks}: op is {op!r}, needs one of {', '.join(OPS)}")
        chosen = parse_algorithm(resolve(algorithm, comm.ranks, buffers))
        self.native = _core.Operation(
            comm.memory,
            buffers.collective,
            chosen.name,
            dict(chosen.options),
            op,
            buffers.dtype,
            buffers.count,
            buffers.root,
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
    large = not buffers.symmetric and size > DIRECT_BYTES
    if buffers.collective != "allreduce":
        return _resolve_other(buffers.collective, large)
    if size <= MESH_BYTES:
        return "mesh" if ranks <= 8 else "recursive-doubling"
    return "ring" if large else "direct"


def _resolve_other(collective: str, large: bool) -> str:
    """The same for the other collectives, not measured but derived.

    Reduce-scatter and all-gather are the halves of `direct` (over the mesh) and `ring`, which move the same bytes; so
    the bound is theirs. A broadcast takes lg p hops down the tree, or, where many segments follow one another, a chain
    in which nobody sends the buffer twice. Reduce and all-to-all have one algorithm each.
    """
    return {
        "reduce_scatter": "ring" if large else "mesh",
        "allgather": "ring" if large else "mesh",
        "broadcast": "ring" if large else "tree",
        "reduce": "tree",
        "alltoall": "mesh",
    }[collective]
