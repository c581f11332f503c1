"""Gloo, through torch.distributed, over TCP on the loopback interface or between hosts."""

import importlib.util
from typing import Any

from pycomm.backends.protocol import (
    LIBRARY,
    Backend,
    Contender,
    Prepared,
    Request,
    unknown_wire_bytes,
)
from pycomm.buffers import Array
from pycomm.communicator import Communicator

_COPIES = "gloo reduces in place only: a copy of the input is part of the time"


class Gloo:
    """torch.distributed's ``all_reduce`` over the gloo backend. One process group a process, made at first use."""

    name = "gloo"

    def missing(self, comm: Communicator, device: str) -> str:
        """Without torch, with ranks as threads, or on a GPU."""
        if importlib.util.find_spec("torch") is None:
            return "torch is not installed: pip install 'pycomm[torch]'"
        if device != "cpu":
            return "gloo is measured on the CPU only"
        if comm.transport == "threads":
            return "torch.distributed has one rank a process, and these ranks are threads"
        return ""

    def unsupported(self, dtype: str, op: str) -> str:
        """Nothing."""
        return ""

    def contenders(self, ranks: int, algorithms: list[str], device: str) -> list[Contender]:
        """One: the library chooses its algorithm."""
        return [Contender(self.name, LIBRARY, "", ranks, unknown_wire_bytes)]

    def prepare(self, comm: Communicator, request: Request) -> Prepared:
        """``all_reduce``; for avg a sum and one division, for separate buffers a copy, inside the timed part."""
        import torch
        import torch.distributed as distributed

        if not distributed.is_initialized():
            _meet(comm, distributed)
        assert request.send is not None
        assert request.receive is not None
        operations = {
            "sum": distributed.ReduceOp.SUM,
            "avg": distributed.ReduceOp.SUM,
            "prod": distributed.ReduceOp.PRODUCT,
            "min": distributed.ReduceOp.MIN,
            "max": distributed.ReduceOp.MAX,
        }
        reduction = operations[request.op]
        receive = _tensor(torch, request.receive)
        send = None if request.send is request.receive else _tensor(torch, request.send)
        rounding = None if request.dtype.startswith(("float", "bfloat")) else "trunc"
        average = request.op == "avg"

        def run() -> None:
            if send is not None:
                receive.copy_(send)
            distributed.all_reduce(receive, reduction)
            if average:
                receive.div_(comm.ranks, rounding_mode=rounding)

        return Prepared(run, warnings=() if send is None else (_COPIES,))


def _meet(comm: Communicator, distributed: Any) -> None:
    from datetime import timedelta

    world = comm.world
    patience = timedelta(seconds=world.timeout)
    host = world.members[0]["host"] if len({member["host"] for member in world.members}) > 1 else "127.0.0.1"
    store = None
    if comm.rank == 0:
        store = distributed.TCPStore(host, 0, comm.ranks, is_master=True, timeout=patience, wait_for_workers=False)
    port = world.broadcast(None if store is None else store.port)
    if store is None:
        store = distributed.TCPStore(host, port, comm.ranks, is_master=False, timeout=patience, wait_for_workers=False)
    distributed.init_process_group("gloo", store=store, rank=comm.rank, world_size=comm.ranks, timeout=patience)


def _tensor(torch: Any, array: Array) -> Any:
    """The tensor that shares the array's memory."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(array)


BACKEND: Backend = Gloo()
