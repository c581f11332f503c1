"""Algorithms by name and options, as the command line and the communicator take them.

>>> [str(algorithm) for algorithm in parse_algorithms("ring,ps:servers=2,dedicated,p2p")]
['ring', 'ps:servers=2,dedicated', 'mesh']
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from pycomm import _core
from pycomm.errors import UsageError

AUTO: Final = "auto"  # the one name that is no row: the fastest as far as is known
_NUMBER: Final = re.compile(r"[0-9]{1,9}", re.ASCII)


@dataclass(frozen=True)
class Option:
    """An option of an algorithm: a whole number from 1, or a flag."""

    name: str
    summary: str
    default: int | None  # None: a flag


@dataclass(frozen=True)
class Row:
    """A row of the registry."""

    name: str
    alias: str | None
    display: str  # as tables and pictures show it
    summary: str
    source: str
    collectives: tuple[str, ...]
    options: tuple[Option, ...]


@functools.cache
def registry() -> tuple[Row, ...]:
    """Every algorithm, in the registry's order."""
    return tuple(
        Row(
            name=row["name"],
            alias=row["alias"] or None,
            display=row["display"],
            summary=row["summary"],
            source=row["source"],
            collectives=tuple(row["collectives"]),
            options=tuple(
                Option(name, summary, None if default < 0 else default) for name, summary, default in row["options"]
            ),
        )
        for row in _core.algorithm_rows()
    )


def row_of(name: str) -> Row:
    """The row with this name or alias. Raises UsageError, listing the names, if there is none."""
    for row in registry():
        if name in (row.name, row.alias):
            return row
    raise UsageError(f"unknown algorithm {name!r}: one of {', '.join([row.name for row in registry()])}")


@dataclass(frozen=True)
class Algorithm:
    """A registry name, or ``auto``, with the options that were given; flags have the value 1."""

    name: str
    options: Mapping[str, int] = field(default_factory=dict)

    @property
    def options_text(self) -> str:
        """All its options in the row's order, defaults too: ``"servers=2,dedicated"``; ``""`` if it has none."""
        return "" if self.name == AUTO else _core.algorithm_options(self.name, self.options)

    @property
    def display(self) -> str:
        """The name as tables show it: ``"mesh (p2p)"``."""
        return AUTO if self.name == AUTO else row_of(self.name).display

    def applies(self, ranks: int, collective: str = "allreduce") -> str | None:
        """Why it cannot run on ``ranks`` ranks, ``"ps: needs a worker: …"``, or None if it can.

        Raises UsageError, naming the option, for one that no such world can have (more servers than ranks).
        """
        if self.name == AUTO:
            return None
        servers = self.options.get("servers", 1)
        if servers > ranks:
            raise UsageError(f"{self}: option 'servers' is {servers}, but there are {ranks} ranks")
        return _core.algorithm_refusal(self.name, collective, ranks, self.options)

    def __str__(self) -> str:
        given = self.options_text if self.options else ""
        return f"{self.name}:{given}" if given else self.name


def _names() -> set[str]:
    return {row.name for row in registry()} | {row.alias for row in registry() if row.alias}


def _option(name: str, item: str, wanted_by: Mapping[str, Option]) -> tuple[str, int]:
    key, equals, value = item.partition("=")
    if key not in wanted_by:
        names = f"one of {', '.join(wanted_by)}" if wanted_by else "it has none"
        raise UsageError(f"{key!r} is no algorithm, and no option of {name}: {names}")
    if wanted_by[key].default is None:
        if equals:
            raise UsageError(f"option {key!r} of {name} is a flag and takes no value, got {value!r}")
        return key, 1
    if not _NUMBER.fullmatch(value) or int(value) < 1:
        raise UsageError(f"option {key!r} of {name} needs a whole number from 1, got {value!r}")
    return key, int(value)


def _read(items: list[str], rowless: Collection[str]) -> Algorithm:
    head, _, first = items[0].partition(":")
    given = ([first] if ":" in items[0] else []) + items[1:]
    if head in rowless:
        if given:
            raise UsageError(f"{head!r} takes no options, got {given[0]!r}")
        return Algorithm(head)
    row = row_of(head)
    options: dict[str, int] = {}
    for item in given:
        key, value = _option(row.name, item, {option.name: option for option in row.options})
        if key in options:
            raise UsageError(f"option {key!r} of {row.name} is given twice")
        options[key] = value
    return Algorithm(row.name, options)


def parse_algorithms(text: str, option: str = "--algorithms", kernels: Collection[str] = ()) -> list[Algorithm]:
    """The algorithms of a list; items that begin with a registry name start a new one. Duplicates are dropped.

    ``"ring,ps:servers=2,dedicated,mesh"`` is three. `kernels`: names without a schedule that are known too. Raises
    UsageError, naming ``option`` and ``text``, for a name, an option or a value that the registry does not have.
    """
    if not isinstance(text, str):
        raise UsageError(f"{option}: {text!r}: wanted text such as 'ring' or 'ps:servers=2'")
    rowless = {AUTO, *kernels}
    names = _names() | rowless
    groups: list[list[str]] = []
    for item in text.split(","):
        if not groups or ":" in item or item in names:
            groups.append([item])
        else:
            groups[-1].append(item)
    try:
        found = [_read(group, rowless) for group in groups]
    except UsageError as error:
        raise UsageError(f"{option}: {text!r}: {error}") from None
    return [algorithm for k, algorithm in enumerate(found) if algorithm not in found[:k]]


def parse_algorithm(text: str, option: str = "algorithm") -> Algorithm:
    """The one algorithm that ``text`` names: ``"ps:servers=2,dedicated"``. Raises UsageError as parse_algorithms."""
    found = parse_algorithms(text, option)
    if len(found) != 1:
        raise UsageError(f"{option}: {text!r}: wanted one algorithm, got {len(found)}")
    return found[0]
