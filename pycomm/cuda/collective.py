"""A collective on GPU arrays, prepared once and launched many times."""

from __future__ import annotations

import os
from typing import Any, Final, cast

from pycomm.algorithms import AUTO, parse_algorithm, registry
from pycomm.collectives import COLLECTIVES
from pycomm.communicator import QUEUE_BYTES, Communicator
from pycomm.cuda.interface import DeviceArray, device_array, is_default_stream, stream_handle
from pycomm.cuda.placement import missing_for_ranks, sharing_warnings
from pycomm.cuda.probe import cuda_module
from pycomm.errors import TransportError, Unavailable, UsageError
from pycomm.operation import OPS
from pycomm.world import World

# Kernels without a schedule, and the schedules whose numbers and bytes are theirs.
SHOTS: Final = {"one-shot": "mesh", "two-shot": "direct"}
# Lanes that segments are dealt to at most: the first of these that can be resident together on every rank's device. A
# kernel without a schedule has blocks instead, and twice as many.
LANES: Final = (16, 8, 4, 2, 1)
# Bytes that a link moves while a message is on its way: 1 µs at NVLink 4's 450 GB/s. By the model, not measured.
_LATENCY_BYTES: Final = 450_000

Nanoseconds = Any  # an array of int64


class DeviceOperation:
    """A collective of GPU arrays by pycomm's kernels; made, and closed, by all ranks together.

    The ranks are processes of one host (memory is shared by CUDA IPC) or threads of one process. Ranks on one GPU are
    launched side by side, so each needs a stream of its own that is not a default stream.

    comm: the communicator that the ranks find each other by.
    device: the device number of this rank's arrays in this process.
    send, receive: arrays with ``__cuda_array_interface__`` on it. One array: in place, the larger buffer. On a
        dedicated server None, and `count` elements of `dtype` instead.
    collective: ``"allreduce"``, ``"reduce_scatter"``, ``"allgather"``, ``"broadcast"``, ``"reduce"`` or ``"alltoall"``.
    algorithm: a registry name with options; for all-reduce also ``"one-shot"`` and ``"two-shot"``; or ``"auto"``.

    Raises Unavailable if there is no GPU, no path between two, or no room for its kernels to be resident together;
    UsageError for arrays that do not fit; DeviceError if CUDA fails. What one rank raises, all do.
    """

    def __init__(
        self,
        comm: Communicator,
        send: Any,
        receive: Any = None,
        *,
        device: int,
        collective: str = "allreduce",
        op: str = "sum",
        root: int = 0,
        algorithm: str = AUTO,
        count: int = 0,
        dtype: str = "float32",
    ) -> None:
        if reason := missing_for_ranks(comm):
            raise Unavailable(reason)
        self._where = f"rank {comm.rank} of {comm.ranks}: {collective}"
        self._comm = comm
        self._collective = collective
        self._op, self._root = op, root
        self._cuda: Any = cast(Any, cuda_module())
        self._keep = (send, receive)
        self._count, self._dtype = count, dtype
        self.send_address = self.receive_address = 0
        self.native: Any = None

        def check_buffers() -> tuple[bytes, bool]:
            if op not in OPS:
                raise UsageError(f"{self._where}: op is {op!r}, needs one of {', '.join(OPS)}")
            in_place = self._look_at(send, send if receive is None else receive)
            return self._cuda.devices()[device]["uuid"], in_place

        # A dedicated server does not know how its workers pass their buffers; rank 0, the root of all-reduce, is none.
        answers = comm.world.agree(check_buffers)
        uuids = [uuid for uuid, _ in answers]
        self._sharing = uuids.count(uuids[comm.rank])
        self._in_place = answers[root][1]
        self.algorithm = resolve_on_device(algorithm, comm.ranks, self._bytes, collective)
        self.warnings = sharing_warnings(comm, self._sharing)
        self._peers = self._connect(device)

    def _look_at(self, send: Any, receive: Any) -> bool:
        """Check the arrays and take from them what the kernels need. Returns whether they are one."""
        if send is None:
            return False
        facts, ranks, rank = COLLECTIVES[self._collective], self._comm.ranks, self._comm.rank
        given, result = checked_arrays(self._where, send, receive)
        in_place = given.address == result.address
        whole = given.count if in_place or facts.sends_blocks or not facts.receives_blocks else result.count
        if facts.in_blocks and whole % ranks:
            raise UsageError(
                f"{self._where}: the larger buffer has {whole} elements, needs a multiple of {ranks} ranks"
            )
        block = whole // ranks if facts.in_blocks else whole
        counts = (whole, whole) if in_place else (facts.send_count(block, ranks), facts.receive_count(block, ranks))
        if (given.count, result.count) != counts:
            raise UsageError(
                f"{self._where}: send and receive have {given.count} and {result.count} elements, need "
                f"{counts[0]} and {counts[1]}"
            )
        self._count, self._dtype = whole, given.dtype
        own = rank * block * (given.bytes // given.count if given.count else 0) if in_place and facts.in_blocks else 0
        self.send_address = given.address + (0 if facts.sends_blocks else own)
        self.receive_address = result.address + (0 if facts.receives_blocks else own)
        return in_place

    @property
    def _bytes(self) -> int:
        return DeviceArray(0, self._count, self._dtype, True, None).bytes

    @property
    def segments(self) -> int:
        """Messages that a chunk is cut into."""
        return 1 if self.algorithm in SHOTS else int(self.native.segments)

    def _make(self, device: int, lanes: int) -> Any:
        comm, algorithm = self._comm, self.algorithm
        common = {
            "device": device,
            "ranks": comm.ranks,
            "rank": comm.rank,
            "dtype": self._dtype,
            "op": self._op,
            "count": self._count,
            "patience_s": patience_of(comm.world),
            "sharing": self._sharing if comm.transport == "threads" else 1,
            "lanes": 2 * lanes if algorithm in SHOTS and lanes > 1 else lanes,
        }
        if algorithm in SHOTS:
            if self._collective != "allreduce":
                raise UsageError(f"{self._where}: {algorithm} is an all-reduce")
            if (needed := inbox_bytes(algorithm, comm.ranks, self._bytes)) > QUEUE_BYTES:
                raise Unavailable(
                    f"{algorithm} keeps whole messages: {needed} bytes of inbox a rank, more than the {QUEUE_BYTES} "
                    f"that queues may have; {SHOTS[algorithm]} moves the same in parts"
                )
            return self._cuda.ShotOperation(hops=1 if algorithm == "one-shot" else 2, **common)
        chosen = parse_algorithm(algorithm)
        return self._cuda.EngineOperation(
            algorithm=chosen.name,
            options=dict(chosen.options),
            collective=self._collective,
            root=self._root,
            in_place=self._in_place,
            queue_bytes=QUEUE_BYTES,
            tma=wants_tma(),
            **common,
        )

    def _connect(self, device: int) -> list[Any]:
        """Make every rank's operation and map its arena here. Returns what must live as long as the operation.

        Ends when all ranks are connected: whoever launched sooner would have a kernel wait for a rank whose allocations
        wait for all kernels of the device.
        """
        comm = self._comm
        peers: list[Any] = []

        def make() -> tuple[Any, int]:
            self.native = self._make(device, lanes)
            arena = self.native.arena
            return arena.address if comm.transport == "threads" else arena.handle(), device

        for lanes in LANES:
            try:
                found = comm.world.agree(make)
                break
            except Unavailable:
                self.native = None
                if lanes == LANES[-1]:
                    raise

        def connect() -> None:
            addresses = []
            for rank, (place, peer) in enumerate(found):
                if comm.transport == "threads":
                    self._cuda.enable_peer_access(device, peer)
                    addresses.append(place)
                elif rank == comm.rank:
                    addresses.append(self.native.arena.address)
                else:
                    peers.append(self._cuda.PeerMemory(device, place))
                    addresses.append(peers[-1].address)
            self.native.connect(addresses)

        comm.world.agree(connect)
        return peers

    def launch(self, stream: Any = None) -> None:
        """Put one call on the stream, which may be capturing a CUDA graph. All ranks do so.

        Raises UsageError for a default stream where ranks share a GPU from one process: they would wait for each
        other for ever.
        """
        self.native.launch(self.send_address, self.receive_address, self._handle(stream))

    def _handle(self, stream: Any) -> int:
        handle = stream_handle(stream, f"{self._where}: stream")
        if self._sharing > 1 and is_default_stream(handle):
            raise UsageError(f"{self._where}: ranks that share a GPU need a stream each, not a default stream")
        return handle

    def check(self) -> None:
        """After the stream was synchronised: raises TransportError, saying for what, if the kernel gave up waiting."""
        if failure := self.native.failure():
            raise TransportError(f"{self._where}: the kernel gave up waiting for {failure}")

    def time(
        self,
        stream: Any,
        samples: int,
        batch: int,
        *,
        graph: bool = False,
        barrier: Any = None,
        barrier_each: bool = True,
    ) -> tuple[Nanoseconds, Nanoseconds]:
        """Nanoseconds of `samples` samples of `batch` calls each, by events on the stream and by the host's clock.

        graph: a sample's calls are captured once and launched as one CUDA graph.
        barrier: called before each sample, or before the first alone, while this rank has nothing in flight:
            ``comm.barrier_native``, which does not take the interpreter's lock, or any function.

        Raises TransportError if a peer was waited for in vain.
        """
        times: tuple[Nanoseconds, Nanoseconds] = self.native.time(
            self.send_address,
            self.receive_address,
            self._handle(stream),
            samples=samples,
            batch=batch,
            graph=graph,
            barrier=barrier,
            barrier_each=barrier_each,
        )
        self.check()
        return times

    def close(self) -> None:
        """Release the memory. Nothing may be in flight; a peer's memory is let go before its owner releases it."""
        self._peers.clear()
        self._comm.world.barrier()
        self.native = None


def patience_of(world: World) -> float:
    """Seconds that a kernel waits for a peer before it gives up."""
    return world.timeout


def wants_tma() -> bool:
    """Whether PYCOMM_TMA asks for Hopper's bulk copies, by its Tensor Memory Accelerator.

    Raises UsageError for a value that says neither yes nor no.
    """
    text = os.environ.get("PYCOMM_TMA", "0")
    if text not in ("0", "1"):
        raise UsageError(f"PYCOMM_TMA is {text!r}, needs 0 or 1")
    return text == "1"


def resolve_on_device(algorithm: str, ranks: int, size: int, collective: str = "allreduce") -> str:
    """What ``auto`` stands for; any other name as it is. `size` in bytes.

    One hop while the bytes it sends more than two hops do, (p − 1)(1 − 2/p) times the size and twice that in lines,
    take no longer than a hop; then two, while their inbox may be had; then `direct`, the same in parts. Other
    collectives have the registry's first.
    """
    if algorithm != AUTO:
        return algorithm
    if collective != "allreduce":
        return next(row.name for row in registry() if collective in row.collectives)
    more = 2 * size * (ranks - 1) * (ranks - 2) / ranks
    if more <= _LATENCY_BYTES and inbox_bytes("one-shot", ranks, size) <= QUEUE_BYTES:
        return "one-shot"
    return "two-shot" if inbox_bytes("two-shot", ranks, size) <= QUEUE_BYTES else "direct"


def inbox_bytes(shot: str, ranks: int, size: int) -> int:
    """Bytes that a kernel keeps at a rank for a buffer of `size` bytes: an inbox of two halves, used in turn."""
    return 2 * ranks * size if shot == "one-shot" else 4 * size


def checked_arrays(where: str, send: Any, receive: Any) -> tuple[DeviceArray, DeviceArray]:
    """Both arrays, fit for a collective. Raises UsageError, naming the argument, found and wanted."""
    given, result = device_array(send, f"{where}: send"), device_array(receive, f"{where}: receive")
    if not result.writable:
        raise UsageError(f"{where}: receive is read-only, needs a writable array")
    if result.dtype != given.dtype:
        raise UsageError(f"{where}: receive has dtype {result.dtype}, needs {given.dtype} as send has")
    first, second = sorted((given, result), key=lambda array: array.address)
    if first.address < second.address < first.address + first.bytes:
        raise UsageError(f"{where}: send and receive overlap in part, need to be one array or apart")
    return given, result
