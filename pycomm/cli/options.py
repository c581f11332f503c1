"""Options that several commands have, and how they are read."""

from pathlib import Path
from typing import Final

import click

from pycomm.cli.listing import FORMATS
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

RANKS: Final = click.option("--ranks", type=click.IntRange(min=1),
                            help=f"Ranks to start ({DEFAULT_RANKS}); under a launcher, its own number.")  # fmt: skip
TRANSPORT: Final = click.option("--transport", type=click.Choice(["shm", "threads"]), default="shm", show_default=True,
                                help="Ranks are processes that share memory, or threads.")  # fmt: skip

# Where a benchmark's rows go.
OUT: Final = click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write records to this file.")
FORCE: Final = click.option("--force", is_flag=True, help="Write over an existing file.")
FORMAT: Final = click.option("--format", "format_", type=click.Choice(FORMATS), default="table",
                             show_default=True, help="Of what is printed.")  # fmt: skip


def command_line() -> tuple[str, ...]:
    """What was typed, for the run record."""
    return ("pycomm", *(click.get_current_context().find_root().obj or ()))


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
