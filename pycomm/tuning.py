"""Which algorithm is the fastest: what `pycomm tune` measured on this machine, else a rule shipped with pycomm.

A choice is a list of (from bytes, algorithm): each algorithm from its size up to the next one's. Choices are kept in
one JSON file of the user, by machine and world, and looked at when a world is made.
"""

from __future__ import annotations

import bisect
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from pycomm.algorithms import AUTO, parse_algorithm
from pycomm.checks import check_bytes
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
REDUCE_IN_PARTS_BYTES: Final = 256 << 10
FEW_RANKS: Final = 8

Choice = tuple[tuple[int, str], ...]  # ((0, "mesh"), (6000, "direct"), …)


@dataclass(frozen=True)
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

    Reduce-scatter and all-gather are the halves of `direct` (over the mesh) and `ring`, which move the same bytes; so
    the bound is theirs. A broadcast and a reduce take one hop over the mesh, up to four times as fast as a tree's two
    at 64 KiB and four ranks; among many ranks the root has fewer messages in a tree. Large broadcasts take a chain
    (`ring`), in which nobody sends the buffer twice; large reductions are summed in parts by everyone (`direct`), which
    among a few ranks pays on symmetric buffers alone. This was measured with two and four ranks, and is derived for
    more. All-to-all has one algorithm.
    """
    ring = ((DIRECT_BYTES + 1, "ring"),) if case.buffers == ORDINARY else ()
    few_ranks = case.ranks <= FEW_RANKS
    match case.collective:
        case "allreduce":
            few_bytes = MESH_BYTES_OF_TWO if case.ranks == 2 else MESH_BYTES
            return ((0, "mesh" if few_ranks else "recursive-doubling"), (few_bytes + 1, "direct"), *ring)
        case "reduce_scatter" | "allgather":
            return ((0, "mesh"), *ring)
        case "broadcast":
            return ((0, "mesh" if few_ranks else "tree"), *ring)
        case "reduce":
            parts = () if few_ranks and case.buffers == ORDINARY else ((REDUCE_IN_PARTS_BYTES, "direct"),)
            return ((0, "mesh" if few_ranks else "tree"), *parts)
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


def named_path() -> Path | None:
    """The file that ``PYCOMM_TUNING`` names, if it does."""
    named = os.environ.get("PYCOMM_TUNING")
    return Path(named) if named else None


def default_path() -> Path | None:
    """``tuning.json`` in the user's folder of settings; None for a user without a home."""
    settings = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    try:
        return Path(settings).expanduser() / "pycomm" / "tuning.json"
    except RuntimeError:
        return None


def load(machine: str, ranks: int, transport: str, path: Path | None = None) -> Choices:
    """What was tuned on this machine for such a world; nothing if there is no file.

    Entries for other worlds are not looked into: another version may have written them. Raises UsageError, naming the
    file, for one that cannot be read or whose entry for this world is broken. A default file that this user may not
    read counts as none.
    """
    named = path or named_path()
    path = named or default_path()
    choices: dict[Case, Choice] = {}
    for entry in _entries(path, or_none=named is None).get(machine, []) if path else ():
        if not isinstance(entry, dict) or (entry.get("ranks"), entry.get("transport")) != (ranks, transport):
            continue
        try:
            case = Case(*(entry[name] for name in _NAMES))
            steps = tuple((check_bytes(begin, "a size"), str(name)) for begin, name in entry["choice"])
            choices[case] = _checked(case, steps)
        except (KeyError, TypeError, ValueError) as error:
            raise UsageError(f"{path}: {entry!r}: {error!r}; {_REMEDY}") from None
    return choices


def writable_path(path: Path | None = None) -> Path:
    """Where `save` will write: `path`, else where `load` looks. Its folder is made if there is none.

    Raises UsageError where that cannot be, or what is there cannot be added to.
    """
    path = path or named_path() or default_path()
    if path is None:
        raise UsageError("no home folder to keep it in; --out or PYCOMM_TUNING names a file")
    _entries(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        trial = _beside(path)
        trial.touch()
        trial.unlink()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; --out or PYCOMM_TUNING names another file") from None
    return path


def save(machine: str, tuned: Sequence[Tuned], path: Path) -> None:
    """Add to the file, in place of what it says of the same machine and cases. Other entries stay, readable or not."""
    machines = _entries(path)
    replaced = [asdict(item.case) for item in tuned]
    kept = [
        entry
        for entry in machines.get(machine, [])
        if not (isinstance(entry, dict) and {name: entry.get(name) for name in _NAMES} in replaced)
    ]
    machines[machine] = kept + [
        {
            **asdict(item.case),
            "choice": [list(step) for step in item.choice],
            "measured_s": {str(size): dict(seconds) for size, seconds in item.measured_s.items()},
        }
        for item in tuned
    ]
    written = _beside(path)
    written.write_text(json.dumps({"schema": SCHEMA, "machines": machines}, indent=1) + "\n", encoding="utf-8")
    written.replace(path)


_NAMES: Final = tuple(field.name for field in fields(Case))
_REMEDY: Final = "pycomm tune writes a new one if you remove it"


def _beside(path: Path) -> Path:
    """Where this process writes first, so that nobody reads half a file."""
    return path.with_name(f"{path.name}.{os.getpid()}")


def _entries(path: Path, *, or_none: bool = False) -> dict[str, list[Any]]:
    """By machine. Nothing if there is no file; with `or_none` also if this user may not read it."""
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        if or_none and isinstance(error, PermissionError):
            return {}
        raise UsageError(f"{path}: {error.strerror}; PYCOMM_TUNING names another file") from None
    try:
        whole = json.loads(content)
        schema = whole["schema"]
        machines: dict[str, list[Any]] = whole["machines"]
        if schema == SCHEMA and not all(isinstance(entries, list) for entries in machines.values()):
            raise TypeError
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UsageError(f"{path}: this is no file of pycomm tune; {_REMEDY}") from None
    if schema != SCHEMA:
        raise UsageError(f"{path}: schema is {schema!r}, wanted {SCHEMA}; {_REMEDY}")
    return machines


def _checked(case: Case, choice: Choice) -> Choice:
    begins = [begin for begin, _ in choice]
    if not choice or begins[0] != 0 or any(b <= a for a, b in pairwise(begins)):
        raise UsageError(f"sizes {begins} do not begin at 0 and grow")
    if case.buffers not in (ORDINARY, SYMMETRIC):
        raise UsageError(f"buffers is {case.buffers!r}, wanted {ORDINARY} or {SYMMETRIC}")
    if case.collective not in COLLECTIVES:
        raise UsageError(f"collective is {case.collective!r}, wanted one of {', '.join(COLLECTIVES)}")
    for _, name in choice:
        algorithm = parse_algorithm(name)
        if algorithm.name == AUTO or "dedicated" in algorithm.options:
            raise UsageError(f"{name}: wanted one that every rank takes part in, by its own name")
        refusal = algorithm.applies(case.ranks, case.collective)
        if refusal is not None:
            raise UsageError(refusal)
    return choice
