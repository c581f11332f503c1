"""The MPI library's own collectives, through mpi4py, on the same buffers."""

from collections.abc import Callable
from typing import Any

import numpy as np

from pycomm import _core
from pycomm.backends.protocol import (
    LIBRARY,
    Backend,
    Contender,
    Prepared,
    Request,
    unknown_wire_bytes,
)
from pycomm.collectives import COLLECTIVES
from pycomm.communicator import Communicator

_COPIES = "MPI broadcasts in place only: a copy of the root's input is part of the time"


class Mpi:
    """mpi4py's ``Allreduce`` and its kin over the world that mpirun or srun started."""

    name = "mpi"

    def missing(self, comm: Communicator, device: str) -> str:
        """Another launcher, or a GPU: mpi4py is handed only what any MPI can read."""
        if comm.ranks == 1:
            return "one rank is no MPI world"
        if comm.world.kind != "mpi":
            return "the ranks were not started by mpirun or srun"
        return "" if device == "cpu" else "arrays of a GPU are not given to MPI, which may not be able to read them"

    def unsupported(self, request: Request) -> str:
        """Reductions of 16-bit floating types, which the MPI standard lacks; reduce-scatter in place as we have it."""
        if request.dtype in ("bfloat16", "float16") and COLLECTIVES[request.collective].reduces:
            return "MPI has no such type"
        if request.collective == "reduce_scatter" and request.in_place:
            return "MPI's reduce-scatter in place leaves each rank's result in the first block, not in its own"
        return ""

    def contenders(self, collective: str, root: int, ranks: int, algorithms: list[str], device: str) -> list[Contender]:
        """One: the library chooses its algorithm."""
        return [Contender(self.name, LIBRARY, "", ranks, unknown_wire_bytes)]

    def prepare(self, comm: Communicator, request: Request) -> Prepared:
        """The call of that name; for avg a sum and one division by the number of ranks, inside the timed part."""
        from mpi4py import MPI

        receive = request.receive
        assert receive is not None
        call = _call(MPI, comm, request)
        has_result = request.collective != "reduce" or comm.rank == request.root
        copies = request.collective == "broadcast" and not request.in_place
        warnings = (_COPIES,) if copies else ()
        if request.op != "avg" or not has_result:
            return Prepared(call, warnings=warnings)

        def average() -> None:
            call()
            _core.scale_array(receive, comm.ranks)

        return Prepared(average)


def _call(mpi: Any, comm: Communicator, request: Request) -> Callable[[], object]:
    """The call without the division of avg."""
    world, root = mpi.COMM_WORLD, request.root
    send, receive = request.send, request.receive
    assert send is not None
    assert receive is not None
    if not COLLECTIVES[request.collective].reduces and request.dtype in ("bfloat16", "float16"):
        send, receive = send.view(np.uint16), receive.view(np.uint16)
    given: Any = mpi.IN_PLACE if request.in_place else send
    if request.collective == "allgather":
        return lambda: world.Allgather(given, receive)
    if request.collective == "alltoall":
        return lambda: world.Alltoall(given, receive)
    if request.collective == "broadcast":
        if request.in_place or comm.rank != root:
            return lambda: world.Bcast(receive, root)

        def copy_and_send() -> None:
            receive[:] = send
            world.Bcast(receive, root)

        return copy_and_send
    operations = {"sum": mpi.SUM, "avg": mpi.SUM, "prod": mpi.PROD, "min": mpi.MIN, "max": mpi.MAX}
    reduction = operations[request.op]
    if request.collective == "reduce":
        if comm.rank != root:
            return lambda: world.Reduce(send, None, reduction, root)
        return lambda: world.Reduce(given, receive, reduction, root)
    if request.collective == "reduce_scatter":
        return lambda: world.Reduce_scatter_block(given, receive, reduction)
    return lambda: world.Allreduce(given, receive, reduction)


BACKEND: Backend = Mpi()
