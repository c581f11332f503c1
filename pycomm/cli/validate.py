"""`pycomm validate`: predicted against measured on published runs, one table, the mean absolute error a set."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from pycomm.cli.listing import FORMATS, render, render_records
from pycomm.cli.options import choices
from pycomm.errors import UsageError
from pycomm.model.validation import Row, bcaffe, largest_error, mean_error, survey, tf2017
from pycomm.units import format_rate

_SETS = ("bcaffe", "survey", "tf2017")
_HEADINGS = ("set", "case", "measured ms", "predicted ms", "error", "note")
_WHERE = Path("../shared/traces")


@click.command("validate")
@click.option("--sets", default=",".join(_SETS), show_default=True, help="Which published sets.")
@click.option("--folder", type=click.Path(path_type=Path), default=_WHERE, show_default=True,
              help="Where bcaffe/, survey_v100_10gbe.csv and tf_2017_throughput.csv lie.")  # fmt: skip
@click.option("--format", "format_", type=click.Choice(FORMATS), default="table", show_default=True)
def command(sets: str, folder: Path, format_: str) -> None:
    """Predict published runs and print the errors.

    Rows marked "calibrated" set the model and do not count. What each set is calibrated on stands in docs/model.md.
    """
    wanted = choices("--sets", sets, _SETS)
    lines: list[list[str]] = []
    records: list[dict[str, Any]] = []
    summary: list[str] = []
    for name in wanted:
        try:
            rows, remarks = _set(name, folder)
        except UsageError as error:
            raise UsageError(f"--folder: {error}; docs/model.md says what it is") from None
        lines += [_line(name, row) for row in rows]
        records += [{"set": name, **asdict(row), "error": row.error} for row in rows]
        for line in dict.fromkeys(row.line for row in rows):
            summary.append(_summary(name, line, [row for row in rows if row.line == line]))
        summary += remarks
    click.echo(render_records(format_, records) if format_ in ("csv", "json") else render(format_, _HEADINGS, lines))
    click.echo("\n".join(["", *summary]), err=format_ in ("csv", "json"))


def _set(name: str, folder: Path) -> tuple[list[Row], list[str]]:
    """The set's rows, and remarks on what was fitted."""
    if name == "bcaffe":
        return bcaffe.validate(folder / "bcaffe"), []
    if name == "tf2017":
        return tf2017.validate(folder / "tf_2017_throughput.csv"), []
    rows, links = survey.validate(folder / "survey_v100_10gbe.csv")
    inside, between = links.inside, links.between
    rest = survey.without_priority_all_reduce(rows)
    remarks = [
        f"survey: fitted on {' and '.join(survey.FITTED)}: inside a node {inside.latency_s * 1e6:.3g} us,"
        f" {format_rate(inside.bytes_per_s)} GB/s; between nodes {between.latency_s * 1e6:.3g} us,"
        f" {format_rate(between.bytes_per_s)} GB/s",
        f"survey: without ByteScheduler-A2A: mean absolute error {mean_error(rest):.1%}",
        *(
            f"survey: {case}: rank correlation of the methods {value:.2f}"
            for case, value in survey.rank_correlations(rows).items()
        ),
        f"survey: {survey.MISSED}",
    ]
    return rows, remarks


def _line(name: str, row: Row) -> list[str]:
    note = "calibrated" if row.calibrated else row.note
    label = name if row.line in row.case else f"{name}: {row.line}"
    return [
        label,
        row.case,
        f"{row.measured_s * 1e3:.4g}",
        f"{row.predicted_s * 1e3:.4g}",
        f"{round(row.error, 3) + 0.0:+.1%}",
        note,
    ]


def _summary(name: str, line: str, rows: list[Row]) -> str:
    count = sum(not row.calibrated for row in rows)
    return (
        f"{name}: {line}: mean absolute error {mean_error(rows):.2%} over {count} rows,"
        f" largest {largest_error(rows):+.1%}"
    )
