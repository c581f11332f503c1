"""Options that several commands have, and how they are read."""

from typing import Final

import click

from pycomm.collectives import COLLECTIVES
from pycomm.errors import UsageError
from pycomm.launched import launched_ranks

DEFAULT_RANKS: Final = 2

COLLECTIVE: Final = click.option(
    "--collective",
    type=click.Choice([collective.command for collective in COLLECTIVES.values()]),
    default="allreduce",
    show_default=True,
    help="Which operation, as bench names it.",
)


def choices(option: str, text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """The items of a list, each one of `known`; duplicates dropped."""
    items = tuple(dict.fromkeys(text.split(",")))
    for item in items:
        if item not in known:
            raise UsageError(f"{option}: {item!r}: wanted {', '.join(known)}")
    return items


def ranks_of_job(ranks: int | None) -> tuple[bool, int]:
    """Whether a launcher has started the ranks, and how many there are. Raises UsageError for another --ranks."""
    launched = launched_ranks()
    if launched is None:
        return False, ranks or DEFAULT_RANKS
    launcher, size = launched
    if ranks is not None and ranks != size:
        raise UsageError(f"--ranks: {ranks}: {launcher} started {size}")
    return True, size
