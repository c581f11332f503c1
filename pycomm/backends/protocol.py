"""What a backend offers to the drivers, and what it is asked for."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pycomm.communicator import Communicator

LIBRARY = "library"  # the algorithm's name where a library chooses for itself


@dataclass(frozen=True)
class Request:
    """A collective to prepare, on arrays of one dimension.

    `count` is that of a block (collectives.py). In place `send` and `receive` are one array, the larger buffer. A
    dedicated server has none; every other rank has both, used or not. `op` is empty where there is none.
    On `device` "cpu" they are NumPy's, on "cuda" arrays with the CUDA array interface on the rank's GPU.
    """

    collective: str
    algorithm: str
    op: str
    root: int
    dtype: str
    count: int
    in_place: bool
    device: str = "cpu"
    send: Any = None
    receive: Any = None


@dataclass(frozen=True)
class Contender:
    """An entrant of a sweep: a backend's algorithm with its options, and how many of the ranks contribute.

    ``wire_bytes(bytes, itemsize)`` gives the wire bytes of the busiest rank, None where nobody knows. `refusal`
    says why there are no workers.
    """

    backend: str
    algorithm: str
    options: str
    workers: int
    wire_bytes: Callable[[int, int], int | None]
    refusal: str = ""

    @property
    def text(self) -> str:
        """As it is written on the command line: ``ps:servers=2``."""
        return f"{self.algorithm}:{self.options}" if self.options else self.algorithm


# (samples, batch, graph, barrier before each) -> this rank's elapsed nanoseconds of each sample: by events on the
# stream, and by the host's clock
TimeOnStream = Callable[[int, int, bool, bool], tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]


@dataclass(frozen=True)
class Prepared:
    """An operation ready to run, to its end.

    With `native`, a `_core.Runnable`, it is timed by the loop in C++; with `on_stream`, by events on a GPU's stream and
    by the host's clock. `took` is what stands behind ``auto``. `close` is called by all ranks together when the row is
    done.
    """

    run: Callable[[], object]
    native: Any = None
    segments: int = 1
    warnings: tuple[str, ...] = ()
    on_stream: TimeOnStream | None = None
    took: Contender | None = None
    close: Callable[[], object] = lambda: None


def unknown_wire_bytes(size: int, itemsize: int) -> None:
    """A library does not tell what it sends."""


class Backend(Protocol):
    """A way to run collectives."""

    name: str

    def missing(self, comm: Communicator, device: str) -> str:
        """Why it cannot run on this rank at all; empty if it can."""

    def unsupported(self, request: Request) -> str:
        """Why it has no such operation, whatever the arrays; empty if it has."""

    def contenders(self, collective: str, root: int, ranks: int, algorithms: list[str], device: str) -> list[Contender]:
        """Its entrants, given the algorithms asked for, none for all. Raises UsageError for one that is none."""

    def prepare(self, comm: Communicator, request: Request) -> Prepared:
        """Prepare an operation; all ranks call it together."""
