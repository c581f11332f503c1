"""The communicator: collectives over the ranks of a world, on NumPy arrays."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any

import numpy.typing as npt

from pycomm import _core, tuning
from pycomm.buffers import Array, checked_buffers, checked_count, checked_dtype, checked_server
from pycomm.errors import Unavailable, UsageError
from pycomm.launched import find_world, launched_ranks
from pycomm.machine import machine_kind, usable_cores
from pycomm.operation import Operation
from pycomm.units import SIZE_LIMIT
from pycomm.world import World, checked_timeout

QUEUE_BYTES = 64 << 20  # of all queues of a rank, unless PYCOMM_QUEUE_BYTES says otherwise


def init(transport: str | None = None, *, timeout: float = 30.0) -> Communicator:
    """The communicator of the world this process was started in.

    Under ``mpirun`` or ``srun`` that is MPI's world, under ``torchrun`` its ranks (of one host), otherwise one rank.
    Called by all ranks.

    Args:
        transport: ``"shm"`` (the default); ``"threads"`` for a single rank, not under a launcher.
        timeout: seconds without a sign of a peer that count as its loss.

    Raises:
        UsageError: the launcher's size is not the world's size, or its ranks cannot have this transport; a timeout
            that is not above 0.
        Unavailable: the world needs a package that is missing, or ranks share no memory.
        TransportError: a rank did not start within `timeout`.
    """
    checked_timeout(timeout)
    launched = launched_ranks()
    if transport == "threads" and launched is not None:
        raise UsageError(f"transport is 'threads', but the ranks that {launched[0]} started are processes")
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
        self._tuned = self._agree_on_tuning()
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
        queue_bytes, largest_slot = self.world.broadcast((_queue_bytes(), _core.SharedMemory.best_largest_slot()))
        cores = frozenset().union(*self.world.allgather(usable_cores()))
        memory = _core.SharedMemory(
            self.rank,
            [(member["pid"], member["host"]) for member in self.world.members],
            regions,
            one_process,
            self.world.timeout,
            queue_bytes,
            largest_slot,
            len(cores),
        )
        self.world.barrier()  # nobody goes on, and perhaps ends, before all have attached
        return memory

    def _agree_on_tuning(self) -> tuning.Choices:
        """What rank 0 finds, on every rank: ranks that chose for themselves might choose differently."""

        def find() -> tuning.Choices:
            return tuning.load(machine_kind(), self.ranks, self.transport) if self.rank == 0 else {}

        found: list[tuning.Choices] = self.world.agree(find)
        return found[0]

    def auto(self, collective: str, bytes: int, *, symmetric: bool) -> str:
        """The algorithm that ``auto`` stands for at a buffer of so many bytes.

        What ``pycomm tune`` has found on this machine for as many ranks on this transport; else the rule that comes
        with pycomm.
        """
        buffers = tuning.SYMMETRIC if symmetric else tuning.ORDINARY
        case = tuning.Case(collective, self.ranks, self.transport, buffers)
        return tuning.chosen(self._tuned.get(case) or tuning.shipped(case), bytes)

    def empty(self, count: int, dtype: npt.DTypeLike = "float32") -> Array:
        """An uninitialised array of `count` elements in memory that every rank of this host can read in place.

        Collectives between two such buffers ("symmetric") move fewer bytes than between ordinary arrays.

        Raises:
            UsageError: `count` is no whole number from 0, or `dtype` no type of plain elements.
            Unavailable: the memory cannot be had; the message says how much was needed.
        """
        where = f"rank {self.rank} of {self.ranks}: empty"
        number = checked_count(count, where)
        numpy_dtype = checked_dtype(dtype, where)
        size = number * numpy_dtype.itemsize
        if size >= SIZE_LIMIT:
            raise Unavailable(f"{where}: {size} bytes are more than any memory has")
        array: Array = self.memory.empty(size).view(numpy_dtype)
        return array

    def barrier(self) -> None:
        """Until all ranks are here."""
        self.barrier_native.run()

    def allreduce(self, send: Array, receive: Array | None = None, op: str = "sum", algorithm: str = "auto") -> Array:
        """Reduce `send` over all ranks; every rank gets the result.

        Args:
            send: contiguous array, the same count and dtype on all ranks.
            receive: where the result goes, of the same size; `send` itself (in place) if not given.
            op: ``sum``, ``prod``, ``min``, ``max`` or ``avg``.
            algorithm: a name of ``pycomm list``, with options as in ``"ps:servers=2"``; or ``auto``.

        Returns:
            The array that holds the result.

        Raises:
            UsageError: found before any message is sent.
            TransportError: a peer is lost, silent, or in another call.
        """
        result: Array = self._call("allreduce", send, receive, op=op, algorithm=algorithm)
        return result

    def reduce_scatter(
        self, send: Array, receive: Array | None = None, op: str = "sum", algorithm: str = "auto"
    ) -> Array:
        """Reduce `send` over all ranks; rank r gets block r of the result.

        Args:
            send: contiguous array of a block a rank, the same count and dtype on all ranks.
            receive: where this rank's block goes; block `rank` of `send` (in place) if not given.

        The other arguments and the errors are those of `allreduce`. Returns the array that holds the block.
        """
        result: Array = self._call("reduce_scatter", send, receive, op=op, algorithm=algorithm)
        return result

    def allgather(self, send: Array, receive: Array | None = None, algorithm: str = "auto") -> Array:
        """Every rank gets the blocks of all ranks, one after another in their order.

        Args:
            send: contiguous array, this rank's block, the same count and dtype on all ranks. In place the whole, in
                which block `rank` is this rank's.
            receive: where the blocks go, `ranks` times as large; `send` itself (in place) if not given.

        The other argument and the errors are those of `allreduce`. Returns the array that holds all blocks.
        """
        result: Array = self._call("allgather", send, receive, algorithm=algorithm)
        return result

    def broadcast(
        self, buffer: Array | None, root: int = 0, algorithm: str = "auto", *, receive: Array | None = None
    ) -> Array:
        """Every rank gets what `buffer` holds on rank `root`.

        Args:
            buffer: contiguous array, the same count and dtype on all ranks; what is sent by the root and written to
                on the others. Only the root needs one where all ranks give `receive`.
            receive: where it goes on every rank, the root too, if not to `buffer`. Where it is from `empty`, the
                root's `buffer` must be too: ranks that read it in place and ranks that wait for a copy would not meet,
                and only the root sees which of the two its `buffer` allows.

        The other argument and the errors are those of `allreduce`. Returns the array that holds the result.
        """
        result: Array = self._call("broadcast", buffer, receive, root=root, algorithm=algorithm)
        return result

    def reduce(
        self,
        send: Array,
        receive: Array | None = None,
        op: str = "sum",
        root: int = 0,
        algorithm: str = "auto",
    ) -> Array | None:
        """Reduce `send` over all ranks; rank `root` gets the result.

        Args:
            send: contiguous array, the same count and dtype on all ranks.
            receive: where the result goes on the root; `send` itself (in place) if not given. The other ranks need
                none, and do not touch the one they give.

        The other arguments and the errors are those of `allreduce`. Returns the array that holds the result, None on
        the other ranks.
        """
        result: Array | None = self._call("reduce", send, receive, op=op, root=root, algorithm=algorithm)
        return result

    def alltoall(self, send: Array, receive: Array | None = None, algorithm: str = "auto") -> Array:
        """Block c of this rank's `send` becomes block `rank` of the result on rank c.

        Args:
            send: contiguous array of a block a rank, the same count and dtype on all ranks.
            receive: where the blocks of all ranks go, of the same size; `send` itself (in place) if not given.

        The other argument and the errors are those of `allreduce`. Returns the array that holds the result.
        """
        result: Array = self._call("alltoall", send, receive, algorithm=algorithm)
        return result

    def prepare_allreduce(
        self, send: Array, receive: Array | None = None, *, op: str = "sum", algorithm: str = "auto"
    ) -> Operation:
        """An all-reduce checked once, to be run many times on the same buffers. Arguments as of `allreduce`."""
        return Operation(self, checked_buffers(self, "allreduce", send, receive), op=op, algorithm=algorithm)

    def prepare_reduce_scatter(
        self, send: Array, receive: Array | None = None, *, op: str = "sum", algorithm: str = "auto"
    ) -> Operation:
        """A `reduce_scatter` checked once, to be run many times."""
        return Operation(self, checked_buffers(self, "reduce_scatter", send, receive), op=op, algorithm=algorithm)

    def prepare_allgather(self, send: Array, receive: Array | None = None, *, algorithm: str = "auto") -> Operation:
        """An `allgather` checked once, to be run many times."""
        return Operation(self, checked_buffers(self, "allgather", send, receive), algorithm=algorithm)

    def prepare_broadcast(
        self, buffer: Array | None, root: int = 0, *, algorithm: str = "auto", receive: Array | None = None
    ) -> Operation:
        """A `broadcast` checked once, to be run many times."""
        return Operation(self, checked_buffers(self, "broadcast", buffer, receive, root), algorithm=algorithm)

    def prepare_reduce(
        self, send: Array, receive: Array | None = None, *, op: str = "sum", root: int = 0, algorithm: str = "auto"
    ) -> Operation:
        """A `reduce` checked once, to be run many times."""
        return Operation(self, checked_buffers(self, "reduce", send, receive, root), op=op, algorithm=algorithm)

    def prepare_alltoall(self, send: Array, receive: Array | None = None, *, algorithm: str = "auto") -> Operation:
        """An `alltoall` checked once, to be run many times."""
        return Operation(self, checked_buffers(self, "alltoall", send, receive), algorithm=algorithm)

    def serve(self, count: int, dtype: npt.DTypeLike, *, op: str = "sum", algorithm: str = "ps:dedicated") -> None:
        """A dedicated server's part of one `allreduce` of its workers. Arguments as theirs."""
        self.prepare_serve(count, dtype, op=op, algorithm=algorithm).run()

    def prepare_serve(
        self, count: int, dtype: npt.DTypeLike, *, op: str = "sum", algorithm: str = "ps:dedicated"
    ) -> Operation:
        """A dedicated server's part of an all-reduce, to be run many times."""
        return Operation(self, checked_server(self, "allreduce", count, dtype), op=op, algorithm=algorithm)

    def _call(
        self,
        collective: str,
        send: Array | None,
        receive: Array | None,
        *,
        op: str = "sum",
        root: int = 0,
        algorithm: str,
    ) -> Any:
        """Run a collective once; what was prepared for such buffers before is used again. Returns the output."""
        buffers = checked_buffers(self, collective, send, receive, root)
        key = (buffers.key, op, algorithm)
        try:
            operation = self._prepared.get(key)
        except TypeError:  # no text: refused below, by name
            operation = None
        if operation is None:
            operation = self._prepared[key] = Operation(self, buffers, op=op, algorithm=algorithm)
        operation.run_on(buffers)
        return buffers.receive

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

    def __repr__(self) -> str:
        return f"<Communicator: rank {self.rank} of {self.ranks}, transport {self.transport}>"

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
