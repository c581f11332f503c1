"""One row of a sweep: allocate, prepare, verify, time, summarise. All ranks go through it together."""

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from pycomm import _core
from pycomm.backends import Contender, Prepared, Request, TimeOnStream, find_backend
from pycomm.collectives import COLLECTIVES
from pycomm.communicator import Communicator
from pycomm.cuda.placement import device_of
from pycomm.errors import Error, TransportError, Unavailable
from pycomm.measure.contents import Call, make_contents
from pycomm.measure.devices import DeviceTwins
from pycomm.measure.elements import element_type
from pycomm.measure.loop import Nanoseconds, Policy, TimeSamples, Timing, measure
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
_EVENT_TICK_NS: Final = 500  # the resolution of a CUDA event's time (CUDA runtime API, cudaEventElapsedTime)


@dataclass(frozen=True)
class Row:
    """What is measured on `ranks` ranks: `count` elements, of a block where the collective has blocks."""

    collective: str
    contender: Contender
    dtype: str
    op: str  # empty where the collective has none
    root: int
    in_place: bool
    buffers: str
    device: str
    ranks: int
    count: int

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return element_type(self.dtype).itemsize

    @property
    def bytes(self) -> int:
        """S of the definitions of bandwidth."""
        return COLLECTIVES[self.collective].total(self.count, self.ranks) * self.itemsize

    def request(self, send: Any = None, receive: Any = None) -> Request:
        """What the backend is asked for, on these arrays."""
        return Request(
            collective=self.collective,
            algorithm=self.contender.text,
            op=self.op,
            root=self.root,
            dtype=self.dtype,
            count=self.count,
            in_place=self.in_place,
            device=self.device,
            send=send,
            receive=receive,
        )


def measure_row(
    comm: Communicator, row: Row, policy: Policy, surroundings: Surroundings, blank: CaseRecord
) -> CaseRecord:
    """The row's record; complete on rank 0, on the others as far as they know it.

    Raises TransportError, saying what this rank was at, when a peer is lost.
    """
    phase = "preparing"
    try:
        buffers, twins, prepared, refusal = _prepare(comm, row)
        if refusal is not None:
            return replace(blank, status=refusal.status, reason=refusal.reason)
        if prepared.took is not None:
            took = prepared.took
            wire_bytes = took.wire_bytes(row.bytes, row.itemsize)
            blank = replace(blank, reason=f"took {took.text}", wire_bytes_busiest_rank=wire_bytes)
        phase = "verifying"
        try:
            wrong = _verify(comm, row, buffers, twins, prepared)
        except TransportError as error:
            if row.device == "cpu":
                raise
            return replace(blank, status="failed", reason=str(error))
        blank = replace(blank, wrong=wrong, warnings=blank.warnings + prepared.warnings)
        if wrong:
            return replace(blank, status="wrong", reason=f"{wrong} wrong elements; not timed")
        phase = "timing"
        if buffers is not None:
            settle(buffers, row.op)
        if twins is not None:
            twins.upload()
        tick_ns = surroundings.tick_ns if prepared.on_stream is None else _EVENT_TICK_NS
        timing = measure(comm.world, _time_samples(comm, prepared, policy), policy, tick_ns)
        prepared.close()
    except TransportError as error:
        member = comm.world.members[comm.rank]
        where = f"rank {comm.rank} on host {member['host']}, {phase} {row.contender.text} at {row.bytes} bytes"
        raise TransportError(f"{error} ({where})") from error
    if timing is None:
        return replace(blank, status="ok")
    in_python = prepared.native is None and prepared.on_stream is None
    return complete(blank, timing, policy, surroundings, "python" if in_python else "c++")


@dataclass(frozen=True)
class _Refusal:
    """Why a row is not measured: skipped where it cannot be here, failed where it should have been."""

    status: str
    reason: str


def _prepare(comm: Communicator, row: Row) -> tuple[Buffers | None, DeviceTwins | None, Prepared, _Refusal | None]:
    """This rank's buffers (None on a dedicated server), what is behind them on a GPU, and the operation; and what went
    wrong on any rank."""
    buffers: Buffers | None = None
    twins: DeviceTwins | None = None
    send: Any = None
    receive: Any = None
    prepared = Prepared(lambda: None)
    refusal = None

    def allocate() -> None:
        nonlocal buffers, twins, send, receive
        if comm.rank >= row.contender.workers:
            return
        empty = comm.empty if row.buffers == "symmetric" else allocate_ordinary
        facts = COLLECTIVES[row.collective]
        counts = facts.send_count(row.count, row.ranks), facts.receive_count(row.count, row.ranks)
        buffers = allocate_buffers(*counts, row.dtype, row.in_place, empty)
        send, receive = buffers.send.inner, buffers.receive.inner
        if row.device == "cuda":
            twins = DeviceTwins(comm, device_of(comm), buffers)
            send, receive = twins.send, twins.receive

    try:
        comm.world.agree(allocate)
        prepared = find_backend(row.contender.backend).prepare(comm, row.request(send, receive))
    except TransportError:
        raise
    except Unavailable as error:
        refusal = _Refusal("skipped", str(error))
    except (Error, MemoryError) as error:
        text = str(error) or type(error).__name__
        named = text.startswith("rank ")  # perhaps another: what ranks agree on names the one that failed
        refusal = _Refusal("failed", text if named else f"rank {comm.rank}: {text}")
    refusals: list[_Refusal | None] = comm.world.allgather(refusal)
    return buffers, twins, prepared, next(filter(None, refusals), None)


def _verify(
    comm: Communicator, row: Row, buffers: Buffers | None, twins: DeviceTwins | None, prepared: Prepared
) -> int:
    """Wrong elements over all ranks; the same on every rank.

    Raises TransportError; on a GPU on all ranks together, since a kernel that waits in vain ends by itself.
    """

    def count() -> int:
        if buffers is None:
            prepared.run()
            return 0
        period = pattern_period(row.bytes // row.itemsize, row.itemsize, row.ranks, prepared.segments)
        call = Call(row.collective, row.dtype, row.op, row.contender.workers, row.count, row.root)
        run = prepared.run if twins is None else twins.around(prepared.run)
        return count_wrong(run, buffers, make_contents(call, comm.rank, period, row.in_place))

    counts: list[int] = comm.world.agree(count) if row.device == "cuda" else comm.world.allgather(count())
    return sum(counts)


def _time_samples(comm: Communicator, prepared: Prepared, policy: Policy) -> TimeSamples:
    """The loop that suits: on a GPU's stream, C++ over a native operation, else Python."""
    barrier = comm.barrier_native
    if prepared.on_stream is not None:
        return _time_on_stream(prepared.on_stream, policy.graph)

    def native(samples: int, batch: int, barrier_each: bool) -> Nanoseconds:
        elapsed_ns = np.empty(samples, np.int64)
        _core.time_loop(prepared.native, barrier, barrier_each, elapsed_ns, batch)
        return elapsed_ns

    def interpreted(samples: int, batch: int, barrier_each: bool) -> Nanoseconds:
        elapsed_ns = np.empty(samples, np.int64)
        time_loop(prepared.run, barrier.run, barrier_each, elapsed_ns, batch)
        return elapsed_ns

    return interpreted if prepared.native is None else native


def _time_on_stream(on_stream: TimeOnStream, graph: bool) -> TimeSamples:
    def on_device(samples: int, batch: int, barrier_each: bool) -> Nanoseconds:
        return np.stack(on_stream(samples, batch, graph, barrier_each), axis=1)

    return on_device


def complete(
    blank: CaseRecord, timing: Timing, policy: Policy, surroundings: Surroundings, language: str
) -> CaseRecord:
    """The record with its times, rates and warnings."""
    summary = summarise(timing.samples_s)
    algbw_Bps = blank.bytes / summary.median if summary.median > 0 else None
    host_s = timing.host_by_rank_s
    alone = blank.workers == 1
    factor = COLLECTIVES[blank.benchmark.replace("-", "_")].busbw(blank.workers)
    return replace(
        blank,
        status="ok",
        iterations=len(timing.by_rank_s),
        warmup=policy.warmup,
        loop=Loop(language, policy.barrier, timing.batch, "host" if host_s is None else "events", policy.graph),
        time_s=summary,
        host_time_s=None if host_s is None else summarise(host_s.max(axis=1)),
        algbw_Bps=algbw_Bps,
        busbw_Bps=None if algbw_Bps is None or alone else algbw_Bps * factor,
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
