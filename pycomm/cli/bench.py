"""``pycomm bench``: one subcommand a collective operation."""

import click


@click.group()
def command() -> None:
    """Measure a collective operation over sizes, algorithms and backends."""
