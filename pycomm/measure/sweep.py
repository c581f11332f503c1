"""A sweep: every size × type × contender, a row each, the same on all ranks; rank 0 writes the rows."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

from pycomm.backends import Contender, find_backend
from pycomm.collectives import COLLECTIVES
from pycomm.communicator import Communicator
from pycomm.errors import TransportError, UsageError
from pycomm.measure.elements import element_type
from pycomm.measure.loop import Policy
from pycomm.measure.record import CaseRecord
from pycomm.measure.row import Row, measure_row
from pycomm.measure.surroundings import Surroundings


@dataclass(frozen=True)
class Plan:
    """What a sweep is asked for: `sizes` in bytes; no `algorithms`, all that apply; `in_place` False, True or both."""

    backends: tuple[str, ...]
    algorithms: tuple[str, ...]
    sizes: tuple[int, ...]
    dtypes: tuple[str, ...]
    collective: str = "allreduce"
    op: str = "sum"
    root: int = 0
    in_place: tuple[bool, ...] = (False,)
    buffers: str = "ordinary"
    device: str = "cpu"
    policy: Policy = field(default_factory=Policy)


class Counts:
    """How many rows have ended in each status."""

    def __init__(self) -> None:
        self.by_status: dict[str, int] = {}

    def add(self, status: str) -> None:
        """One row more."""
        self.by_status[status] = self.by_status.get(status, 0) + 1

    @property
    def all_right(self) -> bool:
        """Whether no row was wrong or failed."""
        return not {"wrong", "failed"} & set(self.by_status)


class Sink(Protocol):
    """Where rows go on rank 0. A group is the contenders at one size, type and place."""

    def begin_group(self, rows: int) -> None: ...

    def begin_row(self, row: Row) -> None: ...

    def add(self, case: CaseRecord) -> None: ...

    def end_group(self) -> None: ...


def count_rows(plan: Plan, contenders: list[Contender], ranks: int) -> int:
    """How many rows the sweep has."""
    return sum(len(group) for group in _groups(plan, contenders, ranks))


def find_contenders(plan: Plan, ranks: int) -> list[Contender]:
    """Every backend's entrants, in the order asked for. Raises UsageError for one that makes no sense."""
    if plan.root >= ranks:
        raise UsageError(f"--root: {plan.root}: there are {ranks} ranks, from 0")
    asked = plan.collective, plan.root, ranks, list(plan.algorithms), plan.device
    return [contender for backend in plan.backends for contender in find_backend(backend).contenders(*asked)]


def run_sweep(
    comm: Communicator,
    plan: Plan,
    contenders: list[Contender],
    surroundings: Surroundings,
    sink: Sink,
    counts: Counts,
) -> None:
    """Measure every row and count how it ended; all ranks call it together.

    The sink is used on rank 0 alone. A lost rank ends the sweep: the row that met it is written as failed, then
    the TransportError goes on.
    """
    missing = {name: _missing(comm, name, plan.device) for name in plan.backends}
    first = comm.rank == 0
    for group in _groups(plan, contenders, comm.ranks):
        if first:
            sink.begin_group(len(group))
        for row in group:
            if first:
                sink.begin_row(row)
            blank = surroundings.blank_case(comm, row)
            try:
                case = _one(comm, row, plan.policy, surroundings, missing[row.contender.backend], blank)
            except TransportError as error:
                counts.add("failed")
                if first:
                    sink.add(replace(blank, status="failed", reason=str(error)))
                raise
            counts.add(case.status)
            if first:
                sink.add(case)
        if first:
            sink.end_group()


def _one(
    comm: Communicator, row: Row, policy: Policy, surroundings: Surroundings, missing: str, blank: CaseRecord
) -> CaseRecord:
    reason = missing or row.contender.refusal
    reason = reason or find_backend(row.contender.backend).unsupported(row.request())
    if reason:
        return replace(blank, status="skipped", reason=reason)
    return measure_row(comm, row, policy, surroundings, blank)


def _missing(comm: Communicator, name: str, device: str) -> str:
    """Why the backend cannot run, on whatever rank it cannot."""
    reasons: list[str] = comm.world.allgather(find_backend(name).missing(comm, device))
    return next(filter(None, reasons), "")


def _groups(plan: Plan, contenders: list[Contender], ranks: int) -> Iterator[list[Row]]:
    for dtype, in_place in itertools.product(plan.dtypes, plan.in_place):
        smallest = COLLECTIVES[plan.collective].total(1, ranks) * element_type(dtype).itemsize
        for count in sorted({size // smallest for size in plan.sizes}):
            yield [
                Row(
                    collective=plan.collective,
                    contender=contender,
                    dtype=dtype,
                    op=plan.op,
                    root=plan.root,
                    in_place=in_place,
                    buffers=plan.buffers,
                    device=plan.device,
                    ranks=ranks,
                    count=count,
                )
                for contender in contenders
            ]
