"""Schedules: what every rank of an algorithm does, as data that can be proved, counted and drawn without running.

>>> ring = schedule("ring", ranks=4)
>>> ring.verify().depth  # a chain of 2 (p - 1) messages
6
>>> ring.wire_bytes(1 << 20)  # 2 (p - 1) / p of them
1572864
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from pycomm import _core
from pycomm.algorithms import AUTO, Algorithm, parse_algorithm, row_of
from pycomm.checks import check_bytes, check_whole
from pycomm.collectives import COLLECTIVES
from pycomm.errors import UsageError

MOST_LANES = 4  # that segments are dealt to, unless said


@dataclass(frozen=True)
class Facts:
    """What a proof went through; that it exists says that the five facts of docs/schedules.md hold."""

    steps: int  # of all ranks and segments
    messages: int  # the same
    landings: int  # messages that the combine before them stores at the peer, where buffers can be reached
    depth: int  # the longest chain of messages of one segment, each sent after the one before arrived
    expressions: int  # different ones that were met
    schedules: int  # proved: 1, or out of place and in place for several numbers of segments
    segments_followed: int  # the others are of the same kinds
    calls: int  # back to back, that were followed


@dataclass(frozen=True)
class Message:
    """One segment of one chunk, or of a run of chunks, on its way from one rank to another."""

    round: int  # from 1: after all that its sender had received, and after the one before it on its way
    sender: int
    receiver: int
    lane: int
    segment: int
    buffer: str  # the sender's: in, out or tmp
    chunk: int
    adds: bool  # the receiver adds it to what it has; else it stores it
    chunks: int = 1  # from `chunk` on


class Schedule:
    """What every rank does; made by :func:`schedule`."""

    def __init__(self, native: _core.Schedule) -> None:
        self._native = native

    @property
    def algorithm(self) -> str:
        """Its name in the registry."""
        return self._native.algorithm

    @property
    def options(self) -> str:
        """Its options as text, ``"servers=2,dedicated"``; ``""`` if it has none."""
        return self._native.options

    @property
    def collective(self) -> str:
        """``"allreduce"``, ``"reduce_scatter"``, …"""
        return self._native.collective

    @property
    def ranks(self) -> int:
        """All of them, dedicated servers too."""
        return self._native.ranks

    @property
    def workers(self) -> int:
        """The ranks that pass buffers: the first so many."""
        return self._native.workers

    @property
    def chunks(self) -> int:
        """Parts the buffer is cut into."""
        return self._native.chunks

    @property
    def segments(self) -> int:
        """Parts each chunk is cut into; one of one chunk, or of a run of chunks, is a message."""
        return self._native.segments

    @property
    def in_place(self) -> bool:
        """Whether the input is the output's memory."""
        return self._native.in_place

    @property
    def steps(self) -> int:
        """Steps of the rank that has most."""
        return self._native.counts()[0]

    @functools.cached_property
    def messages(self) -> tuple[Message, ...]:
        """All messages, by round. Raises ScheduleError for a schedule that is not right."""
        return tuple(Message(*message) for message in self._native.messages())

    def steps_of(self, rank: int) -> list[list[str]]:
        """What ``rank`` does for a segment, in words: a list for each different lane."""
        if not 0 <= rank < self.ranks:
            raise UsageError(f"rank must be 0 to {self.ranks - 1}, got {rank}")
        return [[step.text for step in self._native.body(rank, body)] for body in range(self._native.bodies(rank))]

    def verify(self) -> Facts:
        """Prove the five facts of this schedule. Raises ScheduleError naming fact, rank, step, segment and chunk."""
        return Facts(schedules=1, **self._native.verify())

    def traffic(self, bytes: int, itemsize: int = 4) -> tuple[list[int], list[int]]:
        """Bytes sent, and bytes received, by each rank for a buffer of ``bytes`` bytes.

        The buffer is the larger one where input and output differ, and is rounded down to whole elements of
        ``itemsize`` bytes.
        """
        itemsize = check_whole(itemsize, "itemsize", 1)
        return self._native.traffic(check_bytes(bytes, "bytes") // itemsize, itemsize)

    def wire_bytes(self, bytes: int, itemsize: int = 4) -> int:
        """The larger of bytes sent and bytes received, of the rank with most."""
        sent, received = self.traffic(bytes, itemsize)
        return max(*sent, *received)

    def text(self) -> str:
        """Who sends what when, to read. Raises UsageError if it is too large to draw."""
        from pycomm.drawing import draw_text

        return draw_text(self)

    def svg(self) -> str:
        """A space-time diagram: ranks across, rounds down. Raises UsageError if it is too large to draw."""
        from pycomm.drawing import draw_svg

        return draw_svg(self)

    @property
    def title(self) -> str:
        """One line: ``"ring, 4 ranks, all-reduce, out of place, 1 segment"``."""
        name = row_of(self.algorithm).display + (f" ({self.options})" if self.options else "")
        many = "segment" if self.segments == 1 else "segments"
        place = "in place" if self.in_place else "out of place"
        ranks = "rank" if self.ranks == 1 else "ranks"
        return f"{name}, {self.ranks} {ranks}, {COLLECTIVES[self.collective].title}, {place}, {self.segments} {many}"

    def __repr__(self) -> str:
        return f"<Schedule: {self.title}>"


def schedule(
    algorithm: str,
    *,
    ranks: int,
    segments: int = 1,
    in_place: bool = False,
    collective: str = "allreduce",
    root: int = 0,
    lanes: int | None = None,
    hosts: Sequence[int] = (),
    **options: int,
) -> Schedule:
    """The schedule of an algorithm of the registry: ``schedule("ps", ranks=4, servers=2)``.

    ``algorithm`` may carry its options, ``"ps:servers=2,dedicated"``. ``ranks`` counts all, 1 to 1024. ``lanes`` are
    those that segments are dealt to, at most as many as there are segments. ``hosts[rank]`` numbers the host of each
    rank; without it all share one. Raises UsageError for an unknown name or option, for a number that is none, and for
    a world the algorithm does not apply to.
    """
    named = _named(algorithm)
    segments = check_whole(segments, "segments")
    given = {
        # a flag is given as True
        name: 1 if value is True and name in _flags(named.name) else check_whole(value, f"option {name!r}")
        for name, value in options.items()
    }
    return Schedule(
        _core.build_schedule(
            named.name,
            collective,
            check_whole(ranks, "ranks"),
            segments,
            min(segments, MOST_LANES) if lanes is None else check_whole(lanes, "lanes"),
            in_place,
            check_whole(root, "root"),
            {**named.options, **given},
            _hosts(hosts),
        )
    )


def prove(
    algorithm: str, *, ranks: int, collective: str = "allreduce", root: int = 0, hosts: Sequence[int] = ()
) -> Facts:
    """Prove an algorithm for ``ranks`` ranks on ``hosts``: out of place and in place, for 1, 2, 3 and 5 segments.

    Up to 128 ranks also as it runs where peers can reach the buffers and sums are stored there at once (landings).

    Raises ScheduleError naming fact, rank, step, segment and chunk; UsageError as :func:`schedule`.
    """
    named = _named(algorithm)
    facts = _core.prove_algorithm(
        named.name,
        collective,
        check_whole(ranks, "ranks"),
        check_whole(root, "root"),
        dict(named.options),
        _hosts(hosts),
    )
    del facts["schedules_followed"]
    return Facts(**facts)


def _named(algorithm: str) -> Algorithm:
    named = parse_algorithm(algorithm)
    if named.name == AUTO:
        raise UsageError("algorithm: 'auto' has no schedule of its own: name one")
    return named


def _flags(name: str) -> set[str]:
    return {option.name for option in row_of(name).options if option.default is None}


def _hosts(hosts: Sequence[int]) -> list[int]:
    return [check_whole(host, f"hosts[{rank}]") for rank, host in enumerate(hosts)]
