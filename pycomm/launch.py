"""`pycomm.run`: a function on every one of a few local ranks, as processes or as threads."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from types import FrameType
from typing import Any, TypeVar

from pycomm import _core
from pycomm.communicator import Communicator
from pycomm.errors import Error, RankError, TransportError, UsageError
from pycomm.world import Meeting, SingleWorld, SocketWorld, ThreadWorld, World, checked_timeout

Result = TypeVar("Result")

# After one rank has failed, the others have this long to end by themselves before they are killed.
GRACE_S = 3.0
INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class Failure:
    """Why a rank did not return a result."""

    rank: int
    error: BaseException
    died: bool = False  # without a word: killed, or ended by the system
    ended: bool = False  # by us, since another had failed and it went on

    def raised(self, ranks: int) -> BaseException:
        """The exception `run` raises for it."""
        if self.died or self.ended or isinstance(self.error, KeyboardInterrupt):
            return self.error
        where = f"rank {self.rank} of {ranks}"
        if isinstance(self.error, Error):
            message = str(self.error)
            raised: Error = type(self.error)(message if where in message else f"{where}: {message}")
        else:
            raised = RankError(f"{where} raised {type(self.error).__name__}: {self.error}")
        raised.__cause__ = self.error
        return raised


def run(
    function: Callable[..., Result],
    ranks: int,
    transport: str = "shm",
    args: Sequence[Any] = (),
    *,
    timeout: float = 30.0,
) -> list[Result]:
    """Run ``function(comm, *args)`` on every one of `ranks` local ranks and return their results, by rank.

    Args:
        function: called with a :class:`pycomm.Communicator`. Processes are forked, so it may be a closure; its
            result must be picklable.
        ranks: how many, at least 1.
        transport: ``"shm"``, a process a rank, or ``"threads"``, a thread a rank.
        timeout: seconds without a sign of a peer that count as its loss.

    Raises:
        UsageError: wrong arguments, here or on a rank.
        RankError: `function` raised on a rank; ``__cause__`` is the exception.
        TransportError: a rank died, or was silent for `timeout` seconds.

    An exception on one rank ends all of them. Ranks that are processes end with this process, however it ends.

    >>> import pycomm
    >>> pycomm.run(lambda comm, power: comm.rank**power, ranks=3, args=(2,))
    [0, 1, 4]
    """
    if not isinstance(ranks, int) or isinstance(ranks, bool) or ranks < 1:
        raise UsageError(f"run: ranks is {ranks!r}, needs a whole number from 1")
    if not isinstance(args, Sequence) or isinstance(args, str):
        raise UsageError(f"run: args is {args!r}, needs a tuple of what the function takes after its communicator")
    checked_timeout(timeout)
    if transport not in ("shm", "threads"):
        raise UsageError(f"run: transport is {transport!r}, needs 'shm' or 'threads'")
    start = _run_threads if transport == "threads" else _run_processes
    outcomes = start(function, ranks, tuple(args), timeout)
    failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    if failures:
        raise _root_cause(failures).raised(ranks)
    return outcomes


def _root_cause(failures: list[Failure]) -> Failure:
    """The failure that explains the others: a death, then an error of a rank's own, then a lost peer."""

    def weight(failure: Failure) -> int:
        if isinstance(failure.error, KeyboardInterrupt):
            return 0
        if failure.ended:
            return 4
        if failure.died:
            return 1
        return 3 if isinstance(failure.error, TransportError) else 2

    return min(failures, key=weight)


def _call(function: Callable[..., Any], world: World, transport: str, args: tuple[Any, ...]) -> Any:
    """One rank's life."""
    comm: Communicator | None = None
    try:
        comm = Communicator(world, transport)
        result = function(comm, *args)
        comm.close()
        return result
    except BaseException as error:
        message = f"{type(error).__name__}: {error}"
        if comm is not None:
            comm.abort(message)
        else:
            world.abort(message)
        raise


def _run_threads(function: Callable[..., Any], ranks: int, args: tuple[Any, ...], timeout: float) -> list[Any]:
    meeting = Meeting(ranks)
    outcomes: list[Any] = [None] * ranks

    def live(rank: int) -> None:
        try:
            outcomes[rank] = _call(function, ThreadWorld(rank, ranks, meeting, timeout), "threads", args)
        except BaseException as error:
            outcomes[rank] = Failure(rank, error)

    threads = [threading.Thread(target=live, args=(rank,), name=f"rank {rank}") for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def _run_processes(function: Callable[..., Any], ranks: int, args: tuple[Any, ...], timeout: float) -> list[Any]:
    sys.stdout.flush()
    sys.stderr.flush()
    links = {peer: Pipe() for peer in range(1, ranks)}  # rank 0's end, the peer's end
    results = [Pipe(duplex=False) for _ in range(ranks)]
    launcher = os.getpid()

    def live(rank: int) -> None:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, interrupt_once)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        _core.die_with_parent(launcher)
        connections: dict[int, Connection] = {}
        for peer, (ours, theirs) in links.items():  # a copy left open would hide a peer's death
            if rank == 0:
                connections[peer] = ours
            else:
                ours.close()
                if peer == rank:
                    connections[0] = theirs
                    continue
            theirs.close()
        for other, (reader, writer) in enumerate(results):
            reader.close()
            if other != rank:
                writer.close()
        _report(
            results[rank][1],
            lambda: _call(function, _local_world(rank, ranks, connections, timeout), "shm", args),
        )

    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=live, args=(rank,), name=f"rank {rank}") for rank in range(ranks)]
    with warnings.catch_warnings():
        # A thread pool of NumPy's makes Python 3.12 warn of fork; such libraries handle it.
        warnings.simplefilter("ignore", DeprecationWarning)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)  # until ranks report and are supervised
        try:
            for process in processes:
                process.start()
        except BaseException:
            for process in processes:
                if process.pid is not None:
                    process.kill()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            raise
    for ours, theirs in links.values():
        ours.close()
        theirs.close()
    for _, writer in results:
        writer.close()
    return _Supervisor(processes, [reader for reader, _ in results]).outcomes(before)


def _local_world(rank: int, ranks: int, connections: dict[int, Connection], timeout: float) -> World:
    if ranks == 1:
        return SingleWorld()
    return SocketWorld(rank, ranks, connections, kind="local", timeout=timeout)


def interrupt_once(number: int, frame: FrameType | None) -> None:
    """A signal's handler. A rank is interrupted by the terminal and by the launcher, and ends at the first."""
    _ignore_interrupts()
    raise KeyboardInterrupt


def _ignore_interrupts() -> None:
    for number in INTERRUPTS:
        signal.signal(number, lambda *_: None)  # Python complains of one that came before, where it is SIG_IGN


def _report(writer: Connection, live: Callable[[], Any]) -> None:
    """Send what `live` returns or raises to the launcher."""
    try:
        outcome: Any = live()
        _ignore_interrupts()  # the report arrives whole
        error: BaseException | None = None
        writer.send_bytes(_pickled(outcome))
    except BaseException as raised:
        _ignore_interrupts()
        error = raised
        writer.send(_sendable(raised))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    if error is not None:
        os._exit(1)


def _pickled(outcome: Any) -> Any:
    try:
        return ForkingPickler.dumps(outcome)
    except Exception as error:
        kind = type(outcome).__name__
        raise UsageError(f"a rank's result must be picklable, and this {kind} is not: {error}") from error


@dataclass(frozen=True)
class _Raised:
    error: BaseException
    trace: str


def _sendable(error: BaseException) -> _Raised:
    """The exception with its traceback in words; its text alone where it cannot be pickled."""
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    return _Raised(error, trace)


class _Supervisor:
    """Waits for the ranks; once one fails, ends the others."""

    def __init__(self, processes: Sequence[BaseProcess], readers: Sequence[Connection]) -> None:
        self._processes = processes
        self._readers = readers
        self._outcomes: dict[int, Any] = {}
        self._deadline: float | None = None
        self._interrupted = False
        self._ended: set[int] = set()  # ranks killed here

    def outcomes(self, mask: set[int]) -> list[Any]:
        """Every rank's result or Failure. `mask`: the signals blocked from here on."""
        while True:
            try:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                while len(self._outcomes) < len(self._processes):
                    self._step()
                break
            except KeyboardInterrupt:
                self._interrupted = True
                self._end_soon()
                for process in self._processes:
                    if process.is_alive() and process.pid is not None:
                        os.kill(process.pid, signal.SIGINT)
        for process in self._processes:
            process.join(GRACE_S)
            if process.is_alive():
                process.kill()
                process.join()
        if self._interrupted:
            raise KeyboardInterrupt
        return [self._outcomes[rank] for rank in range(len(self._processes))]

    def _step(self) -> None:
        waiting = {self._readers[rank]: rank for rank in range(len(self._readers)) if rank not in self._outcomes}
        left = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
        ready = wait(list(waiting), left)
        if not ready:
            for rank in waiting.values():
                self._processes[rank].kill()
                self._ended.add(rank)
            self._deadline = time.monotonic() + GRACE_S
            return
        for reader in ready:
            rank = waiting[reader]  # type: ignore[index]
            outcome = self._receive(rank)
            if isinstance(outcome, Failure):
                self._end_soon()
            self._outcomes[rank] = outcome

    def _receive(self, rank: int) -> Any:
        """A rank's outcome. The pipe's end without one means that the rank is dead."""
        try:
            outcome = self._readers[rank].recv()
        except (EOFError, OSError):
            process = self._processes[rank]
            process.join(GRACE_S)
            where = f"rank {rank} of {len(self._processes)} (pid {process.pid})"
            code = process.exitcode
            how = f"killed by signal {-code} ({signal.Signals(-code).name})" if code and code < 0 else f"exit {code}"
            if rank in self._ended:
                return Failure(rank, TransportError(f"{where} went on after another had failed: {how}"), ended=True)
            hint = "; the kernel does so where memory runs out" if code == -signal.SIGKILL else ""
            return Failure(rank, TransportError(f"{where} died: {how}{hint}"), died=True)
        if isinstance(outcome, _Raised):
            outcome.error.__cause__ = RankError(f"on rank {rank}:\n{outcome.trace}")
            return Failure(rank, outcome.error)
        return outcome

    def _end_soon(self) -> None:
        if self._deadline is None:
            self._deadline = time.monotonic() + GRACE_S
