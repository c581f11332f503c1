"""Gloo, through torch.distributed, over TCP on the loopback interface or between hosts."""

import importlib.util
from collections.abc import Callable
from typing import Any, Final

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
from pycomm.errors import Unavailable

_COPIES: Final = {
    "allreduce": "gloo reduces in place only: a copy of the input is part of the time",
    "broadcast": "gloo broadcasts in place only: a copy of the root's input is part of the time",
    "reduce": "gloo's reduce writes over its input on every rank: a copy is part of the time",
}


class Gloo:
    """torch.distributed's ``all_reduce`` and its kin over gloo. One process group a process, made at first use."""

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

    def unsupported(self, request: Request) -> str:
        """All-to-all in place, whose results are wrong."""
        if request.collective == "alltoall" and request.in_place:
            return "gloo has no all-to-all in place"
        return ""

    def contenders(self, collective: str, root: int, ranks: int, algorithms: list[str], device: str) -> list[Contender]:
        """One: the library chooses its algorithm."""
        return [Contender(self.name, LIBRARY, "", ranks, unknown_wire_bytes)]

    def prepare(self, comm: Communicator, request: Request) -> Prepared:
        """The call of that name; for avg a sum and one division. What it needs copied is so inside the timed part."""
        import torch
        import torch.distributed as distributed

        if not distributed.is_initialized():
            _meet(comm, distributed)
        assert request.send is not None
        assert request.receive is not None
        send, receive = _tensor(torch, request.send), _tensor(torch, request.receive)
        call, result, copied = _call(torch, distributed, comm, request, send, receive)
        try:
            call()
        except RuntimeError as error:  # older releases lack some: "does not support reduce_scatter"
            raise Unavailable(f"gloo of torch {torch.__version__}: {str(error).splitlines()[0]}") from error
        rounding = None if request.dtype.startswith(("float", "bfloat")) else "trunc"
        average = request.op == "avg"

        def run() -> None:
            if copied:
                result.copy_(send)
            call()
            if average:
                result.div_(comm.ranks, rounding_mode=rounding)

        # All ranks warn of the copy, also those that make none: rank 0 alone writes.
        copies = request.collective == "reduce" or (request.collective in _COPIES and not request.in_place)
        return Prepared(run, warnings=(_COPIES[request.collective],) if copies else ())


def _call(
    torch: Any, distributed: Any, comm: Communicator, request: Request, send: Any, receive: Any
) -> tuple[Callable[[], object], Any, bool]:
    """The call, the tensor of its result, and whether the input is copied there first."""
    op, root, here = request.op or "sum", request.root, comm.rank == request.root
    reduction = {
        "sum": distributed.ReduceOp.SUM,
        "avg": distributed.ReduceOp.SUM,
        "prod": distributed.ReduceOp.PRODUCT,
        "min": distributed.ReduceOp.MIN,
        "max": distributed.ReduceOp.MAX,
    }[op]
    own = slice(comm.rank * request.count, (comm.rank + 1) * request.count)
    if request.collective == "reduce_scatter":
        result = receive[own] if request.in_place else receive
        return lambda: _newest(distributed, "reduce_scatter")(result, send, reduction), result, False
    if request.collective == "allgather":
        block = send[own] if request.in_place else send
        return lambda: _newest(distributed, "all_gather")(receive, block), receive, False
    if request.collective == "alltoall":
        return lambda: distributed.all_to_all_single(receive, send), receive, False
    if request.collective == "broadcast":
        return lambda: distributed.broadcast(receive, root), receive, here and not request.in_place
    if request.collective == "reduce":
        result = receive if here else torch.empty_like(send)
        return lambda: distributed.reduce(result, root, reduction), result, not (here and request.in_place)
    return lambda: distributed.all_reduce(receive, reduction), receive, not request.in_place


def _newest(distributed: Any, name: str) -> Any:
    """The call on whole tensors, under the name that this torch has it."""
    older = {"reduce_scatter": "reduce_scatter_tensor", "all_gather": "all_gather_into_tensor"}
    return getattr(distributed, f"{name}_single", None) or getattr(distributed, older[name])


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
