"""How ranks find and speak to each other outside the measured path: a few small messages, rank 0 in the middle.

SingleWorld   one rank
ThreadWorld   ranks are threads of one process
SocketWorld   processes of one host, over sockets: local ranks, and torchrun
MpiWorld      under mpirun or srun, through mpi4py
"""

from __future__ import annotations

import abc
import os
import socket
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any

from pycomm.checks import check_positive
from pycomm.errors import Error, RankError, TransportError, UsageError

LONGEST_TIMEOUT_S = 1e9
Member = dict[str, Any]  # {"rank": int, "host": str, "pid": int}


def checked_timeout(timeout: float) -> float:
    """Seconds. Raises UsageError for what is no number of them above 0."""
    seconds = check_positive(timeout, "timeout")
    if seconds >= LONGEST_TIMEOUT_S:
        raise UsageError(f"timeout is {timeout!r}; it must be below {LONGEST_TIMEOUT_S:g} s")
    return seconds


class World(abc.ABC):
    """The ranks of one job. Every method but `abort` and `close` is called by all ranks, in the same order.

    Raises TransportError, naming the ranks concerned, when one is lost or silent for `timeout` seconds.
    """

    kind: str
    rank: int
    ranks: int
    timeout: float
    members: list[Member]

    @abc.abstractmethod
    def gather(self, value: Any, root: int = 0) -> list[Any] | None:
        """Every rank's value, by rank, on `root`; None elsewhere."""

    @abc.abstractmethod
    def broadcast(self, value: Any, root: int = 0) -> Any:
        """`root`'s value, on every rank."""

    def allgather(self, value: Any) -> list[Any]:
        """Every rank's value, by rank, on every rank."""
        gathered: list[Any] = self.broadcast(self.gather(value))
        return gathered

    def agree(self, make: Callable[[], Any]) -> list[Any]:
        """Every rank's ``make()``, by rank, on every rank; or, where one raised, its error on all.

        So a rank that cannot go on leaves nobody waiting for what it will never send. Raises the rank's own error, or
        one of the same class that names the first rank that failed: MemoryError for its subclasses, RankError for what
        is neither that nor an `Error`.
        """
        value, error = None, None
        try:
            value = make()
        except Exception as raised:
            error = raised
        answers = self.allgather((value, None if error is None else _in_words(error)))
        if error is not None:
            raise error
        for rank, (_, theirs) in enumerate(answers):
            if theirs is not None:
                kind, text = theirs
                raise kind(f"rank {rank}: {text}")
        return [value for value, _ in answers]

    def barrier(self) -> None:
        """Until all ranks are here."""
        self.allgather(None)

    def abort(self, message: str) -> None:  # noqa: B027  (some worlds cannot)
        """Tell the other ranks, as far as this world can, that this one gives up."""

    def close(self) -> None:  # noqa: B027  (some worlds hold nothing)
        """Leave the world."""

    def _meet(self) -> None:
        me = {"rank": self.rank, "host": socket.gethostname(), "pid": os.getpid()}
        self.members = self.allgather(me)


def _in_words(error: Exception) -> tuple[type[Exception], str]:
    """A class that is made from a text, and the text. NumPy's MemoryError is made from a shape and a type."""
    text = str(error) or type(error).__name__
    if isinstance(error, Error):
        return type(error), text
    if isinstance(error, MemoryError):
        return MemoryError, text
    return RankError, f"{type(error).__name__}: {error}"


class SingleWorld(World):
    """One rank."""

    kind = "single"

    def __init__(self) -> None:
        self.rank, self.ranks, self.timeout = 0, 1, 30.0
        self._meet()

    def gather(self, value: Any, root: int = 0) -> list[Any] | None:
        return [value]

    def broadcast(self, value: Any, root: int = 0) -> Any:
        return value


class Meeting:
    """What the ranks of a ThreadWorld share."""

    def __init__(self, ranks: int) -> None:
        self.barrier = threading.Barrier(ranks)
        self.values: list[Any] = [None] * ranks
        self.reason = ""


class ThreadWorld(World):
    """Ranks are threads of one process that hold the same Meeting."""

    kind = "threads"

    def __init__(self, rank: int, ranks: int, meeting: Meeting, timeout: float = 30.0) -> None:
        self.rank, self.ranks, self.timeout = rank, ranks, checked_timeout(timeout)
        self._meeting = meeting
        self._meet()

    def allgather(self, value: Any) -> list[Any]:
        self._meeting.values[self.rank] = value
        self._wait()
        values = list(self._meeting.values)
        self._wait()
        return values

    def gather(self, value: Any, root: int = 0) -> list[Any] | None:
        values = self.allgather(value)
        return values if self.rank == root else None

    def broadcast(self, value: Any, root: int = 0) -> Any:
        return self.allgather(value)[root]

    def abort(self, message: str) -> None:
        self._meeting.reason = self._meeting.reason or f"rank {self.rank} failed: {message}"
        self._meeting.barrier.abort()

    def _wait(self) -> None:
        try:
            self._meeting.barrier.wait(self.timeout)
        except threading.BrokenBarrierError:
            reason = self._meeting.reason or f"another rank was silent for {self.timeout:g} s"
            raise TransportError(f"rank {self.rank} of {self.ranks}: {reason}") from None


class SocketWorld(World):
    """Processes of one host: rank 0 holds a connection to each other rank, the others hold one to rank 0."""

    def __init__(
        self, rank: int, ranks: int, connections: dict[int, Connection], *, kind: str, timeout: float = 30.0
    ) -> None:
        self.kind, self.rank, self.ranks, self.timeout = kind, rank, ranks, checked_timeout(timeout)
        self._connections = connections  # by peer
        self.members = []
        self._meet()

    def gather(self, value: Any, root: int = 0) -> list[Any] | None:
        if root != 0:
            values = self.broadcast(self.gather(value))
            return values if self.rank == root else None
        if self.rank != 0:
            self._send(0, value)
            return None
        values = [value] + [None] * (self.ranks - 1)
        missing = set(self._connections)
        deadline = time.monotonic() + self.timeout
        while missing:
            by_connection = {self._connections[peer]: peer for peer in missing}
            ready = wait(list(by_connection), max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TransportError(f"{self._name(missing)} silent for {self.timeout:g} s; rank 0 waited")
            for connection in ready:
                peer = by_connection[connection]  # type: ignore[index]
                values[peer] = self._receive(peer)
                missing.discard(peer)
        return values

    def broadcast(self, value: Any, root: int = 0) -> Any:
        if root != 0:  # by way of rank 0
            values = self.gather(value if self.rank == root else None)
            value = values[root] if values is not None else None
        if self.rank == 0:
            for peer in self._connections:
                self._send(peer, value)
            return value
        if not self._connections[0].poll(self.timeout):
            raise TransportError(f"{self._name({0})} silent for {self.timeout:g} s; rank {self.rank} waited")
        return self._receive(0)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def _send(self, peer: int, value: Any) -> None:
        try:
            self._connections[peer].send(value)
        except OSError:
            raise TransportError(f"{self._name({peer})} is lost") from None

    def _receive(self, peer: int) -> Any:
        try:
            return self._connections[peer].recv()
        except (EOFError, OSError):
            raise TransportError(f"{self._name({peer})} is lost") from None

    def _name(self, peers: set[int]) -> str:
        """«rank 2 (host a, pid 17), rank 3 (host a, pid 18)»; before all have met, the ranks alone."""
        names = []
        for peer in sorted(peers):
            member = self.members[peer] if self.members else None
            names.append(f"rank {peer} (host {member['host']}, pid {member['pid']})" if member else f"rank {peer}")
        return ", ".join(names)


def meet_by_name(name: str, rank: int, ranks: int, *, kind: str, timeout: float = 30.0) -> SocketWorld:
    """The world of processes of one host and one user that know nothing but a name they share.

    Rank 0 listens on the abstract socket of that name, which no file stands for; the others connect to it. Raises
    TransportError naming the ranks that have not come within `timeout` seconds.
    """
    address = "\0" + name
    deadline = time.monotonic() + timeout
    if rank == 0:
        connections = _accept_all(address, ranks, deadline)
    else:
        connections = {0: _connect(address, rank, deadline)}
    return SocketWorld(rank, ranks, connections, kind=kind, timeout=timeout)


def _accept_all(address: str, ranks: int, deadline: float) -> dict[int, Connection]:
    connections: dict[int, Connection] = {}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(ranks)
        while len(connections) < ranks - 1:
            listener.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                accepted, _ = listener.accept()
            except TimeoutError:
                missing = sorted(set(range(1, ranks)) - set(connections))
                raise TransportError(f"did not start: ranks {', '.join(map(str, missing))}") from None
            if _peer_user(accepted) != os.getuid():
                accepted.close()
                continue
            accepted.setblocking(True)
            connection = Connection(accepted.detach())
            connections[connection.recv()] = connection
    return connections


def _connect(address: str, rank: int, deadline: float) -> Connection:
    while True:
        connecting = socket.socket(socket.AF_UNIX)
        try:
            connecting.connect(address)
        except (ConnectionRefusedError, FileNotFoundError):
            connecting.close()
            if time.monotonic() > deadline:
                raise TransportError("did not start: rank 0") from None
            time.sleep(0.01)
            continue
        connection = Connection(connecting.detach())
        connection.send(rank)
        return connection


def _peer_user(connected: socket.socket) -> int:
    credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(credentials[4:8], "little")


class MpiWorld(World):
    """The ranks of an MPI job. `communicator` is an mpi4py communicator; MPI_COMM_WORLD unless given."""

    kind = "mpi"

    def __init__(self, communicator: Any = None, timeout: float = 30.0) -> None:
        from mpi4py import MPI

        self._communicator = communicator if communicator is not None else MPI.COMM_WORLD
        self.rank = self._communicator.Get_rank()
        self.ranks = self._communicator.Get_size()
        self.timeout = checked_timeout(timeout)
        self._meet()

    def gather(self, value: Any, root: int = 0) -> list[Any] | None:
        self._wait_for_all()
        gathered: list[Any] | None = self._communicator.gather(value, root)
        return gathered

    def broadcast(self, value: Any, root: int = 0) -> Any:
        self._wait_for_all()
        return self._communicator.bcast(value, root)

    def abort(self, message: str) -> None:
        self._communicator.Abort(1)

    def _wait_for_all(self) -> None:
        """MPI's collectives wait for ever, so come to them only when every rank has."""
        request = self._communicator.Ibarrier()
        deadline = time.monotonic() + self.timeout
        pause = 0.0
        while not request.Test():
            if time.monotonic() > deadline:
                raise TransportError(
                    f"rank {self.rank} of {self.ranks}: another rank was silent for {self.timeout:g} s"
                )
            time.sleep(pause)
            pause = min(0.001, pause + 0.00001)
