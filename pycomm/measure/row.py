"""One row of a sweep: allocate, prepare, verify, time, summarise. All ranks go through it together."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from pycomm import _core
from pycomm.backends import Contender, Prepared, Request, find_backend
from pycomm.communicator import Communicator
from pycomm.errors import Error, TransportError
from pycomm.measure.elements import element_type
from pycomm.measure.loop import Nanoseconds, Policy, TimeSamples, Timing, measure
from pycomm.measure.pattern import make_pattern
from pycomm.measure.pythonloop import time_loop
from pycomm.measure.record import CaseRecord, Loop
from pycomm.measure.statistics import Summary, summarise
from pycomm.measure.surroundings import Surroundings
from pycomm.measure.verify import (
    Buffers,
    allocate_buffers,
    allocate_ordinary,
    count_wrong,
    pattern_period,
    settle,
)

# A rank is named when it is the slowest in this share of iterations and so much behind the median rank.
_SLOWEST_SHARE: Final = 0.75
_SLOWER_BY: Final = 1.10


@dataclass(frozen=True)
class Row:
    """What is measured: `count` elements a rank."""

    contender: Contender
    dtype: str
    op: str
    in_place: bool
    buffers: str
    device: str
    count: int

    @property
    def bytes(self) -> int:
        """S of the definitions of bandwidth."""
        return self.count * element_type(self.dtype).itemsize


def measure_row(
    comm: Communicator, row: Row, policy: Policy, surroundings: Surroundings, blank: CaseRecord
) -> CaseRecord:
    """The row's record; complete on rank 0, on the others as far as they know it.

    Raises TransportError, saying what this rank was at, when a peer is lost.
    """
    phase = "preparing"
    try:
        buffers, prepared, reason = _prepare(comm, row)
        if reason:
            return replace(blank, status="failed", reason=reason)
        phase = "verifying"
        wrong = _verify(comm, row, buffers, prepared)
        blank = replace(blank, wrong=wrong, warnings=blank.warnings + prepared.warnings)
        if wrong:
            return replace(blank, status="wrong", reason=f"{wrong} wrong elements; not timed")
        phase = "timing"
        if buffers is not None:
            settle(buffers, row.op)
        timing = measure(comm.world, _time_samples(comm, prepared), policy, surroundings.tick_ns)
    except TransportError as error:
        member = comm.world.members[comm.rank]
        where = f"rank {comm.rank} on host {member['host']}, {phase} {row.contender.text} at {row.bytes} bytes"
        raise TransportError(f"{error} ({where})") from error
    if timing is None:
        return replace(blank, status="ok")
    return complete(blank, timing, policy, surroundings, "python" if prepared.native is None else "c++")


def _prepare(comm: Communicator, row: Row) -> tuple[Buffers | None, Prepared, str]:
    """This rank's buffers (None on a dedicated server) and operation; and what went wrong on any rank."""
    buffers = None
    prepared = Prepared(lambda: None)
    reason = ""
    try:
        if comm.rank < row.contender.workers:
            allocate = comm.empty if row.buffers == "symmetric" else allocate_ordinary
            buffers = allocate_buffers(row.count, row.dtype, row.in_place, allocate)
        send, receive = (None, None) if buffers is None else (buffers.send.inner, buffers.receive.inner)
        request = Request(row.contender.text, row.op, row.dtype, row.count, send, receive)
        prepared = find_backend(row.contender.backend).prepare(comm, request)
    except TransportError:
        raise
    except (Error, MemoryError) as error:
        reason = f"rank {comm.rank}: {error or type(error).__name__}"
    reasons: list[str] = comm.world.allgather(reason)
    return buffers, prepared, next(filter(None, reasons), "")


def _verify(comm: Communicator, row: Row, buffers: Buffers | None, prepared: Prepared) -> int:
    """Wrong elements over all ranks; the same on every rank."""
    if buffers is None:
        prepared.run()
        mine = 0
    else:
        workers, itemsize = row.contender.workers, element_type(row.dtype).itemsize
        period = pattern_period(row.count, itemsize, comm.ranks, prepared.segments)
        pattern = make_pattern(row.dtype, row.op, workers, comm.rank, period)
        mine = count_wrong(prepared.run, buffers, pattern)
    return sum(comm.world.allgather(mine))


def _time_samples(comm: Communicator, prepared: Prepared) -> TimeSamples:
    """The loop that suits: C++ over a native operation, else Python."""
    barrier = comm.barrier_native

    def native(samples: int, batch: int, barrier_each: bool) -> Nanoseconds:
        elapsed_ns = np.empty(samples, np.int64)
        _core.time_loop(prepared.native, barrier, barrier_each, elapsed_ns, batch)
        return elapsed_ns

    def interpreted(samples: int, batch: int, barrier_each: bool) -> Nanoseconds:
        elapsed_ns = np.empty(samples, np.int64)
        time_loop(prepared.run, barrier.run, barrier_each, elapsed_ns, batch)
        return elapsed_ns

    return interpreted if prepared.native is None else native


def complete(
    blank: CaseRecord, timing: Timing, policy: Policy, surroundings: Surroundings, language: str
) -> CaseRecord:
    """The record with its times, rates and warnings."""
    summary = summarise(timing.samples_s)
    algbw_Bps = blank.bytes / summary.median if summary.median > 0 else None
    workers = blank.workers
    return replace(
        blank,
        status="ok",
        iterations=len(timing.by_rank_s),
        warmup=policy.warmup,
        loop=Loop(language, policy.barrier, timing.batch),
        time_s=summary,
        algbw_Bps=algbw_Bps,
        busbw_Bps=None if algbw_Bps is None or workers == 1 else algbw_Bps * 2 * (workers - 1) / workers,
        warnings=blank.warnings + _warnings(summary, timing, policy, surroundings),
    )


def _warnings(summary: Summary, timing: Timing, policy: Policy, surroundings: Surroundings) -> tuple[str, ...]:
    warnings = []
    if policy.iterations is None and summary.ci_share > policy.target_ci:
        warnings.append(
            f"noisy: the median is known to ±{summary.ci_share:.1%}, wanted ±{policy.target_ci:.1%}; "
            f"more --max-seconds or a quieter machine helps"
        )
    by_rank_s = timing.by_rank_s
    if by_rank_s.shape[1] > 1:
        share = np.bincount(by_rank_s.argmax(axis=1), minlength=by_rank_s.shape[1]) / len(by_rank_s)
        slowest = int(share.argmax())
        others_s = float(np.median(np.delete(by_rank_s, slowest, axis=1)))
        slower_by = float(np.median(by_rank_s[:, slowest])) / others_s if others_s > 0 else 1.0
        if share[slowest] >= _SLOWEST_SHARE and slower_by >= _SLOWER_BY:
            warnings.append(
                f"rank {slowest} on host {surroundings.hosts[slowest]} is the slowest in {share[slowest]:.0%} of "
                f"iterations, by {slower_by - 1:.0%}"
            )
    return tuple(warnings)
