"""pycomm's own algorithms, run by its engine."""

from collections.abc import Callable

from pycomm.algorithms import Algorithm, parse_algorithm, registry
from pycomm.backends.protocol import Backend, Contender, Prepared, Request, unknown_wire_bytes
from pycomm.communicator import Communicator
from pycomm.cuda.probe import missing_for_arrays
from pycomm.schedules import schedule


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
        """One for each algorithm asked for; when none is, for every row of the registry that applies."""
        chosen = [parse_algorithm(text, "--algorithms") for text in algorithms]
        if not chosen:
            rows = [Algorithm(row.name) for row in registry() if "allreduce" in row.collectives]
            chosen = [algorithm for algorithm in rows if algorithm.applies(ranks) is None]
        return [_contender(algorithm, ranks) for algorithm in chosen]

    def prepare(self, comm: Communicator, request: Request) -> Prepared:
        """The operation, checked; on a rank without buffers a dedicated server's part."""
        if request.send is None:
            operation = comm.prepare_serve(request.count, request.dtype, op=request.op, algorithm=request.algorithm)
        else:
            operation = comm.prepare_allreduce(
                request.send, request.receive, op=request.op, algorithm=request.algorithm
            )
        return Prepared(operation.run, operation.native, operation.segments)


def _contender(algorithm: Algorithm, ranks: int) -> Contender:
    refusal = algorithm.applies(ranks)
    name, _, options = str(algorithm).partition(":")
    if refusal is not None:
        return Contender("native", name, options, 0, unknown_wire_bytes, refusal)
    built = schedule(str(algorithm), ranks=ranks)
    wire_bytes: Callable[[int, int], int | None] = built.wire_bytes
    return Contender("native", name, options, built.workers, wire_bytes)


BACKEND: Backend = Native()
