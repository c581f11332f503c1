"""The MPI library's own Allreduce, through mpi4py, on the same buffers."""

from collections.abc import Callable
from typing import Any

import numpy as np

from pycomm.backends.protocol import LIBRARY, Backend, Contender, Prepared, Request
from pycomm.communicator import Communicator
from pycomm.measure.elements import element_type
from pycomm.operation import Array


class Mpi:
    """mpi4py's ``Allreduce`` over the world that mpirun or srun started."""

    name = "mpi"

    def missing(self, comm: Communicator, device: str) -> str:
        """Another launcher, or a GPU: mpi4py is handed only what any MPI can read."""
        if comm.world.kind != "mpi":
            return "the ranks were not started by mpirun or srun"
        return "" if device == "cpu" else "arrays of a GPU are not given to MPI, which may not be able to read them"

    def unsupported(self, dtype: str, op: str) -> str:
        """The 16-bit floating types, which the MPI standard lacks."""
        return "MPI has no such type" if dtype in ("bfloat16", "float16") else ""

    def contenders(self, ranks: int, algorithms: list[str]) -> list[Contender]:
        """One: the library chooses its algorithm."""
        return [Contender(self.name, LIBRARY, "", ranks, lambda size: None)]

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
        divide = division(receive, comm.ranks)

        def average() -> None:
            allreduce(send, receive, reduction)
            divide()

        return Prepared(average)


def division(array: Array, divisor: int) -> Callable[[], object]:
    """Divides a float32, float64 or whole-number array in place: IEEE, or toward zero."""
    if array.dtype.kind == "f":
        by = array.dtype.type(divisor)
        return lambda: np.divide(array, by, out=array)
    if array.dtype.kind == "u" and divisor <= np.iinfo(array.dtype).max:
        return lambda: np.floor_divide(array, divisor, out=array)
    wide = element_type("int32" if array.dtype.itemsize == 1 else "int64")

    def toward_zero() -> None:
        values = array.astype(wide)
        array[:] = (values - np.fmod(values, divisor)) // divisor

    return toward_zero


BACKEND: Backend = Mpi()
