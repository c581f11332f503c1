"""The collective operations: what each rank passes and gets, and how its bandwidth is defined.

>>> [collective.command for collective in COLLECTIVES.values()]
['allreduce', 'reduce-scatter', 'allgather', 'broadcast', 'reduce', 'alltoall']
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


def _others(ranks: int) -> float:
    return (ranks - 1) / ranks


@dataclass(frozen=True)
class Collective:
    """One of them. A *block* is what one rank passes to another, or the whole where every rank's is the same.

    `busbw` gives what algbw is multiplied with for so many contributors (nccl-tests, doc/PERFORMANCE.md).
    """

    name: str  # as in Python and in schedules
    title: str  # as people write it
    summary: str
    busbw: Callable[[int], float]
    sends_blocks: bool = False  # the input has a block for every rank
    receives_blocks: bool = False  # the output has a block of every rank
    reduces: bool = False  # has an op
    rooted: bool = False  # has a root

    @property
    def command(self) -> str:
        """As on the command line and in records: ``"reduce-scatter"``."""
        return self.name.replace("_", "-")

    @property
    def in_blocks(self) -> bool:
        """Whether the larger buffer is one block a rank."""
        return self.sends_blocks or self.receives_blocks

    def total(self, block: int, ranks: int) -> int:
        """Elements of the larger buffer, the S of bandwidth, given those of a block."""
        return block * ranks if self.in_blocks else block

    def send_count(self, block: int, ranks: int) -> int:
        """Elements of the input."""
        return block * ranks if self.sends_blocks else block

    def receive_count(self, block: int, ranks: int) -> int:
        """Elements of the output."""
        return block * ranks if self.receives_blocks else block


COLLECTIVES: Final = {
    collective.name: collective
    for collective in (
        Collective(
            "allreduce",
            "all-reduce",
            "All-reduce: every rank gets the reduction of what all put in.",
            lambda ranks: 2 * _others(ranks),
            reduces=True,
        ),
        Collective(
            "reduce_scatter",
            "reduce-scatter",
            "Reduce-scatter: rank r gets block r of the reduction.",
            _others,
            sends_blocks=True,
            reduces=True,
        ),
        Collective(
            "allgather",
            "all-gather",
            "All-gather: every rank gets the blocks of all, in rank order.",
            _others,
            receives_blocks=True,
        ),
        Collective(
            "broadcast",
            "broadcast",
            "Broadcast: every rank gets what the root has.",
            lambda ranks: 1,
            rooted=True,
        ),
        Collective(
            "reduce",
            "reduce",
            "Reduce: the root gets the reduction of what all put in.",
            lambda ranks: 1,
            reduces=True,
            rooted=True,
        ),
        Collective(
            "alltoall",
            "all-to-all",
            "All-to-all: block c of rank r becomes block r of rank c.",
            _others,
            sends_blocks=True,
            receives_blocks=True,
        ),
    )
}
