"""``pycomm list``: the registry, with what each algorithm costs, counted from its schedule."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass

import click
from rich.console import Console
from rich.table import Table

from pycomm.algorithms import Algorithm, Row, registry
from pycomm.cli.options import COLLECTIVE
from pycomm.collectives import COLLECTIVES
from pycomm.schedules import schedule
from pycomm.units import parse_size

PLAIN_WIDTH = 170  # characters, where the output is no terminal
NARROW = 130  # below, six columns have no room


@dataclass(frozen=True)
class Cost:
    """What an algorithm costs at some ranks and bytes; None where it does not apply, with the reason."""

    steps: int | None
    rounds: int | None
    wire_bytes_busiest_rank: int | None
    reason: str | None


def cost_of(row: Row, ranks: int, bytes: int, collective: str) -> Cost:
    """Counted from the schedule of one segment."""
    reason = Algorithm(row.name).applies(ranks, collective)
    if reason is not None:
        return Cost(None, None, None, reason)
    counted = schedule(row.name, ranks=ranks, collective=collective)
    return Cost(counted.steps, counted.verify().depth, counted.wire_bytes(bytes), None)


@click.command()
@click.option("--ranks", type=click.IntRange(1, 1024), default=8, show_default=True, help="Ranks to count for.")
@click.option("--bytes", "size", default="1M", show_default=True, help="Size of the buffer to count for.")
@COLLECTIVE
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
def command(ranks: int, size: str, collective: str, form: str) -> None:
    """List the algorithms: steps and wire bytes of the busiest rank, counted from the schedule, and the source.

    A round is a message that waits for the one before it: their number counts latencies.
    """
    bytes = parse_size(size, "--bytes")
    collective = collective.replace("-", "_")
    rows = [(row, cost_of(row, ranks, bytes, collective)) for row in registry()]
    if form == "json":
        for row, cost in rows:
            click.echo(json.dumps({**asdict(row), **asdict(cost), "ranks": ranks, "bytes": bytes}))
        return
    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False)
    console.print(
        f"{COLLECTIVES[collective].title}, {ranks} rank{'s' * (ranks != 1)}, {bytes:,} bytes; busiest rank",
        style="italic",
    )
    console.print(_table(rows, narrow=console.width < NARROW))


def _table(rows: list[tuple[Row, Cost]], *, narrow: bool) -> Table:
    """On a narrow terminal options and source stand below what the algorithm does."""
    table = Table(box=None, pad_edge=False) if narrow else Table()
    table.add_column("algorithm", no_wrap=True)
    for name in ("steps", "rounds", "wire bytes"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("what it does",) if narrow else ("options", "what it does", "source"):
        table.add_column(name, no_wrap=name == "options", overflow="fold")
    for row, cost in rows:
        options = ",".join(option.name + ("" if option.default is None else "=…") for option in row.options)
        figures = [cost.steps, cost.rounds, cost.wire_bytes_busiest_rank]
        shown = ["—" if figure is None else f"{figure:,}" for figure in figures]
        texts = [options, cost.reason or row.summary, row.source]
        table.add_row(
            row.display, *shown, *(["\n".join(filter(None, [texts[1], texts[0], texts[2]]))] if narrow else texts)
        )
    return table
