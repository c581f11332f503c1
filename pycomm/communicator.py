"""The communicator: collectives over the ranks of a world, on NumPy arrays."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from pycomm import _core
from pycomm.errors import Unavailable, UsageError
from pycomm.launched import find_world
from pycomm.operation import Array, Operation, checked_buffers, checked_server
from pycomm.world import World

QUEUE_BYTES = 64 << 20  # of all queues of a rank, unless PYCOMM_QUEUE_BYTES says otherwise


def init(transport: str | None = None, *, timeout: float = 30.0) -> Communicator:
    """The communicator of the world this process was started in.

    Under ``mpirun`` or ``srun`` that is MPI's world, under ``torchrun`` its ranks (of one host), otherwise one rank.
    Called by all ranks.

    Args:
        transport: ``"shm"`` (the default).
        timeout: seconds without a sign of a peer that count as its loss.

    Raises:
        UsageError: the launcher's size is not the world's size.
        Unavailable: the world needs a package that is missing, or ranks share no memory.
        TransportError: a rank did not start within `timeout`.
    """
    return Communicator(find_world(timeout=timeout), transport or "shm")


class Communicator:
    """The ranks of a world and what they can do together.

    Made by :func:`pycomm.init` or handed to the function given to :func:`pycomm.run`. Every method that
    communicates is called by all ranks in the same order.

    Attributes:
        rank: this rank, from 0.
        ranks: how many there are.
        transport: ``"shm"`` or ``"threads"``.
        world: how ranks exchange small messages outside the measured path.
    """

    def __init__(self, world: World, transport: str = "shm") -> None:
        self.world = world
        self.rank = world.rank
        self.ranks = world.ranks
        self.transport = transport
        if transport not in ("shm", "threads"):
            raise UsageError(f"transport is {transport!r}, needs 'shm' or 'threads'")
        hosts = {member["host"] for member in world.members}
        if len(hosts) > 1:
            raise Unavailable(f"transport {transport}: ranks on hosts {', '.join(sorted(hosts))} share no memory")
        self.memory = self._share_memory()
        self.barrier_native = _core.Barrier(self.memory)
        self._prepared: dict[tuple[Any, ...], Operation] = {}
        self._open = True

    def _share_memory(self) -> Any:
        own = _core.Region.create()
        own.prepare(self.ranks)
        one_process = self.transport == "threads"
        if one_process:
            regions = self.world.allgather(own)
        else:
            fds = self.world.allgather(own.fd)
            regions = [
                own if peer == self.rank else _core.Region.attach(self.world.members[peer]["pid"], fd)
                for peer, fd in enumerate(fds)
            ]
        memory = _core.SharedMemory(
            self.rank,
            [(member["pid"], member["host"]) for member in self.world.members],
            regions,
            one_process,
            self.world.timeout,
            self.world.broadcast(_queue_bytes()),
        )
        self.world.barrier()  # nobody goes on, and perhaps ends, before all have attached
        return memory

    def empty(self, count: int, dtype: npt.DTypeLike = "float32") -> Array:
        """An uninitialised array of `count` elements in memory that every rank of this host can read in place.

        Collectives between two such buffers ("symmetric") move fewer bytes than between ordinary arrays.

        Raises:
            Unavailable: the memory cannot be had; the message says how much was needed.
        """
        numpy_dtype = np.dtype(dtype)
        array: Array = self.memory.empty(count * numpy_dtype.itemsize).view(numpy_dtype)
        return array

    def barrier(self) -> None:
        """Until all ranks are here."""
        self.barrier_native.run()

    def allreduce(self, send: Array, receive: Array | None = None, op: str = "sum", algorithm: str = "auto") -> Array:
        """Reduce `send` over all ranks; every rank gets the result.

        Args:
            send: contiguous array, the same count and dtype on all ranks.
            receive: where the result goes, of the same shape; `send` itself (in place) if not given.
            op: ``sum``, ``prod``, ``min``, ``max`` or ``avg``.
            algorithm: a name of ``pycomm list``, with options as in ``"ps:servers=2"``; or ``auto``.

        Returns:
            The array that holds the result.

        Raises:
            UsageError: found before any message is sent.
            TransportError: a peer is lost, silent, or in another call.
        """
        buffers = checked_buffers(self, "allreduce", send, receive)
        key = (buffers.key, op, algorithm)
        operation = self._prepared.get(key)
        if operation is None:
            operation = self._prepared[key] = Operation(self, buffers, op=op, algorithm=algorithm)
        operation.run_on(buffers)
        return send if receive is None else receive

    def prepare_allreduce(
        self, send: Array, receive: Array | None = None, *, op: str = "sum", algorithm: str = "auto"
    ) -> Operation:
        """An all-reduce checked once, to be run many times on the same buffers. Arguments as of `allreduce`."""
        return Operation(self, checked_buffers(self, "allreduce", send, receive), op=op, algorithm=algorithm)

    def serve(self, count: int, dtype: npt.DTypeLike, *, op: str = "sum", algorithm: str = "ps:dedicated") -> None:
        """A dedicated server's part of one `allreduce` of its workers. Arguments as theirs."""
        self.prepare_serve(count, dtype, op=op, algorithm=algorithm).run()

    def prepare_serve(
        self, count: int, dtype: npt.DTypeLike, *, op: str = "sum", algorithm: str = "ps:dedicated"
    ) -> Operation:
        """A dedicated server's part of an all-reduce, to be run many times."""
        return Operation(self, checked_server(self, "allreduce", count, dtype), op=op, algorithm=algorithm)

    def abort(self, message: str) -> None:
        """Tell the other ranks that this one gives up: their next collective raises."""
        self.memory.fail(message)
        self.world.abort(message)
        self._open = False

    def close(self) -> None:
        """Leave the world. Operations and arrays made here stay valid as memory, but no longer communicate."""
        if self._open:
            self.memory.depart()
            self.world.close()
            self._open = False

    def __enter__(self) -> Communicator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abort(f"{type(error).__name__}: {error}")


def _queue_bytes() -> int:
    text = os.environ.get("PYCOMM_QUEUE_BYTES", str(QUEUE_BYTES))
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise UsageError(f"PYCOMM_QUEUE_BYTES is {text!r}, needs a whole number of bytes from 1")
    return int(text)
