"""NCCL, through CuPy: one communicator a rank, kept from row to row. It moves arrays of GPUs only.

CuPy's ``cupy.cuda.nccl`` lets go of the interpreter's lock in every call, so ranks that are threads wait for each other
side by side. It imports where NCCL is missing, and says so in ``available``.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

import numpy as np

from pycomm.backends.protocol import (
    LIBRARY,
    Backend,
    Contender,
    Prepared,
    Request,
    unknown_wire_bytes,
)
from pycomm.communicator import Communicator
from pycomm.cuda.interface import device_array
from pycomm.cuda.memory import device_stream
from pycomm.cuda.placement import device_of, sharing_warnings
from pycomm.cuda.probe import cuda_module, missing_for_arrays
from pycomm.errors import Unavailable
from pycomm.world import World

# NCCL's own numbers (nccl.h), which CuPy's constants do not all have.
_TYPES: Final = {
    "int8": 0, "uint8": 1, "int32": 2, "int64": 4, "float16": 6, "float32": 7, "float64": 8, "bfloat16": 9,
}  # fmt: skip
_OPS: Final = {"sum": 0, "prod": 1, "max": 2, "min": 3, "avg": 4}
_MULTI_RANK_FROM: Final = 23000  # 2.30


def nccl_module() -> Any:
    """``cupy.cuda.nccl``. Raises Unavailable if CuPy has none."""
    try:
        module = importlib.import_module("cupy.cuda.nccl")
    except ImportError as error:
        raise Unavailable(f"CuPy has no NCCL ({error}): pip install 'pycomm[cuda]'") from None
    if not module.available:
        raise Unavailable("CuPy does not find NCCL (libnccl.so.2): pip install 'pycomm[cuda]'")
    return module


class Nccl:
    """NCCL's ``ncclAllReduce`` and its kin."""

    name = "nccl"

    def missing(self, comm: Communicator, device: str) -> str:
        """Without a GPU, CuPy or NCCL, everything."""
        if device != "cuda":
            return "NCCL moves arrays of GPUs only: --device cuda"
        if reason := missing_for_arrays():
            return reason
        try:
            nccl_module()
        except Unavailable as error:
            return str(error)
        return ""

    def unsupported(self, request: Request) -> str:
        """The types NCCL lacks, none of ours; and all-to-all in place."""
        if request.dtype not in _TYPES or request.op not in ("", *_OPS):
            return f"NCCL has no {request.op} of {request.dtype}"
        if request.collective == "alltoall" and request.in_place:
            return "NCCL has no all-to-all in place"
        return ""

    def contenders(self, collective: str, root: int, ranks: int, algorithms: list[str], device: str) -> list[Contender]:
        """One: the library chooses its algorithm."""
        return [Contender(self.name, LIBRARY, "", ranks, unknown_wire_bytes)]

    def prepare(self, comm: Communicator, request: Request) -> Prepared:
        """The call of that name on a stream of the rank's own. All ranks call it together."""
        if request.op == "avg" and "float" in request.dtype and comm.ranks & (comm.ranks - 1):
            raise Unavailable(
                f"NCCL's avg multiplies by 1/{comm.ranks} before it sums, which rounds otherwise than a division after "
                f"the sum: it can be verified for 2, 4, 8, … ranks only"
            )
        nccl, device = nccl_module(), device_of(comm)
        communicator, sharing = _join_once(comm, nccl, device)
        where = f"rank {comm.rank} of {comm.ranks}: {request.collective}"
        send = device_array(request.send, f"{where}: send")
        receive = device_array(request.receive, f"{where}: receive")
        stream = device_stream(comm, device)
        call = nccl_call(nccl, communicator, comm, request, send.address, receive.address)
        in_group = comm.transport == "threads"

        def enqueue(handle: int) -> None:
            if in_group:
                nccl.groupStart()
            call(handle)
            if in_group:
                nccl.groupEnd()

        def run() -> None:
            enqueue(stream.__cuda_stream__()[1])
            stream.synchronize()

        def on_stream(samples: int, batch: int, graph: bool, barrier_each: bool) -> Any:
            module: Any = cuda_module()
            return module.time_calls(
                device=device,
                stream=stream.__cuda_stream__()[1],
                call=enqueue,
                samples=samples,
                batch=batch,
                graph=graph,
                barrier=comm.barrier_native,
                barrier_each=barrier_each,
            )

        return Prepared(run, warnings=sharing_warnings(comm, sharing), on_stream=on_stream)


def nccl_call(
    nccl: Any, communicator: Any, comm: Communicator, request: Request, send: int, receive: int
) -> Callable[[int], object]:
    """NCCL's call for a request whose arrays lie at these addresses: it takes the handle of a stream."""
    count, dtype, root = request.count, _TYPES[request.dtype], request.root
    op = _OPS[request.op or "sum"]
    bytes = count * (2 if request.dtype == "bfloat16" else np.dtype(request.dtype).itemsize)
    own = comm.rank * bytes if request.in_place else 0  # in place the smaller buffer is this rank's block of the larger
    if request.collective == "reduce_scatter":
        return lambda stream: communicator.reduceScatter(send, receive + own, count, dtype, op, stream)
    if request.collective == "allgather":
        return lambda stream: communicator.allGather(send + own, receive, count, dtype, stream)
    if request.collective == "broadcast":
        return lambda stream: communicator.broadcast(send, receive, count, dtype, root, stream)
    if request.collective == "reduce":
        return lambda stream: communicator.reduce(send, receive, count, dtype, op, root, stream)
    if request.collective == "allreduce":
        return lambda stream: communicator.allReduce(send, receive, count, dtype, op, stream)

    def exchange(stream: int) -> None:  # CuPy has no all-to-all; NCCL's guide makes one of sends and receives
        nccl.groupStart()
        for peer in range(comm.ranks):
            communicator.send(send + peer * bytes, count, dtype, peer, stream)
            communicator.recv(receive + peer * bytes, count, dtype, peer, stream)
        nccl.groupEnd()

    return exchange


_joined: WeakKeyDictionary[Communicator, tuple[Any, int]] = WeakKeyDictionary()


def _join_once(comm: Communicator, nccl: Any, device: int) -> tuple[Any, int]:
    """This rank's communicator, the same for every row, and how many ranks are on its device."""
    if comm not in _joined:
        runtime = importlib.import_module("cupy.cuda.runtime")
        runtime.setDevice(device)  # NCCL takes the current device for the communicator's
        uuid = cast(Any, cuda_module()).devices()[device]["uuid"].hex()
        communicator = join_nccl(nccl, comm.world, uuid)
        _joined[comm] = communicator, comm.world.allgather(uuid).count(uuid)
    return _joined[comm]


def join_nccl(nccl: Any, world: World, uuid: str) -> Any:
    """This rank's ``NcclCommunicator``; all ranks call it together.

    Every rank says first whether it can take part, and rank 0's id follows only if all can: a rank that fails, rank 0
    too, leaves nobody waiting in NCCL. `uuid` tells the rank's device from every other, also across processes.

    Raises Unavailable on every rank, with the reason and the rank it comes from.
    """
    identifier, reason = None, ""
    try:
        version = nccl.get_version()
        if world.rank == 0:
            identifier = nccl.get_unique_id()
    except Exception as error:
        version, reason = 0, f"{type(error).__name__}: {error}"
    found = world.allgather((reason, version, uuid))
    for rank, (why, _, _) in enumerate(found):
        if why:
            raise Unavailable(f"rank {rank}: NCCL: {why}")
    uuids = [each for _, _, each in found]
    if refusal := sharing_refusal(uuids, min(each for _, each, _ in found)):
        raise Unavailable(refusal)
    identifier = world.broadcast(identifier)
    return nccl.NcclCommunicator(world.ranks, identifier, world.rank)


def sharing_refusal(uuids: list[str], version: int) -> str:
    """Why NCCL will not put these ranks on these devices; empty if it will. `version` as 23004 for 2.30.4."""
    shared = next((rank for rank, each in enumerate(uuids) if each in uuids[:rank]), None)
    if shared is None:
        return ""
    both = f"ranks {uuids.index(uuids[shared])} and {shared} share a GPU"
    if version < _MULTI_RANK_FROM:
        return f"{both}, which NCCL {version // 10000}.{version // 100 % 100} refuses; it can from 2.30"
    if os.environ.get("NCCL_MULTI_RANK_GPU_ENABLE") != "1":
        return f"{both}: NCCL asks for NCCL_MULTI_RANK_GPU_ENABLE=1 (experimental)"
    if os.environ.get("NCCL_NVLS_ENABLE") == "1":
        return f"{both}: NCCL_NVLS_ENABLE must not be 1"
    return ""


BACKEND: Backend = Nccl()
