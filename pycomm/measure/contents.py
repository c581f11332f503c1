"""What the buffers of each collective hold before a call and must hold after it, on each rank.

Elements that are only moved come from one long walk over the blocks of all ranks; the contributions of a reduction
from walks that differ by rank (pattern.py). So what lies in the wrong place, or comes from the wrong rank, shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pycomm.collectives import COLLECTIVES
from pycomm.measure.elements import bits_of
from pycomm.measure.pattern import Array, count_differing, fill, make_pattern, make_walk


@dataclass(frozen=True)
class Piece:
    """`count` elements of a repeated period, from place `start` on."""

    period: Array
    start: int
    count: int

    @property
    def complement(self) -> Piece:
        """Elements none of which is that of this piece."""
        return Piece((~bits_of(self.period)).view(self.period.dtype), self.start, self.count)

    def turned(self) -> Array:
        """The period as it begins here, no longer than the piece."""
        size = min(self.period.size, self.count)
        places: npt.NDArray[np.int64] = (self.start + np.arange(size)) % self.period.size
        turned: Array = self.period[places]
        return turned


Pieces = tuple[Piece, ...]


@dataclass(frozen=True)
class Contents:
    """One rank's part: the input, which stays as it is (None in place), and the output before and after the call."""

    send: Pieces | None
    before: Pieces
    after: Pieces


@dataclass(frozen=True)
class Call:
    """What is run: `block` elements, of one rank or for one, as collectives.py has it; `ranks` contribute."""

    collective: str
    dtype: str
    op: str
    ranks: int
    block: int
    root: int = 0


def make_contents(call: Call, rank: int, period: int, in_place: bool) -> Contents:
    """The contents of contributor `rank`'s buffers.

    Outputs start out as the complement of what they should be, so that an element left alone is wrong. The output of a
    reduce on a rank that is not the root must stay as it was.
    """
    send, result = _MEANINGS[call.collective](call, rank, period)
    if not in_place:
        before = (send,) if result is None else _complement(result)
        return Contents((send,), before, before if result is None else result)
    if result is None:
        return Contents(None, (send,), (send,))
    facts = COLLECTIVES[call.collective]
    own = rank * call.block
    if facts.rooted and not facts.reduces:
        return Contents(None, (send,) if rank == call.root else _complement(result), result)
    if facts.receives_blocks and not facts.sends_blocks:
        before = _complement(result)
        return Contents(None, (*before[:rank], send, *before[rank + 1 :]), result)
    if facts.sends_blocks and not facts.receives_blocks:
        last = send.count - own - call.block
        around = Piece(send.period, 0, own), Piece(send.period, own + call.block, last)
        return Contents(None, (send,), (around[0], *result, around[1]))
    return Contents(None, (send,), result)


def fill_pieces(buffer: Array, pieces: Pieces) -> None:
    """Write pieces over a one-dimensional buffer, one after another."""
    begin = 0
    for piece in pieces:
        if piece.count:
            fill(buffer[begin : begin + piece.count], piece.turned())
        begin += piece.count


def count_wrong_elements(buffer: Array, pieces: Pieces) -> int:
    """How many elements of a one-dimensional buffer are not, bit for bit, those of the pieces."""
    begin = wrong = 0
    for piece in pieces:
        if piece.count:
            wrong += count_differing(buffer[begin : begin + piece.count], piece.turned())
        begin += piece.count
    return wrong


def _complement(pieces: Pieces) -> Pieces:
    return tuple(piece.complement for piece in pieces)


# What a rank puts in, and gets (None: nothing).
Meaning = tuple[Piece, Pieces | None]


def _allreduce(call: Call, rank: int, period: int) -> Meaning:
    pattern = make_pattern(call.dtype, call.op, call.ranks, rank, period)
    return Piece(pattern.contribution, 0, call.block), (Piece(pattern.expected, 0, call.block),)


def _reduce(call: Call, rank: int, period: int) -> Meaning:
    send, result = _allreduce(call, rank, period)
    return send, result if rank == call.root else None


def _reduce_scatter(call: Call, rank: int, period: int) -> Meaning:
    pattern = make_pattern(call.dtype, call.op, call.ranks, rank, period)
    whole = Piece(pattern.contribution, 0, call.ranks * call.block)
    return whole, (Piece(pattern.expected, rank * call.block, call.block),)


def _allgather(call: Call, rank: int, period: int) -> Meaning:
    walk = make_walk(call.dtype, period)
    blocks = tuple(Piece(walk, peer * call.block, call.block) for peer in range(call.ranks))
    return blocks[rank], blocks


def _broadcast(call: Call, rank: int, period: int) -> Meaning:
    walk = make_walk(call.dtype, period)
    return Piece(walk, rank * call.block, call.block), (Piece(walk, call.root * call.block, call.block),)


def _alltoall(call: Call, rank: int, period: int) -> Meaning:
    walk, whole = make_walk(call.dtype, period), call.ranks * call.block
    blocks = (Piece(walk, peer * whole + rank * call.block, call.block) for peer in range(call.ranks))
    return Piece(walk, rank * whole, whole), tuple(blocks)


_MEANINGS: dict[str, Callable[[Call, int, int], Meaning]] = {
    "allreduce": _allreduce,
    "reduce_scatter": _reduce_scatter,
    "allgather": _allgather,
    "broadcast": _broadcast,
    "reduce": _reduce,
    "alltoall": _alltoall,
}
