"""pycomm's own algorithms, run by its engine."""

from pycomm.algorithms import parse_algorithm
from pycomm.backends.protocol import Backend, Contender, Prepared, Request
from pycomm.communicator import Communicator
from pycomm.cuda.probe import missing_for_arrays


class Native:
    """The engine: every algorithm of the registry."""

    name = "native"

    def missing(self, comm: Communicator, device: str) -> str:
        """Nothing on the CPU; without a GPU, it."""
        if device == "cpu":
            return ""
        return missing_for_arrays() or "pycomm bench does not run schedules on a GPU yet: make gpu-check measures them"

    def unsupported(self, dtype: str, op: str) -> str:
        """Nothing: every type, every op."""
        return ""

    def contenders(self, ranks: int, algorithms: list[str]) -> list[Contender]:
        """One for each algorithm, as asked for."""
        found = []
        for text in algorithms:
            algorithm = parse_algorithm(text)
            servers = algorithm.options.get("servers", 1) if "dedicated" in algorithm.options else 0
            found.append(
                Contender(self.name, algorithm.name, algorithm.options_text, ranks - servers, lambda size: None)
            )
        return found

    def prepare(self, comm: Communicator, request: Request) -> Prepared:
        """The operation, checked; on a rank without buffers a dedicated server's part."""
        if request.send is None:
            operation = comm.prepare_serve(request.count, request.dtype, op=request.op, algorithm=request.algorithm)
        else:
            operation = comm.prepare_allreduce(
                request.send, request.receive, op=request.op, algorithm=request.algorithm
            )
        return Prepared(operation.run, operation.native, operation.segments)


BACKEND: Backend = Native()
