"""Measuring which algorithm is the fastest at each size: all of them in turn, so that a slow moment hits all."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pycomm import _core
from pycomm.algorithms import Algorithm, registry
from pycomm.buffers import checked_buffers
from pycomm.collectives import COLLECTIVES
from pycomm.communicator import Communicator
from pycomm.operation import Operation
from pycomm.tuning import ORDINARY, SYMMETRIC, Case, Tuned, choice_from
from pycomm.units import NANOSECONDS_A_SECOND

ROUNDS: Final = 5
_WARMUP: Final = 3
_ITEM: Final = 4  # bytes of float32
_MOST_SAMPLES: Final = 2000


@dataclass(frozen=True)
class Search:
    """What to tune: `sizes` in bytes; no `algorithms`, all that apply. `seconds` is the time of one at one size."""

    collectives: tuple[str, ...]
    buffers: tuple[str, ...]
    sizes: tuple[int, ...]
    algorithms: tuple[str, ...] = ()
    seconds: float = 0.05


def candidates(collective: str, ranks: int) -> tuple[str, ...]:
    """The algorithms that apply: each row as it is, and with as many servers as ranks."""
    names = [row.name for row in registry() if collective in row.collectives]
    found = [name for name in names if Algorithm(name).applies(ranks, collective) is None]
    if "ps" in found and ranks > 1:
        found.append(f"ps:servers={ranks}")
    return tuple(found)


def tune(comm: Communicator, search: Search) -> Iterator[Tuned]:
    """Measure case after case; all ranks call it together and get the same. Yields each as it is done."""
    for collective in search.collectives:
        # Threads reach every array: there it is one kind, measured once.
        for kind, buffers in {_kind(comm, buffers): buffers for buffers in search.buffers}.items():
            case = Case(collective, comm.ranks, comm.transport, kind)
            algorithms = search.algorithms or candidates(collective, comm.ranks)
            measured_s = {
                bytes: dict(zip(algorithms, seconds, strict=True))
                for bytes, seconds in _measure(comm, case, buffers, algorithms, search)
            }
            yield Tuned(case, choice_from(measured_s), measured_s)


def _kind(comm: Communicator, buffers: str) -> str:
    """What `auto` takes such buffers for."""
    symmetric = checked_buffers(comm, "allreduce", _filled(comm, 1, buffers), None).symmetric
    return SYMMETRIC if symmetric else ORDINARY


def _measure(
    comm: Communicator, case: Case, buffers: str, algorithms: Sequence[str], search: Search
) -> Iterator[tuple[int, list[float]]]:
    facts = COLLECTIVES[case.collective]
    blocks = sorted({max(1, size // (_ITEM * (comm.ranks if facts.in_blocks else 1))) for size in search.sizes})
    for block in blocks:
        send, receive = (
            _filled(comm, count, buffers)
            for count in (facts.send_count(block, comm.ranks), facts.receive_count(block, comm.ranks))
        )
        passed = checked_buffers(comm, case.collective, send, receive)
        operations = [Operation(comm, passed, algorithm=algorithm) for algorithm in algorithms]
        yield facts.total(block, comm.ranks) * _ITEM, _medians(comm, operations, search.seconds)


def _filled(comm: Communicator, count: int, buffers: str) -> np.ndarray:
    array = comm.empty(count) if buffers == SYMMETRIC else np.empty(count, np.float32)
    array[:] = 0
    return array


def _medians(comm: Communicator, operations: Sequence[Operation], seconds: float) -> list[float]:
    """Seconds of each operation: the median over its rounds' samples, each that of the slowest rank."""

    def sample(operation: Operation, samples: int) -> np.ndarray:
        elapsed_ns = np.empty(samples, np.int64)
        _core.time_loop(operation.native, comm.barrier_native, True, elapsed_ns, 1)
        return elapsed_ns

    samples = []
    for operation in operations:
        sample(operation, _WARMUP)
        slowest_ns = max(comm.world.allgather(float(np.median(sample(operation, _WARMUP)))))
        most = seconds * NANOSECONDS_A_SECOND / ROUNDS / max(slowest_ns, 1.0)
        samples.append(max(1, min(_MOST_SAMPLES, int(most))))
    taken: list[list[np.ndarray]] = [[] for _ in operations]
    for _ in range(ROUNDS):
        for operation, count, kept in zip(operations, samples, taken, strict=True):
            kept.append(sample(operation, count))
    by_rank = comm.world.allgather([np.concatenate(kept) for kept in taken])
    return [
        float(np.median(np.max([ranks_own[index] for ranks_own in by_rank], axis=0))) / NANOSECONDS_A_SECOND
        for index in range(len(operations))
    ]
