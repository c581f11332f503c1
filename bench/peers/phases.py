"""The columns of the two tables, and the sizes that fit into memory."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from peers.group import Group, Lost
from peers.roster import Start, start_limits, start_pycomm
from peers.turns import Contender, Outcome, Pace, Retired, measure
from pycomm import _core

FLOAT_BYTES: Final = 4
LINE_BYTES: Final = 8  # the size whose time is held against the exchange of a line
MEMORY_FROM_BYTES: Final = 1 << 20  # smaller buffers stay in the caches, where another limit holds
BUFFERS: Final = ("ordinary", "symmetric")
_GROUPS_AT_ONCE: Final = 5  # pycomm counts twice, for its two kinds of buffers
_MEMORY_SHARE: Final = 0.8

Report = Callable[[int, Sequence[Outcome]], None]  # bytes, outcomes


@dataclass(frozen=True)
class Setting:
    """What both phases are told: `report` takes the outcomes of each size, `note` a sentence for the summary."""

    ranks: int
    sizes: Sequence[int]
    pace: Pace
    report: Report
    note: Callable[[str], None]


@dataclass
class Choices:
    """pycomm's fastest algorithm at each size and kind of buffers, found in the C phase."""

    algorithms: dict[tuple[int, str], str] = field(default_factory=dict)


@contextmanager
def _started(setting: Setting, peers: Mapping[str, Start], ours: Mapping[str, Start]) -> Iterator[dict[str, Group]]:
    """All groups, until they are hung up on; a peer that does not come up is noted. Raises Lost for one of `ours`."""
    largest = max(setting.sizes) // FLOAT_BYTES
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pycomm-peers-")))
        groups = {}
        for name, start in (*peers.items(), *ours.items()):
            try:
                groups[name] = start(setting.ranks, largest, folder)
            except Lost as error:
                if name in ours:
                    raise
                setting.note(f"{setting.ranks} ranks: {error}")
                continue
            stack.callback(groups[name].stop)
        yield groups


def sizes_that_fit(sizes: Sequence[int], ranks: int, available_bytes: int) -> list[int]:
    """Those whose buffers all groups can hold at once: an input and an output a rank and group."""
    needed = 2 * ranks * _GROUPS_AT_ONCE
    return [size for size in sizes if size * needed <= available_bytes * _MEMORY_SHARE]


def c_phase(setting: Setting, peers: Mapping[str, Start], algorithms: Sequence[str]) -> Choices:
    """C loop against C loop, and the limits. Raises Lost for pycomm and for the limits."""
    choices = Choices()
    retired: dict[str, Retired] = {}
    with _started(setting, peers, {"pycomm": start_pycomm, "limits": start_limits}) as groups:
        own = groups["pycomm"]
        for size in setting.sizes:
            contenders = [Contender(peer, groups[peer], ("c",)) for peer in peers if peer in groups]
            contenders += [
                Contender(f"pycomm {buffers}", own, tuple(f"c/{buffers}/{name}" for name in algorithms), needed=True)
                for buffers in BUFFERS
            ]
            contenders += [
                Contender(limit, groups["limits"], (limit,), needed=True, limit=True)
                for limit in _limits(size, setting.ranks)
            ]
            outcomes = measure(contenders, size // FLOAT_BYTES, setting.pace, _core.clock_tick_ns(), retired)
            for outcome in outcomes:
                if outcome.contender.group is own and not outcome.reason:
                    _, buffers, algorithm = outcome.variant.split("/")
                    choices.algorithms[size, buffers] = algorithm
            setting.report(size, outcomes)
    return choices


def _limits(size: int, ranks: int) -> list[str]:
    limits = ["memory"] if size >= MEMORY_FROM_BYTES else []
    return limits + (["line", "roundtrip"] if size == LINE_BYTES and ranks == 2 else [])


def python_phase(setting: Setting, peers: Mapping[str, Start], choices: Choices) -> None:
    """Python against Python. pycomm's native loop takes turns too, for what a call from Python adds.

    Raises Lost for pycomm.
    """
    retired: dict[str, Retired] = {}
    with _started(setting, peers, {"pycomm": start_pycomm}) as groups:
        for size in setting.sizes:
            contenders = [Contender(peer, groups[peer], ("python",)) for peer in peers if peer in groups]
            for buffers in BUFFERS:
                if (size, buffers) not in choices.algorithms:
                    continue
                rest = f"{buffers}/{choices.algorithms[size, buffers]}"
                contenders += [
                    Contender(f"pycomm {buffers} {language}", groups["pycomm"], (f"{language}/{rest}",), needed=True)
                    for language in ("python", "c")
                ]
            tick_ns = _core.clock_tick_ns()
            setting.report(size, measure(contenders, size // FLOAT_BYTES, setting.pace, tick_ns, retired))
