"""A prepared collective."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pycomm import _core
from pycomm.algorithms import AUTO, Algorithm, parse_algorithm
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
        run: runs it once, on the buffers it was made for.
        native: the `_core.Runnable` that a native loop can time.
    """

    def __init__(self, comm: Communicator, buffers: Buffers, *, op: str = "sum", algorithm: str = "auto") -> None:
        if op not in OPS:
            raise UsageError(f"rank {comm.rank} of {comm.ranks}: op is {op!r}, needs one of {', '.join(OPS)}")
        if algorithm == AUTO:
            size = buffers.count * buffers.itemsize
            algorithm = comm.auto(buffers.collective, size, symmetric=buffers.symmetric)
        chosen = parse_algorithm(algorithm)
        _check_role(comm, buffers, chosen)
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
        self.native.buffers = buffers
        self.run: Callable[[], None] = self.native.run
        self._what = f"{buffers.collective} of {buffers.count} {buffers.dtype}"
        self.algorithm = chosen.name
        self.options = chosen.options_text
        self.segments: int = self.native.segments

    def __repr__(self) -> str:
        options = f" ({self.options})" if self.options else ""
        return f"<Operation: {self._what}, {self.algorithm}{options}>"

    def run_on(self, buffers: Buffers) -> None:
        """Run once on other buffers that agree in `key`, keeping no hold of them afterwards."""
        self.native.rebind(buffers.send, buffers.receive)
        self.native.buffers = None
        self.run()


def _check_role(comm: Communicator, buffers: Buffers, chosen: Algorithm) -> None:
    """Raises UsageError where a dedicated server passes buffers, which nobody would look at, or a worker none."""
    servers = chosen.options.get("servers", 1) if chosen.options.get("dedicated") else 0
    if servers >= comm.ranks:
        return  # refused by the registry, with the reason
    serves = comm.rank >= comm.ranks - servers
    where = f"rank {comm.rank} of {comm.ranks}: {buffers.collective} by {chosen}"
    if serves and (buffers.send is not None or buffers.receive is not None):
        raise UsageError(f"{where}: this rank is a dedicated server and passes no buffers: comm.serve(count, dtype)")
    if not serves and buffers.send is None and buffers.receive is None:
        raise UsageError(f"{where}: this rank is no dedicated server and passes its buffers: comm.allreduce(send)")
