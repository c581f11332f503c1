"""The world a sweep runs in: who shares a host, how many cores there are, what the clock shows."""

import socket
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pycomm import _core
from pycomm.collectives import COLLECTIVES
from pycomm.communicator import Communicator
from pycomm.machine import usable_cores
from pycomm.measure.record import CaseRecord

if TYPE_CHECKING:
    from pycomm.measure.row import Row


@dataclass(frozen=True)
class Surroundings:
    """`hosts` names each rank's host; `crowding` says, where so, that ranks outnumber cores."""

    hosts: tuple[str, ...]
    crowding: tuple[str, ...]
    tick_ns: int

    def blank_case(self, comm: Communicator, row: "Row") -> CaseRecord:
        """The row's record before anything is known of it."""
        hosts = len(set(self.hosts))
        facts = COLLECTIVES[row.collective]
        return CaseRecord(
            benchmark=facts.command,
            backend=row.contender.backend,
            algorithm=row.contender.algorithm,
            options=row.contender.options,
            transport=comm.transport,
            device=row.device,
            dtype=row.dtype,
            op=row.op,
            root=row.root if facts.rooted else None,
            in_place=row.in_place,
            buffers=row.buffers,
            ranks=comm.ranks,
            workers=row.contender.workers,
            hosts=hosts,
            link="peer memory" if row.device == "cuda" else "shared memory" if hosts == 1 else "network",
            bytes=row.bytes,
            count=row.count,
            status="failed",
            wire_bytes_busiest_rank=row.contender.wire_bytes(row.bytes, row.itemsize),
            warnings=self.crowding,
        )


def find_surroundings(comm: Communicator) -> Surroundings:
    """Ask every rank; all call it together."""
    answers = comm.world.allgather((socket.gethostname(), usable_cores()))
    hosts = tuple(host for host, _ in answers)
    return Surroundings(hosts, crowding_of(answers), comm.world.broadcast(_core.clock_tick_ns()))


def crowding_of(answers: list[tuple[str, frozenset[int]]]) -> tuple[str, ...]:
    """A sentence for every host with more ranks than cores, from each rank's host and the cores it may use."""
    warnings = []
    for host, ranks in Counter(host for host, _ in answers).items():
        cores = len(frozenset().union(*(usable for name, usable in answers if name == host)))
        if ranks > cores:
            warnings.append(
                f"{ranks} ranks share {cores} core{'s' * (cores != 1)} of host {host}: they wait for each other's turn"
            )
    return tuple(warnings)
