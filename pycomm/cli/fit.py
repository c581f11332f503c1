"""`pycomm fit`: latency and bandwidth behind measured all-reduces, with confidence intervals."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from pycomm.cli.listing import FORMATS, render, render_records
from pycomm.errors import UsageError
from pycomm.files import check_writable, write_text
from pycomm.model.fit import Estimate
from pycomm.model.measurements import FEWEST_SIZES, Variant, fit_series, read_series, to_record
from pycomm.units import format_bytes

_HEADINGS = ("series", "from", "latency us", "95 %", "GB/s", "95 %", "residual", "points")


@click.command("fit")
@click.argument("results", type=click.Path(path_type=Path))
@click.option("--pieces/--line", default=True, show_default=True, help="Pieces where the data break, or one line.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the fit for pycomm predict --fit.")
@click.option("--format", "format_", type=click.Choice(FORMATS), default="table", show_default=True)
@click.option("--force", is_flag=True, help="Overwrite the file.")
def command(results: Path, pieces: bool, out: Path | None, format_: str, force: bool) -> None:
    """Fit latency and bandwidth to the all-reduces of a results file, one fit a series of sizes."""
    if out is not None:
        check_writable(out, force=force, option="--out")
    lines: list[list[str]] = []
    records: list[dict[str, Any]] = []
    for series in read_series(results):
        if len(series.points) < FEWEST_SIZES:
            click.echo(
                f"skipped: {series.variant.name}: {len(series.points)} sizes, a fit needs {FEWEST_SIZES}", err=True
            )
            continue
        fit = fit_series(series, pieces=pieces)
        records.append(to_record(fit, series))
        for piece in fit.pieces:
            lines.append(
                [
                    series.variant.name,
                    format_bytes(int(piece.from_bytes)),
                    f"{piece.latency_s.value * 1e6:.4g}",
                    _interval(piece.latency_s, 1e6),
                    _rate(piece.seconds_per_byte.value),
                    f"{_rate(piece.seconds_per_byte.high)} to {_rate(piece.seconds_per_byte.low)}",
                    f"{piece.residual:.1%}",
                    str(piece.points),
                ]
            )
        for warning in fit.warnings:
            click.echo(f"warning: {series.variant.name}: {warning}", err=True)
    if not lines:
        raise UsageError(f"{results}: no series of {FEWEST_SIZES} sizes or more")
    if format_ == "csv":
        click.echo(render_records(format_, [row for record in records for row in _pieces(record)]))
    else:
        click.echo(render_records(format_, records) if format_ == "json" else render(format_, _HEADINGS, lines))
    if out is not None:
        write_text(out, render_records("json", records) + "\n", force=force, option="--out")


def _pieces(record: dict[str, Any]) -> list[dict[str, Any]]:
    """A row a piece, nested fields with a dot: ``latency_s.value``."""
    series = {field.name: record[field.name] for field in fields(Variant)}
    return [
        {
            **series,
            "from_bytes": piece["from_bytes"],
            **{f"latency_s.{bound}": value for bound, value in piece["latency_s"].items()},
            **{f"seconds_per_byte.{bound}": value for bound, value in piece["seconds_per_byte"].items()},
            "residual": piece["residual"],
            "points": piece["points"],
        }
        for piece in record["pieces"]
    ]


def _interval(estimate: Estimate, scale: float) -> str:
    return f"{estimate.low * scale:.4g} to {estimate.high * scale:.4g}"


def _rate(seconds_per_byte: float) -> str:
    """Bytes of the all-reduce a second, in GB/s."""
    return "unbounded" if seconds_per_byte <= 0 else f"{1e-9 / seconds_per_byte:.4g}"
