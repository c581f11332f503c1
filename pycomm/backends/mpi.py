"""The MPI library's own Allreduce, through mpi4py, on the same buffers."""

from typing import Any

from pycomm import _core
from pycomm.backends.protocol import (
    LIBRARY,
    Backend,
    Contender,
    Prepared,
    Request,
    unknown_wire_bytes,
)
from pycomm.communicator import Communicator


class Mpi:
    """mpi4py's ``Allreduce`` over the world that mpirun or srun started."""

    name = "mpi"

    def missing(self, comm: Communicator, device: str) -> str:
        """Another launcher, or a GPU: mpi4py is handed only what any MPI can read."""
        if comm.ranks == 1:
            return "one rank is no MPI world"
        if comm.world.kind != "mpi":
            return "the ranks were not started by mpirun or srun"
        return "" if device == "cpu" else "arrays of a GPU are not given to MPI, which may not be able to read them"

    def unsupported(self, dtype: str, op: str) -> str:
        """The 16-bit floating types, which the MPI standard lacks."""
        return "MPI has no such type" if dtype in ("bfloat16", "float16") else ""

    def contenders(self, ranks: int, algorithms: list[str], device: str) -> list[Contender]:
        """One: the library chooses its algorithm."""
        return [Contender(self.name, LIBRARY, "", ranks, unknown_wire_bytes)]

    def prepare(self, comm: Communicator, request: Request) -> Prepared:
        """``Allreduce``; for avg a sum and one division by the number of ranks, inside the timed part."""
        from mpi4py import MPI

        assert request.send is not None
        assert request.receive is not None
        operations = {"sum": MPI.SUM, "avg": MPI.SUM, "prod": MPI.PROD, "min": MPI.MIN, "max": MPI.MAX}
        reduction, receive = operations[request.op], request.receive
        send: Any = MPI.IN_PLACE if request.send is receive else request.send
        allreduce = MPI.COMM_WORLD.Allreduce
        if request.op != "avg":
            return Prepared(lambda: allreduce(send, receive, reduction))

        def average() -> None:
            allreduce(send, receive, reduction)
            _core.scale_array(receive, comm.ranks)

        return Prepared(average)


BACKEND: Backend = Mpi()
