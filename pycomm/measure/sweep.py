"""A sweep: every size × type × contender, a row each, the same on all ranks; rank 0 writes the rows."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

from pycomm.backends import Contender, find_backend
from pycomm.communicator import Communicator
from pycomm.errors import TransportError
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
    op: str = "sum"
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


def count_rows(plan: Plan, contenders: list[Contender]) -> int:
    """How many rows the sweep has."""
    return sum(len(group) for group in _groups(plan, contenders))


def find_contenders(plan: Plan, ranks: int) -> list[Contender]:
    """Every backend's entrants, in the order asked for. Raises UsageError for one that makes no sense."""
    algorithms = list(plan.algorithms)
    return [
        contender
        for backend in plan.backends
        for contender in find_backend(backend).contenders(ranks, algorithms, plan.device)
    ]


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
    for group in _groups(plan, contenders):
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
    reason = reason or find_backend(row.contender.backend).unsupported(row.dtype, row.op)
    if reason:
        return replace(blank, status="skipped", reason=reason)
    return measure_row(comm, row, policy, surroundings, blank)


def _missing(comm: Communicator, name: str, device: str) -> str:
    """Why the backend cannot run, on whatever rank it cannot."""
    reasons: list[str] = comm.world.allgather(find_backend(name).missing(comm, device))
    return next(filter(None, reasons), "")


def _groups(plan: Plan, contenders: list[Contender]) -> Iterator[list[Row]]:
    for dtype, in_place in itertools.product(plan.dtypes, plan.in_place):
        itemsize = element_type(dtype).itemsize
        for count in sorted({size // itemsize for size in plan.sizes}):
            yield [
                Row(contender, dtype, plan.op, in_place, plan.buffers, plan.device, count) for contender in contenders
            ]
