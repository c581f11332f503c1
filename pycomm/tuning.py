"""Which algorithm is the fastest: what `pycomm tune` measured on this machine, else a rule shipped with pycomm.

A choice is a list of (from bytes, algorithm): each algorithm from its size up to the next one's. Choices are kept in
one JSON file of the user, by machine and world, and looked at when a world is made.
"""

from __future__ import annotations

import bisect
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from pycomm.algorithms import parse_algorithm
from pycomm.collectives import COLLECTIVES
from pycomm.errors import UsageError

SCHEMA: Final = 1
ORDINARY: Final = "ordinary"
SYMMETRIC: Final = "symmetric"
# An algorithm is left for another only where that is so much faster: closer ones change places from run to run.
WORTH_A_CHANGE: Final = 0.03

MESH_BYTES: Final = 4 << 10
MESH_BYTES_OF_TWO: Final = 64 << 10
DIRECT_BYTES: Final = 1 << 20

Choice = tuple[tuple[int, str], ...]  # ((0, "mesh"), (6000, "direct"), …)


@dataclass(frozen=True, order=True)
class Case:
    """What a choice is for."""

    collective: str
    ranks: int
    transport: str
    buffers: str  # ORDINARY or SYMMETRIC


Choices = Mapping[Case, Choice]


def chosen(choice: Choice, bytes: int) -> str:
    """The algorithm for a buffer of so many bytes (of the larger one, where input and output differ)."""
    return choice[bisect.bisect_right(choice, bytes, key=lambda item: item[0]) - 1][1]


def shipped(case: Case) -> Choice:
    """The rule for a world that nobody has tuned.

    All-reduce: few bytes take the fewest hops, so everyone to everyone (`mesh`) among a few ranks, by doubling among
    many; then `direct`, two hops at the least bytes; beyond a mebibyte of ordinary buffers, where all depends on what
    stays in the caches, `ring`. The bounds are those seen on two cores, of an EPYC and of a Xeon, with 2 to 7 ranks.

    The others are derived. Reduce-scatter and all-gather are the halves of `direct` (over the mesh) and `ring`, which
    move the same bytes; so the bound is theirs. A broadcast takes lg p hops down the tree, or, where many segments
    follow one another, a chain in which nobody sends the buffer twice. Reduce and all-to-all have one algorithm each.
    """
    ring = ((DIRECT_BYTES + 1, "ring"),) if case.buffers == ORDINARY else ()
    match case.collective:
        case "allreduce":
            few = "mesh" if case.ranks <= 8 else "recursive-doubling"
            few_bytes = MESH_BYTES_OF_TWO if case.ranks == 2 else MESH_BYTES
            return ((0, few), (few_bytes + 1, "direct"), *ring)
        case "reduce_scatter" | "allgather":
            return ((0, "mesh"), *ring)
        case "broadcast":
            return ((0, "tree"), *ring)
        case "reduce":
            return ((0, "tree"),)
        case _:
            return ((0, "mesh"),)


def choice_from(measured_s: Mapping[int, Mapping[str, float]]) -> Choice:
    """The choice that seconds by bytes and algorithm speak for.

    >>> choice_from({4: {"mesh": 1.0, "ring": 2.0}, 64: {"mesh": 3.0, "ring": 2.95}, 1024: {"mesh": 9.0, "ring": 1.0}})
    ((0, 'mesh'), (256, 'ring'))

    Walking up the sizes an algorithm is kept as long as none is faster by WORTH_A_CHANGE; then that one takes over
    which will be kept longest. It begins half way, on a logarithmic scale, between the last size where the one before
    was good enough and the first where it was not.
    """
    sizes = sorted(measured_s)
    good = {
        size: [name for name, s in seconds.items() if s <= min(seconds.values()) * (1 + WORTH_A_CHANGE)]
        for size, seconds in measured_s.items()
    }
    items: list[tuple[int, str]] = []
    for index, size in enumerate(sizes):
        if items and items[-1][1] in good[size]:
            continue

        def kept(name: str, following: Sequence[int] = sizes[index:]) -> int:
            return next((count for count, at in enumerate(following) if name not in good[at]), len(following))

        begin = round((sizes[index - 1] * size) ** 0.5) if items else 0
        items.append((begin, max(good[size], key=kept)))
    return tuple(items)


@dataclass(frozen=True)
class Tuned:
    """A choice with the measurements behind it: seconds by bytes and algorithm."""

    case: Case
    choice: Choice
    measured_s: Mapping[int, Mapping[str, float]]


def default_path() -> Path:
    """``PYCOMM_TUNING``, else ``tuning.json`` in the user's folder of settings."""
    named = os.environ.get("PYCOMM_TUNING")
    if named:
        return Path(named)
    settings = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(settings).expanduser() / "pycomm" / "tuning.json"


def load(machine: str, path: Path | None = None) -> Choices:
    """What was tuned on this machine; nothing if there is no file. Raises UsageError for one that cannot be read."""
    path = path or default_path()
    choices: dict[Case, Choice] = {}
    for entry in _entries(path).get(machine, []):
        try:
            case = Case(*(entry[name] for name in ("collective", "ranks", "transport", "buffers")))
            choices[case] = _checked(case, tuple((int(begin), str(name)) for begin, name in entry["choice"]))
        except (KeyError, TypeError, ValueError, UsageError) as error:
            raise UsageError(f"{path}: {entry!r}: {error!r}; {_REMEDY}") from None
    return choices


def save(machine: str, tuned: Sequence[Tuned], path: Path | None = None) -> Path:
    """Add to the file, in place of what it says of the same machine and cases. Returns the path."""
    path = path or default_path()
    machines = _entries(path)
    cases = [item.case for item in tuned]
    kept = [entry for entry in machines.get(machine, []) if Case(**{n: entry[n] for n in _NAMES}) not in cases]
    machines[machine] = kept + [
        {
            **asdict(item.case),
            "choice": [list(step) for step in item.choice],
            "measured_s": {str(size): dict(seconds) for size, seconds in item.measured_s.items()},
        }
        for item in tuned
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_name(f"{path.name}.{os.getpid()}")
    written.write_text(json.dumps({"schema": SCHEMA, "machines": machines}, indent=1) + "\n")
    written.replace(path)
    return path


_NAMES: Final = ("collective", "ranks", "transport", "buffers")
_REMEDY: Final = "pycomm tune writes a new one if you remove it"


def _entries(path: Path) -> dict[str, list[dict[str, Any]]]:
    """By machine."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; PYCOMM_TUNING names another file") from None
    try:
        whole = json.loads(text)
        schema, machines = whole["schema"], whole["machines"]
    except (ValueError, KeyError, TypeError):
        raise UsageError(f"{path}: this is no file of pycomm tune; {_REMEDY}") from None
    if schema != SCHEMA or not isinstance(machines, dict):
        raise UsageError(f"{path}: schema is {schema!r}, wanted {SCHEMA}; {_REMEDY}")
    return machines


def _checked(case: Case, choice: Choice) -> Choice:
    begins = [begin for begin, _ in choice]
    if not choice or begins[0] != 0 or any(b <= a for a, b in pairwise(begins)):
        raise UsageError(f"sizes {begins} do not begin at 0 and grow")
    if case.collective not in COLLECTIVES:
        raise UsageError(f"collective is {case.collective!r}, wanted one of {', '.join(COLLECTIVES)}")
    for _, name in choice:
        refusal = parse_algorithm(name).applies(case.ranks, case.collective)
        if refusal is not None:
            raise UsageError(refusal)
    return choice
