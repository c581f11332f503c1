"""What the controller and the ranks of a process group say to each other, one Unix socket a rank.

A rank connects and says ``RANK VERSION``; then the controller asks and every rank answers, again and again::

    VARIANT COUNT WARMUP ITERATIONS BATCH CHECK        asked, a line
    ok WRONG SAMPLES                                   answered, a line, then SAMPLES int64 of this machine
    error REASON                                       or that

Between two answers a rank sleeps in ``read``. The ranks in C speak it too: native/rank.h. Needs NumPy and nothing of
pycomm, since the peers' ranks live in environments without it.
"""

import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Nanoseconds = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Request:
    """Time `iterations` samples of `batch` calls on `count` float32, after `warmup` samples that are not kept.

    `variant` says which of the group's ways; with `check` the result of one call is compared first.
    """

    variant: str
    count: int
    warmup: int
    iterations: int
    batch: int = 1
    check: bool = False

    def line(self) -> bytes:
        """As it is sent."""
        numbers = (self.count, self.warmup, self.iterations, self.batch, int(self.check))
        return " ".join((self.variant, *map(str, numbers))).encode() + b"\n"

    @staticmethod
    def parse(line: bytes) -> "Request":
        """From what was sent. Raises ValueError."""
        variant, *numbers = line.decode().split()
        count, warmup, iterations, batch, check = map(int, numbers)
        return Request(variant, count, warmup, iterations, batch, bool(check))


@dataclass(frozen=True)
class Answer:
    """One rank's: `wrong` elements of its result, None if not compared; nanoseconds of every sample."""

    wrong: int | None
    samples_ns: Nanoseconds


class Refused(Exception):
    """A rank's reason for not measuring what it was asked."""


def read_answer(stream: Any) -> Answer:
    """From a rank's stream. Raises Refused with its reason, EOFError when the rank is gone."""
    line = stream.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    kind, _, rest = line.decode(errors="replace").strip().partition(" ")
    if kind != "ok":
        raise Refused(rest)
    wrong, samples = map(int, rest.split())
    content = stream.read(8 * samples)
    if len(content) != 8 * samples:
        raise EOFError
    return Answer(None if wrong < 0 else wrong, np.frombuffer(content, np.int64))


def serve(socket_path: str, rank: int, version: str, measure: Callable[[Request], Answer]) -> None:
    """A rank's life: asked, answer, until the controller hangs up. ValueError of `measure` is its refusal."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(socket_path)
    connection.sendall(f"{rank} {version}\n".encode())
    with connection, connection.makefile("rwb") as stream:
        while line := stream.readline():
            try:
                answer = measure(Request.parse(line))
            except ValueError as error:
                stream.write(f"error {' '.join(str(error).split())}\n".encode())
            else:
                wrong = -1 if answer.wrong is None else answer.wrong
                stream.write(f"ok {wrong} {answer.samples_ns.size}\n".encode() + answer.samples_ns.tobytes())
            stream.flush()
