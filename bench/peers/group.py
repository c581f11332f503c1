"""A process group: started once, asked now and then, asleep in between."""

import os
import select
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

from peers.wire import Answer, Nanoseconds, Refused, Request, read_answer

_START_S: Final = 60.0
_ANSWER_S: Final = 120.0
_STOP_S: Final = 10.0
_BARRIER_BYTES: Final = 1 << 20


class Lost(Exception):
    """A group that did not start or stopped answering, with the last words of its log."""


class Group:
    """The ranks of one peer, each at the end of a socket.

    `command` is started with the path of the socket and of the barrier's page filled in for ``{socket}`` and
    ``{page}``; it, or what it starts, connects once a rank.

    Attributes:
        name: the peer.
        ranks: how many.
        version: what rank 0 says it is.
    """

    def __init__(
        self, name: str, ranks: int, commands: Sequence[Sequence[str]], variables: Mapping[str, str], folder: Path
    ) -> None:
        """Raises Lost when a rank is not there within a minute."""
        self.name = name
        self.ranks = ranks
        self._log_path = folder / f"{name}.log"
        self._page = os.memfd_create("barrier", 0)
        os.ftruncate(self._page, _BARRIER_BYTES)
        socket_path = folder / f"{name}.socket"
        places = {"{socket}": str(socket_path), "{page}": f"/proc/{os.getpid()}/fd/{self._page}"}
        self._streams: list[Any] = [None] * ranks
        self._processes: list[subprocess.Popen[bytes]] = []
        with socket.socket(socket.AF_UNIX) as listener, self._log_path.open("wb") as log:
            listener.bind(str(socket_path))
            listener.listen(ranks)
            try:
                for command in commands:
                    filled = [places.get(word, word) for word in command]
                    self._processes.append(_start(filled, variables, log))
                self.version = self._meet(listener)
            except BaseException:
                self.stop()
                raise
            finally:
                socket_path.unlink(missing_ok=True)

    def _meet(self, listener: socket.socket) -> str:
        version = ""
        deadline = time.monotonic() + _START_S
        while None in self._streams:
            ended = [process.returncode for process in self._processes if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                missing = [rank for rank, stream in enumerate(self._streams) if stream is None]
                why = f"ended with {ended[0]}" if ended else f"was not there within {_START_S:.0f} s"
                raise Lost(f"{self.name}: rank {missing[0]} of {self.ranks} {why}: {self._last_words()}")
            if not select.select([listener], [], [], 0.1)[0]:
                continue
            connection, _ = listener.accept()
            connection.settimeout(_ANSWER_S)
            stream = connection.makefile("rwb")
            rank, _, text = stream.readline().decode(errors="replace").strip().partition(" ")
            self._streams[int(rank)] = stream
            if int(rank) == 0:
                version = text
            connection.close()  # the stream keeps it open
        return version

    def ask(self, request: Request) -> tuple[int | None, Nanoseconds]:
        """Wrong elements over all ranks (None: not compared), and the slowest rank's nanoseconds, a sample each.

        Raises Refused with the first rank's reason, Lost when a rank does not answer.
        """
        answers: list[Answer] = []
        refused: Refused | None = None
        try:
            for stream in self._streams:
                stream.write(request.line())
                stream.flush()
            for stream in self._streams:
                try:
                    answers.append(read_answer(stream))
                except Refused as error:
                    refused = refused or error
        except (EOFError, OSError) as error:
            words = "took too long" if isinstance(error, TimeoutError) else "is gone"
            asked = request.line().decode().strip()
            raise Lost(f"{self.name}: a rank {words}, asked for {asked!r}: {self._last_words()}") from error
        if refused is not None:
            raise refused
        wrong = [answer.wrong for answer in answers if answer.wrong is not None]
        return (sum(wrong) if wrong else None), np.max([answer.samples_ns for answer in answers], axis=0)

    def stop(self) -> None:
        """Hang up: ranks end by themselves; what has not ended then is killed."""
        for stream in filter(None, self._streams):
            with suppress(OSError):  # what was asked of a rank that is gone cannot be delivered
                stream.close()
        for process in self._processes:
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        os.close(self._page)

    def _last_words(self) -> str:
        lines = self._log_path.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


def _start(command: Sequence[str], variables: Mapping[str, str], log: IO[bytes]) -> subprocess.Popen[bytes]:
    # Python searches the working directory first: there must be no source of pycomm in it.
    folder = Path(__file__).resolve().parents[1]
    return subprocess.Popen(command, env=dict(variables), cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
