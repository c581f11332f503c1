"""An all-reduce on GPU arrays, prepared once and launched many times."""

from __future__ import annotations

from typing import Any, cast

from pycomm.algorithms import parse_algorithm
from pycomm.communicator import QUEUE_BYTES, Communicator
from pycomm.cuda.interface import DeviceArray, device_array, is_default_stream, stream_handle
from pycomm.cuda.probe import cuda_module, missing_device
from pycomm.errors import DeviceError, Unavailable, UsageError
from pycomm.operation import OPS

SHOTS = {"one-shot": 1, "two-shot": 2}  # kernels without a schedule, with the numbers of mesh and direct
LANES = 16


class DeviceAllreduce:
    """An all-reduce of GPU arrays by pycomm's kernels; made by all ranks together.

    The ranks are processes of one host (memory is shared by CUDA IPC) or threads of one process. Ranks on one GPU are
    launched side by side, so each needs a stream of its own that is not a default stream.

    comm: the communicator that the ranks find each other by.
    device: the device number of this rank's arrays in this process.
    send, receive: arrays with ``__cuda_array_interface__`` on it; one array: in place.
    algorithm: a registry name with options, ``"one-shot"`` or ``"two-shot"``.

    Raises Unavailable if there is no GPU or no path between two, UsageError for arrays that do not fit or lanes that
    cannot be resident together, DeviceError if CUDA fails.
    """

    def __init__(
        self,
        comm: Communicator,
        send: Any,
        receive: Any = None,
        *,
        device: int,
        op: str = "sum",
        algorithm: str = "ring",
    ) -> None:
        if reason := missing_device():
            raise Unavailable(reason)
        where = f"rank {comm.rank} of {comm.ranks}: allreduce"
        if op not in OPS:
            raise UsageError(f"{where}: op is {op!r}, needs one of {', '.join(OPS)}")
        self.send, self.receive = checked_arrays(where, send, send if receive is None else receive)
        self._where = where
        self._cuda: Any = cast(Any, cuda_module())
        self._keep = (send, receive)
        uuids = comm.world.allgather(self._cuda.devices()[device]["uuid"])
        self._sharing = uuids.count(uuids[comm.rank])
        self.native = self._make(comm, device, op, algorithm)
        self._peers = self._connect(comm, device)

    def _make(self, comm: Communicator, device: int, op: str, algorithm: str) -> Any:
        common = {
            "device": device,
            "ranks": comm.ranks,
            "rank": comm.rank,
            "dtype": self.send.dtype,
            "op": op,
            "count": self.send.count,
            "patience_s": comm.world.timeout,
            "sharing": self._sharing if comm.transport == "threads" else 1,
        }
        if algorithm in SHOTS:
            return self._cuda.ShotOperation(hops=SHOTS[algorithm], **common)
        chosen = parse_algorithm(algorithm)
        return self._cuda.EngineOperation(
            algorithm=chosen.name,
            options=dict(chosen.options),
            collective="allreduce",
            root=0,
            in_place=self.send.address == self.receive.address,
            queue_bytes=QUEUE_BYTES,
            lanes=LANES,
            **common,
        )

    def _connect(self, comm: Communicator, device: int) -> list[Any]:
        """Map every rank's arena here. Returns what must live as long as the operation."""
        arena = self.native.arena
        if comm.transport == "threads":
            found = comm.world.allgather((arena.address, device))
            for _, peer in found:
                self._cuda.enable_peer_access(device, peer)
            self.native.connect([address for address, _ in found])
            return []
        handles = comm.world.allgather(arena.handle())
        peers = [
            None if rank == comm.rank else self._cuda.PeerMemory(device, handle) for rank, handle in enumerate(handles)
        ]
        self.native.connect([arena.address if peer is None else peer.address for peer in peers])
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
        """After the stream was synchronised: raises DeviceError, saying for what, if the kernel gave up waiting."""
        if failure := self.native.failure():
            raise DeviceError(f"{self._where}: the kernel gave up waiting for {failure}")


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
