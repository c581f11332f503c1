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
    table = Table(
        title=f"{COLLECTIVES[collective].title}, {ranks} ranks, {bytes:,} bytes; busiest rank", title_justify="left"
    )
    table.add_column("algorithm", no_wrap=True)
    for name in ("steps", "rounds", "wire bytes"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("options", no_wrap=True)
    table.add_column("what it does")
    table.add_column("source")
    for row, cost in rows:
        options = ",".join(option.name + ("" if option.default is None else "=…") for option in row.options)
        figures = [cost.steps, cost.rounds, cost.wire_bytes_busiest_rank]
        shown = ["—" if figure is None else f"{figure:,}" for figure in figures]
        table.add_row(row.display, *shown, options, cost.reason or row.summary, row.source)
    Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH).print(table)
