"""The ranks of pycomm: a prepared all-reduce, timed by the native loop or by the loop in Python.

``python -m peers.rank_pycomm SOCKET BARRIER LARGEST_COUNT BARRIER_LIBRARY RANKS``. A variant is
``LANGUAGE/BUFFERS/ALGORITHM``, as in ``c/symmetric/mesh``.
"""

import sys
from functools import lru_cache

import numpy as np

import pycomm
from peers.rank import Floats, load_barrier, pin_to_core, time_calls, wrong_elements
from peers.wire import Answer, Nanoseconds, Request, serve
from pycomm import _core
from pycomm.communicator import Communicator
from pycomm.operation import Operation


class Measuring:
    """One rank: its buffers, which live as long as it does, and the operations on them."""

    def __init__(self, comm: Communicator, largest: int, library: str, page: str) -> None:
        self._comm = comm
        # Only now: a communicator made on one core would think that its ranks share it.
        cores = pin_to_core(comm.rank)
        self._barrier = load_barrier(library, page, comm.rank, comm.ranks, cores)
        self._buffers: dict[str, tuple[Floats, Floats]] = {
            "ordinary": (np.empty(largest, np.float32), np.empty(largest, np.float32)),
            "symmetric": (comm.empty(largest), comm.empty(largest)),
        }
        # A few: every operation holds what the engine made for it.
        self._operation = lru_cache(maxsize=4)(self._prepare)

    def _prepare(self, buffers: str, algorithm: str, count: int) -> Operation:
        send, receive = self._buffers[buffers]
        return self._comm.prepare_allreduce(send[:count], receive[:count], algorithm=algorithm)

    def measure(self, request: Request) -> Answer:
        """Check if asked, then time. Raises ValueError for an algorithm that this world has not."""
        language, buffers, algorithm = request.variant.split("/")
        operation = self._operation(buffers, algorithm, request.count)
        send, receive = (buffer[: request.count] for buffer in self._buffers[buffers])
        wrong = None
        if request.check:
            wrong = wrong_elements(send, receive, self._comm.rank, self._comm.ranks, operation.run)
        if language == "python":
            return Answer(wrong, time_calls(request, self._barrier, operation.run))
        self._time_native(operation, request.warmup, request.batch)
        return Answer(wrong, self._time_native(operation, request.iterations, request.batch))

    def _time_native(self, operation: Operation, samples: int, batch: int) -> Nanoseconds:
        samples_ns = np.empty(samples, np.int64)
        _core.time_loop(operation.native, self._comm.barrier_native, True, samples_ns, batch)
        return samples_ns


def live(comm: Communicator, socket_path: str, page: str, largest: str, library: str) -> None:
    """One rank, from its first to its last request."""
    measuring = Measuring(comm, int(largest), library, page)
    serve(socket_path, comm.rank, f"pycomm {pycomm.__version__}", measuring.measure)


def main() -> None:
    """Started by the controller."""
    pycomm.run(live, ranks=int(sys.argv[5]), args=sys.argv[1:5])


if __name__ == "__main__":
    main()
