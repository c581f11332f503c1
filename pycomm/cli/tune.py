"""``pycomm tune``: find out which algorithm is the fastest here, for ``auto`` to go by."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pycomm import init, run, tuning
from pycomm.algorithms import parse_algorithm, parse_algorithms
from pycomm.cli.bench import DEFAULT_SIZES, Positive
from pycomm.cli.options import RANKS, TRANSPORT, choices, ranks_of_job
from pycomm.collectives import COLLECTIVES
from pycomm.communicator import Communicator
from pycomm.errors import UsageError
from pycomm.launched import launched_ranks
from pycomm.machine import machine_kind
from pycomm.measure.columns import GAP, SIZE, format_us, groups_that_fit
from pycomm.measure.table import plain_console
from pycomm.measure.tune import Search, tune
from pycomm.units import format_bytes, parse_sizes

_CELL = len("1234567*")
_SIZE = SIZE.width + GAP


@dataclass(frozen=True)
class Options:
    """What was asked for, beyond the search."""

    search: Search
    path: Path
    quiet: bool


@click.command()
@RANKS
@TRANSPORT
@click.option("--collectives", default="allreduce", show_default=True, help="A list, as bench names them; or all.")
@click.option("--buffers", type=click.Choice(["ordinary", "symmetric", "both"]), default="both", show_default=True,
              help="Arrays of NumPy, memory that the other ranks read in place, or both.")  # fmt: skip
@click.option("--sizes", default=DEFAULT_SIZES, show_default=True, help="Bytes: a list, ranges FROM:TO:xFACTOR.")
@click.option("--algorithms", help="A list such as ring,ps:servers=2. Default: all that apply.")
@click.option("--max-seconds", type=Positive(), default=0.05, show_default=True, help="Of an algorithm at a size.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Another file than that auto looks at.")
@click.option("--quiet", is_flag=True, help="Print nothing.")
def command(
    ranks: int | None,
    transport: str,
    collectives: str,
    buffers: str,
    sizes: str,
    algorithms: str | None,
    max_seconds: float,
    out: Path | None,
    quiet: bool,
) -> None:
    """Measure which algorithm is the fastest at each size, and keep it for `auto`.

    It is kept in $PYCOMM_TUNING, else in the user's settings (pycomm/tuning.json), for this kind of machine and this
    number of ranks.
    """
    search = Search(
        collectives=_collectives(collectives),
        buffers=(tuning.ORDINARY, tuning.SYMMETRIC) if buffers == "both" else (buffers,),
        sizes=tuple(parse_sizes(sizes, "--sizes")),
        algorithms=tuple(map(str, parse_algorithms(algorithms))) if algorithms else (),
        seconds=max_seconds,
    )
    launched, ranks = ranks_of_job(ranks)
    _check(search, ranks)
    options = Options(search, _writable(out), quiet)
    if not launched:
        run(_tune, ranks, transport, (options,))
        return
    with init(transport) as comm:
        _tune(comm, options)


def _collectives(text: str) -> tuple[str, ...]:
    by_command = {collective.command: name for name, collective in COLLECTIVES.items()}
    asked = choices("--collectives", text, ("all", *by_command))
    return tuple(by_command.values() if "all" in asked else (by_command[item] for item in asked))


def _check(search: Search, ranks: int) -> None:
    """Raises UsageError for an algorithm that some collective does not have on so many ranks."""
    for collective in search.collectives:
        for text in search.algorithms:
            algorithm = parse_algorithm(text)
            try:
                refusal = algorithm.applies(ranks, collective)
            except UsageError as error:
                refusal = str(error)
            if algorithm.name == "auto" or "dedicated" in algorithm.options:
                refusal = f"{text}: wanted one that every rank takes part in, by its own name"
            if refusal is not None:
                raise UsageError(f"--algorithms: {refusal}")


def _writable(out: Path | None) -> Path:
    try:
        return tuning.writable_path(out)
    except UsageError as error:
        raise (UsageError(f"--out: {error}") if out else error) from None


def _tune(comm: Communicator, options: Options) -> None:
    machine = machine_kind()
    console = plain_console(Console(highlight=False), force=launched_ranks() is not None)
    for tuned in tune(comm, options.search):
        if comm.rank > 0:
            continue
        tuning.save(machine, [tuned], options.path)
        if not options.quiet:
            console.print(Text(_title(tuned.case), style="bold"))
            for names in groups_that_fit(list(next(iter(tuned.measured_s.values()))), _CELL, console.width - _SIZE):
                console.print(_table(tuned, names))
            console.print(f"kept in {options.path}", soft_wrap=True)
            console.print()


def _title(case: tuning.Case) -> str:
    world = f"{case.ranks} rank{'s' * (case.ranks != 1)}, transport {case.transport}, {case.buffers} buffers"
    return f"{COLLECTIVES[case.collective].title}, {world}; microseconds, * for auto"


def _table(tuned: tuning.Tuned, names: list[str]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("size", justify="right", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for size, seconds in tuned.measured_s.items():
        chosen = tuning.chosen(tuned.choice, size)
        figures = [format_us(seconds[name]) + ("*" if name == chosen else " ") for name in names]
        table.add_row(format_bytes(size), *figures)
    return table
