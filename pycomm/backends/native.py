"""pycomm's own algorithms, run by its engine."""

from collections.abc import Callable
from typing import Any

from pycomm.algorithms import AUTO, Algorithm, parse_algorithms, registry
from pycomm.backends.protocol import Backend, Contender, Prepared, Request, unknown_wire_bytes
from pycomm.buffers import checked_buffers
from pycomm.communicator import Communicator
from pycomm.cuda.collective import SHOTS, DeviceOperation
from pycomm.cuda.memory import device_stream
from pycomm.cuda.placement import device_of, missing_for_ranks
from pycomm.operation import Operation
from pycomm.schedules import schedule


class Native:
    """The engine: every algorithm of the registry; on a GPU its kernel, and the kernels without a schedule."""

    name = "native"

    def missing(self, comm: Communicator, device: str) -> str:
        """Nothing on the CPU; without a GPU, it."""
        return "" if device == "cpu" else missing_for_ranks(comm)

    def unsupported(self, request: Request) -> str:
        """Nothing: every collective, type and op."""
        return ""

    def contenders(self, collective: str, root: int, ranks: int, algorithms: list[str], device: str) -> list[Contender]:
        """One for each algorithm asked for; when none is, for every row of the registry that applies, and on a GPU for
        the kernels without a schedule."""
        kernels = tuple(SHOTS) if device == "cuda" and collective == "allreduce" else ()
        chosen = [algorithm for text in algorithms for algorithm in parse_algorithms(text, kernels=kernels)]
        if not chosen:
            rows = [Algorithm(row.name) for row in registry() if collective in row.collectives]
            chosen = [algorithm for algorithm in rows if algorithm.applies(ranks, collective) is None]
            chosen += [Algorithm(name) for name in kernels]
        return [_contender(algorithm, collective, root, ranks) for algorithm in chosen]

    def prepare(self, comm: Communicator, request: Request) -> Prepared:
        """The operation, checked; on a rank without buffers a dedicated server's part."""
        if request.device == "cuda":
            return _prepare_on_device(comm, request)
        if request.send is None:
            operation = comm.prepare_serve(request.count, request.dtype, op=request.op, algorithm=request.algorithm)
        else:
            buffers = checked_buffers(comm, request.collective, request.send, request.receive, request.root)
            operation = Operation(comm, buffers, op=request.op or "sum", algorithm=request.algorithm)
        text = ":".join(filter(None, (operation.algorithm, operation.options)))
        took = _behind_auto(request, text, comm.ranks)
        return Prepared(operation.run, operation.native, operation.segments, took=took)


def _prepare_on_device(comm: Communicator, request: Request) -> Prepared:
    device = device_of(comm)
    operation = DeviceOperation(
        comm,
        request.send,
        request.receive,
        device=device,
        collective=request.collective,
        op=request.op or "sum",
        root=request.root,
        algorithm=request.algorithm,
        count=request.count,
        dtype=request.dtype,
    )
    stream = device_stream(comm, device)

    def run() -> None:
        operation.launch(stream)
        stream.synchronize()
        operation.check()

    def on_stream(samples: int, batch: int, graph: bool, barrier_each: bool) -> Any:
        barrier = comm.barrier_native
        return operation.time(stream, samples, batch, graph=graph, barrier=barrier, barrier_each=barrier_each)

    took = _behind_auto(request, operation.algorithm, comm.ranks)
    return Prepared(
        run, None, operation.segments, operation.warnings, on_stream=on_stream, took=took, close=operation.close
    )


def _behind_auto(request: Request, took: str, ranks: int) -> Contender | None:
    """What an operation that was asked for ``auto`` took; None for any other."""
    if request.algorithm != AUTO:
        return None
    return _contender(parse_algorithms(took, kernels=tuple(SHOTS))[0], request.collective, request.root, ranks)


def _contender(algorithm: Algorithm, collective: str, root: int, ranks: int) -> Contender:
    if algorithm.name == AUTO:
        return Contender("native", AUTO, "", ranks, unknown_wire_bytes)
    if algorithm.name in SHOTS:
        return Contender("native", algorithm.name, "", ranks, schedule(SHOTS[algorithm.name], ranks=ranks).wire_bytes)
    refusal = algorithm.applies(ranks, collective)
    name, _, options = str(algorithm).partition(":")
    if refusal is not None:
        return Contender("native", name, options, 0, unknown_wire_bytes, refusal)
    built = schedule(str(algorithm), ranks=ranks, collective=collective, root=root)
    wire_bytes: Callable[[int, int], int | None] = built.wire_bytes
    return Contender("native", name, options, built.workers, wire_bytes)


BACKEND: Backend = Native()
