"""``pycomm schedule``: draw an algorithm's schedule, or prove it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from pycomm.cli.options import COLLECTIVE
from pycomm.collectives import COLLECTIVES
from pycomm.errors import UsageError
from pycomm.files import write_text
from pycomm.schedules import Facts, prove, schedule

FACTS = (
    "each contribution counts exactly once",
    "all ranks hold the same expression: equal bit for bit",
    "no deadlock with one slot a queue",
    "nothing is written over a place that a send still holds",
    "no early landing",
)


@click.command()
@click.argument("name")
@click.option("--ranks", type=click.IntRange(1, 1024), required=True, help="All ranks, dedicated servers too.")
@click.option("--verify", is_flag=True, help="Prove the five facts, out of place and in place, and draw nothing.")
@click.option("--format", "form", type=click.Choice(["text", "svg"]), help="What to draw; text unless said.")
@click.option("--segments", type=click.IntRange(1, 1024), help="Parts of each chunk; 1 unless said.")
@click.option("--in-place", is_flag=True, help="The input is the output's memory.")
@COLLECTIVE
@click.option("--root", type=click.IntRange(0), help="Of broadcast and reduce; rank 0 unless said.")
@click.option("--ranks-a-host", type=click.IntRange(1), help="Ranks that share a host; all unless said.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the picture to this file.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def command(
    name: str,
    ranks: int,
    verify: bool,
    form: str | None,
    segments: int | None,
    in_place: bool,
    collective: str,
    root: int | None,
    ranks_a_host: int | None,
    out: Path | None,
    force: bool,
) -> None:
    """Draw who sends what when, or prove a schedule right without running it.

    NAME is a row of `pycomm list`, with its options: ring, ps:servers=2,dedicated. With --verify alone the algorithm is
    proved for 1, 2, 3 and 5 segments, out of place and in place; with --segments or --in-place that schedule is.
    """
    collective = collective.replace("-", "_")
    if root is not None and not COLLECTIVES[collective].rooted:
        raise UsageError(f"--root: {COLLECTIVES[collective].title} has none")
    hosts = [rank // ranks_a_host for rank in range(ranks)] if ranks_a_host else []
    asked: Any = {"ranks": ranks, "collective": collective, "root": root or 0, "hosts": hosts}
    if verify:
        if form is not None or out is not None or force:
            raise UsageError("--verify draws nothing: leave out --format, --out and --force")
        began = time.monotonic()
        if segments is None and not in_place:
            facts = prove(name, **asked)
            what = "out of place and in place, for 1, 2, 3 and 5 segments"
        else:
            facts = schedule(name, segments=segments or 1, in_place=in_place, **asked).verify()
            parts = "1 segment" if segments in (None, 1) else f"{segments} segments"
            what = f"{'in place' if in_place else 'out of place'}, for {parts}"
        title = f"{name}, {ranks} ranks, {COLLECTIVES[collective].title}"
        click.echo(_proof(f"{title}: proved {what}", facts, time.monotonic() - began), nl=False)
        return
    if force and out is None:
        raise UsageError("--force: there is no --out to overwrite")
    drawn = schedule(name, segments=segments or 1, in_place=in_place, **asked)
    picture = drawn.svg() if form == "svg" else drawn.text()
    if out is None:
        click.echo(picture, nl=False)
        return
    write_text(out, picture, force=force, option="--out")


def _proof(title: str, facts: Facts, seconds: float) -> str:
    lines = [title, *(f"  {number}. {fact}" for number, fact in enumerate(FACTS, 1))]
    if facts.landings:
        lines.append(f"{facts.landings:,} messages are stored by the sums they send, where peers reach the buffers")
    lines.append(
        f"{facts.steps:,} steps and {facts.messages:,} messages a schedule, {facts.depth:,} one after another; "
        f"{facts.expressions:,} expressions; {seconds:.2f} s"
    )
    return "\n".join(lines) + "\n"
