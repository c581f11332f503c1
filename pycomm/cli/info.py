"""``pycomm info``: what this build and this machine can do, and what is missing, why, and what to do."""

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pycomm.cli.abilities import Finding, find_abilities
from pycomm.measure.table import plain_console


@click.command()
def command() -> None:
    """Say what this build and this machine can do, and what is missing and why."""
    console = plain_console(Console(highlight=False))
    for title, findings in find_abilities().items():
        console.print(_section(title, findings))


def _section(title: str, findings: list[Finding]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, show_header=False, pad_edge=False)
    table.add_column(style="cyan", no_wrap=True, min_width=14)
    table.add_column(overflow="fold")
    for finding in findings:
        mark = Text() if finding.present else Text("no: ", style="yellow")
        table.add_row(finding.name, mark + finding.text)
    return table
