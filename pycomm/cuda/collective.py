"""An all-reduce on GPU arrays, prepared once and launched many times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from pycomm.algorithms import AUTO, parse_algorithm
from pycomm.communicator import QUEUE_BYTES, Communicator
from pycomm.cuda.interface import DeviceArray, device_array, is_default_stream, stream_handle
from pycomm.cuda.placement import missing_for_ranks, sharing_warnings
from pycomm.cuda.probe import cuda_module
from pycomm.errors import TransportError, Unavailable, UsageError
from pycomm.operation import OPS
from pycomm.world import World

# Kernels without a schedule, and the schedules whose numbers and bytes are theirs.
SHOTS: Final = {"one-shot": "mesh", "two-shot": "direct"}
LANES: Final = 16
# Bytes that a link moves while a message is on its way: 1 µs at NVLink 4's 450 GB/s. By the model, not measured.
_LATENCY_BYTES: Final = 450_000

Nanoseconds = Any  # an array of int64


class DeviceAllreduce:
    """An all-reduce of GPU arrays by pycomm's kernels; made, and closed, by all ranks together.

    The ranks are processes of one host (memory is shared by CUDA IPC) or threads of one process. Ranks on one GPU are
    launched side by side, so each needs a stream of its own that is not a default stream.

    comm: the communicator that the ranks find each other by.
    device: the device number of this rank's arrays in this process.
    send, receive: arrays with ``__cuda_array_interface__`` on it; one array: in place. On a dedicated server None, and
        `count` elements of `dtype` instead.
    algorithm: a registry name with options, ``"one-shot"``, ``"two-shot"``, or ``"auto"``: the one of these two, or of
        the registry, that the model of docs/gpu.md finds fastest.

    Raises Unavailable if there is no GPU, no path between two, or no room for its kernels to be resident together;
    UsageError for arrays that do not fit; DeviceError if CUDA fails.
    """

    def __init__(
        self,
        comm: Communicator,
        send: Any,
        receive: Any = None,
        *,
        device: int,
        op: str = "sum",
        algorithm: str = AUTO,
        count: int = 0,
        dtype: str = "float32",
    ) -> None:
        if reason := missing_for_ranks(comm):
            raise Unavailable(reason)
        where = f"rank {comm.rank} of {comm.ranks}: allreduce"
        if op not in OPS:
            raise UsageError(f"{where}: op is {op!r}, needs one of {', '.join(OPS)}")
        self.send = self.receive = DeviceArray(0, count, dtype, True, None)
        self._where = where
        self._comm = comm
        self._cuda: Any = cast(Any, cuda_module())
        self._keep = (send, receive)

        def check_buffers() -> tuple[bytes, bool]:
            if send is not None:
                self.send, self.receive = checked_arrays(where, send, send if receive is None else receive)
            return self._cuda.devices()[device]["uuid"], self.send.address == self.receive.address

        # A dedicated server does not know how its workers pass their buffers, and rank 0 is never one.
        answers = comm.world.agree(check_buffers)
        uuids = [uuid for uuid, _ in answers]
        self._sharing = uuids.count(uuids[comm.rank])
        self._in_place = answers[0][1]
        self.algorithm = resolve_on_device(algorithm, comm.ranks, self.send.bytes)
        self.warnings = sharing_warnings(comm, self._sharing)
        self.native: Any = None
        self._peers = self._connect(device, op)

    @property
    def segments(self) -> int:
        """Messages that a chunk is cut into."""
        return 1 if self.algorithm in SHOTS else int(self.native.segments)

    def _make(self, device: int, op: str) -> Any:
        comm, algorithm = self._comm, self.algorithm
        common = {
            "device": device,
            "ranks": comm.ranks,
            "rank": comm.rank,
            "dtype": self.send.dtype,
            "op": op,
            "count": self.send.count,
            "patience_s": patience_of(comm.world),
            "sharing": self._sharing if comm.transport == "threads" else 1,
        }
        if algorithm in SHOTS:
            if (needed := inbox_bytes(algorithm, comm.ranks, self.send.bytes)) > QUEUE_BYTES:
                raise Unavailable(
                    f"{algorithm} keeps whole messages: {needed} bytes of inbox a rank, more than the {QUEUE_BYTES} "
                    f"that queues may have; {SHOTS[algorithm]} moves the same in parts"
                )
            return self._cuda.ShotOperation(hops=1 if algorithm == "one-shot" else 2, **common)
        chosen = parse_algorithm(algorithm)
        return self._cuda.EngineOperation(
            algorithm=chosen.name,
            options=dict(chosen.options),
            collective="allreduce",
            root=0,
            in_place=self._in_place,
            queue_bytes=QUEUE_BYTES,
            lanes=LANES,
            **common,
        )

    def _connect(self, device: int, op: str) -> list[Any]:
        """Make every rank's operation and map its arena here. Returns what must live as long as the operation.

        Ends when all ranks are connected: whoever launched sooner would have a kernel wait for a rank whose allocations
        wait for all kernels of the device.
        """
        comm, peers = self._comm, []

        def make() -> tuple[Any, int]:
            self.native = self._make(device, op)
            arena = self.native.arena
            return arena.address if comm.transport == "threads" else arena.handle(), device

        found = comm.world.agree(make)

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
        handle = stream_handle(stream, f"{self._where}: stream")
        if self._sharing > 1 and is_default_stream(handle):
            raise UsageError(f"{self._where}: ranks that share a GPU need a stream each, not a default stream")
        self.native.launch(self.send.address, self.receive.address, handle)

    def check(self) -> None:
        """After the stream was synchronised: raises TransportError, saying for what, if the kernel gave up waiting."""
        if failure := self.native.failure():
            raise TransportError(f"{self._where}: the kernel gave up waiting for {failure}")

    def time(
        self, samples: int, batch: int, graph: bool = False, before: Callable[[], object] = lambda: None
    ) -> tuple[Nanoseconds, Nanoseconds]:
        """Nanoseconds of `samples` samples of `batch` calls each, by events on a stream and by the host's clock.

        graph: a sample's calls are captured once and launched as one CUDA graph.
        before: called before each sample, while this rank has nothing in flight: a barrier, for instance.

        Raises TransportError if a peer was waited for in vain.
        """
        times: tuple[Nanoseconds, Nanoseconds] = self.native.time(
            self.send.address, self.receive.address, samples=samples, batch=batch, graph=graph, before=before
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


def resolve_on_device(algorithm: str, ranks: int, size: int) -> str:
    """What ``auto`` stands for; any other name as it is. `size` in bytes.

    One hop while the bytes it sends more than two hops do, (p − 1)(1 − 2/p) times the size and twice that in lines,
    take no longer than a hop; then two, while their inbox may be had; then `direct`, the same in parts.
    """
    if algorithm != AUTO:
        return algorithm
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
    if result.count != given.count:
        raise UsageError(f"{where}: receive has {result.count} elements, needs {given.count} as send has")
    apart = abs(result.address - given.address)
    if 0 < apart < given.bytes:
        raise UsageError(f"{where}: send and receive overlap in part, need to be one array or apart")
    return given, result
