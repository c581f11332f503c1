"""Pictures of a schedule: a table to read in a terminal, and a space-time diagram."""

from __future__ import annotations

from collections import defaultdict
from html import escape
from typing import TYPE_CHECKING, Final

from pycomm.errors import UsageError

if TYPE_CHECKING:
    from pycomm.schedules import Message, Schedule

MOST_MESSAGES: Final = 20_000
MOST_RANKS_ACROSS: Final = 16  # of a table; beyond, messages are listed
MOST_RANKS_SVG: Final = 64
MOST_STEPS_LISTED: Final = 60

# Eight colours that people with any colour vision tell apart (Okabe & Ito, 2008), the palest left out.
_COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#666666")


def _part(schedule: Schedule, message: Message) -> str:
    if schedule.chunks == 1:
        return "all" if schedule.segments == 1 else f"{message.segment}"
    last = message.chunk + message.chunks - 1
    chunk = f"{message.chunk}" if message.chunks == 1 else f"{message.chunk}–{last}"
    return chunk if schedule.segments == 1 else f"{chunk}.{message.segment}"


def _part_name(schedule: Schedule) -> str:
    """What _part() writes."""
    if schedule.segments == 1:
        return "chunk" if schedule.chunks > 1 else "buffer"
    return "chunk.segment" if schedule.chunks > 1 else "segment"


def _check(schedule: Schedule, most_ranks: int | None = None) -> None:
    if most_ranks is not None and schedule.ranks > most_ranks:
        raise UsageError(f"a diagram has at most {most_ranks} ranks, this schedule has {schedule.ranks}")
    if schedule.ranks**2 > 20 * MOST_MESSAGES or len(schedule.messages) > MOST_MESSAGES:
        raise UsageError(
            f"{schedule.title}: more than {MOST_MESSAGES} messages, too many to draw: ask for fewer ranks or segments"
        )


def _sends(schedule: Schedule, messages: list[Message]) -> list[str]:
    """What one rank sends in one round: the same part to several ranks is one item."""
    receivers: dict[tuple[str, bool], list[int]] = defaultdict(list)
    for message in messages:
        receivers[_part(schedule, message), message.adds].append(message.receiver)
    return [f"{'+' if adds else '='}{part} → {','.join(map(str, to))}" for (part, adds), to in receivers.items()]


def _heads(schedule: Schedule) -> list[str]:
    return [f"{'rank' if rank < schedule.workers else 'server'} {rank}" for rank in range(schedule.ranks)]


def _table(schedule: Schedule, by_round: dict[int, dict[int, list[Message]]]) -> list[str]:
    heads = ["round", *_heads(schedule)]
    rows: list[list[str]] = []
    for number, by_sender in by_round.items():
        cells = [_sends(schedule, by_sender.get(rank, [])) for rank in range(schedule.ranks)]
        for line in range(max(map(len, cells))):
            first = str(number) if line == 0 else ""
            rows.append([first, *(cell[line] if line < len(cell) else "" for cell in cells)])
    widths = [max(len(row[k]) for row in [heads, *rows]) for k in range(len(heads))]
    lines = []
    for row in [heads, *rows]:
        cells_text = [
            row[0].rjust(widths[0]),
            *(cell.ljust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
        ]
        lines.append("  ".join(cells_text).rstrip())
    lines.insert(1, "  ".join("─" * width for width in widths))
    return lines


def _list(schedule: Schedule, by_round: dict[int, dict[int, list[Message]]]) -> list[str]:
    lines = []
    for number, by_sender in by_round.items():
        lines.append(f"round {number}")
        for rank, messages in by_sender.items():
            lines.append(f"  {rank:>4}  " + "   ".join(_sends(schedule, messages)))
    return lines


def draw_text(schedule: Schedule) -> str:
    """A table of rounds down and ranks across, then what rank 0 does."""
    _check(schedule)
    by_round: dict[int, dict[int, list[Message]]] = defaultdict(lambda: defaultdict(list))
    for message in schedule.messages:
        by_round[message.round][message.sender].append(message)
    lines = [schedule.title, f"{len(schedule.messages)} messages in {len(by_round)} rounds", ""]
    if by_round:
        lines += _table(schedule, by_round) if schedule.ranks <= MOST_RANKS_ACROSS else _list(schedule, by_round)
        lines += ["", f"+x → r: {_part_name(schedule)} x goes to rank r, which adds it; =x → r: which keeps it", ""]
    for lane, steps in enumerate(schedule.steps_of(0)):
        lanes = f", lane {lane}" if len(schedule.steps_of(0)) > 1 else ""
        lines.append(f"what rank 0 does{lanes}" + (" for each segment" if schedule.segments > 1 else ""))
        lines += [f"{number:>5}  {step}" for number, step in enumerate(steps[:MOST_STEPS_LISTED])]
        if len(steps) > MOST_STEPS_LISTED:
            lines.append(f"       … {len(steps) - MOST_STEPS_LISTED} more")
    return "\n".join(lines) + "\n"


def draw_svg(schedule: Schedule) -> str:
    """A space-time diagram: a line for each rank, time downwards, an arrow for each message."""
    _check(schedule, MOST_RANKS_SVG)
    numbered = schedule.chunks > 1 or schedule.segments > 1
    across = max(36, min(110, 1400 // schedule.ranks))
    in_turn: dict[tuple[int, int], list[Message]] = defaultdict(list)
    for message in schedule.messages:
        in_turn[message.round, message.sender].append(message)
    most = max(map(len, in_turn.values()), default=1)
    turn_down = min(12.0, 2000 / most)  # so that the numbers of messages sent in one round do not touch
    down = 52 + turn_down * most
    left, top = 70, 100
    rounds = max((message.round for message in schedule.messages), default=0)
    width = max(left + across * (schedule.ranks - 1) + 70, 560)
    height = top + rounds * down + 30

    def x(rank: int) -> float:
        return left + across * rank

    def y(number: float) -> float:
        return top + down * number

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        "<defs>",
        *(
            f'<marker id="head{k}" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="7" markerHeight="7" '
            f'orient="auto"><path d="M0 0.5 L8 4 L0 7.5 z" fill="{colour}"/></marker>'
            for k, colour in enumerate(_COLOURS)
        ),
        "</defs>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="20" y="26" font-size="15" font-weight="bold">{escape(schedule.title)}</text>',
        f'<text x="20" y="46" fill="#555">{len(schedule.messages)} messages in {rounds} rounds. Solid: the receiver '
        "adds it; dashed: it keeps it.</text>",
        f'<text x="20" y="63" fill="#555">The number is the {_part_name(schedule)}.</text>' if numbered else "",
    ]
    for number in range(rounds):
        shade = "#f6f6f6" if number % 2 == 0 else "#ffffff"
        parts.append(f'<rect x="0" y="{y(number)}" width="{width}" height="{down}" fill="{shade}"/>')
        parts.append(f'<text x="12" y="{y(number) + down / 2 + 4}" fill="#777">{number + 1}</text>')
    for rank, head in enumerate(_heads(schedule)):
        label = head if across >= 60 else str(rank)
        parts.append(f'<text x="{x(rank)}" y="{top - 12}" text-anchor="middle">{label}</text>')
        parts.append(
            f'<line x1="{x(rank)}" y1="{top}" x2="{x(rank)}" y2="{y(rounds) + 14}" stroke="#333" stroke-width="1.5"/>'
        )
    for (number, sender), messages in in_turn.items():
        for turn, message in enumerate(messages):
            start = y(number - 1) + 8 + turn_down * turn
            end = y(number) - 8
            kind = (message.chunk if schedule.chunks > 1 else message.segment) % len(_COLOURS)
            colour, dash = _COLOURS[kind], "" if message.adds else ' stroke-dasharray="5 3"'
            parts.append(
                f'<line x1="{x(sender)}" y1="{start:.1f}" x2="{x(message.receiver)}" y2="{end:.1f}" '
                f'stroke="{colour}" stroke-width="1.6"{dash} marker-end="url(#head{kind})"/>'
            )
            if numbered:
                share = min(0.3, 26 / (across * abs(message.receiver - sender)))
                at_x = x(sender) + share * (x(message.receiver) - x(sender))
                at_y = start + share * (end - start)
                place = f'x="{at_x:.1f}" y="{at_y + 4:.1f}" text-anchor="middle" font-size="11"'
                part = _part(schedule, message)
                parts.append(f'<text {place} fill="white" stroke="white" stroke-width="4">{part}</text>')
                parts.append(f'<text {place} fill="{colour}">{part}</text>')
    parts.append("</svg>")
    return "\n".join(parts) + "\n"
