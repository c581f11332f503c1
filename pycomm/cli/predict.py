"""`pycomm predict`: the iteration time on N workers, what holds it back and what to do about it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import click

from pycomm.algorithms import AUTO, Algorithm, parse_algorithms
from pycomm.cli.listing import FORMATS, render, render_records
from pycomm.errors import UsageError
from pycomm.files import check_writable
from pycomm.model.measurements import choose, link_behind, read_fitted
from pycomm.model.network import PRESETS, Network, preset
from pycomm.model.predict import CHANGES, Prediction, Setup, changed, job_of, predict
from pycomm.model.spread import COMPUTE_PRESETS, iteration_by_preset, spread
from pycomm.model.strategies import STRATEGIES, strategy
from pycomm.model.tables import TABLES, table
from pycomm.trace import calibrate, read
from pycomm.trace.trace import Trace
from pycomm.units import parse_sizes

_DEFAULT_BATCH = 64
_DEFAULT_COMPUTE = "v100"
_HEADINGS = ("workers", "iteration ms", "speed-up", "exposed ms", "bottleneck", "2x saves", "best grouping")


@dataclass(frozen=True)
class _Case:
    """One trace on one network under one strategy and algorithm."""

    setup: Setup
    network: str
    algorithm: str  # with its options
    times: str  # where they come from

    @property
    def name(self) -> str:
        return f"{self.setup.trace.name} on {self.network}, {self.setup.strategy}, {self.algorithm}"


@click.command("predict")
@click.option("--traces", metavar="FILES", help="Trace files, separated by commas.")
@click.option("--models", metavar="NAMES", help=f"Model tables: {', '.join(TABLES)}.")
@click.option("--batch", type=int, help=f"Samples a worker (models; default {_DEFAULT_BATCH}).")
@click.option("--iteration-ms", type=float, help="Measured iteration of one worker, spread by FLOPs.")
@click.option("--compute", help=f"Device preset (models; default {_DEFAULT_COMPUTE}): {', '.join(COMPUTE_PRESETS)}.")
@click.option("--networks", metavar="NAMES", help=f"Preset links: {', '.join(PRESETS)}.")
@click.option("--fit", "fit_file", type=click.Path(path_type=Path), help="Results of bench, or a file of pycomm fit.")
@click.option("--ranks-a-host", type=int, default=1, show_default=True, help="Workers that share a network card.")
@click.option("--inside", metavar="NAME", help="Preset link inside a host (with --ranks-a-host).")
@click.option("--workers", default="1:64:x2", show_default=True, help="Worker counts: a list or a range.")
@click.option("--strategies", default="pytorch-ddp", show_default=True, help=f"Of {', '.join(STRATEGIES)}.")
@click.option("--algorithms", metavar="NAMES", help="All-reduce algorithms; default: the strategy's own.")
@click.option("--what-if", "what_if", metavar="CHANGES", help=f"Such as bandwidth=2x,batch=128: {', '.join(CHANGES)}.")
@click.option("--plot", type=click.Path(path_type=Path), help="Write the speed-up as a plot (svg, png, pdf).")
@click.option("--timeline", type=click.Path(path_type=Path), help="Write the last case for Perfetto.")
@click.option("--format", "format_", type=click.Choice(FORMATS), default="table", show_default=True)
@click.option("--force", is_flag=True, help="Overwrite files.")
def command(
    traces: str | None,
    models: str | None,
    batch: int | None,
    iteration_ms: float | None,
    compute: str | None,
    networks: str | None,
    fit_file: Path | None,
    ranks_a_host: int,
    inside: str | None,
    workers: str,
    strategies: str,
    algorithms: str | None,
    what_if: str | None,
    plot: Path | None,
    timeline: Path | None,
    format_: str,
    force: bool,
) -> None:
    """Predict the iteration time on N workers, and say what holds it back.

    The trace comes from --traces or is made from --models; the network from --networks or from measurements (--fit).
    """
    for option, path in (("--plot", plot), ("--timeline", timeline)):
        if path is not None:
            check_writable(path, force=force, option=option)
    counts = _counts(workers)
    changes = _changes(what_if)
    cases = _cases(
        _traces(traces, models, batch, iteration_ms, compute),
        _networks(networks, fit_file, ranks_a_host, inside),
        strategies.split(","),
        _algorithms(algorithms),
    )
    lines: dict[str, list[Prediction]] = {}
    blocks: list[str] = []
    records: list[dict[str, Any]] = []
    for case in cases:
        rows = [predict(case.setup, count) for count in counts]
        after = [predict(changed(case.setup, changes), count) for count in counts] if changes else []
        lines[case.name] = rows
        blocks.append(_block(case, rows, after, what_if or "", format_))
        records += _records(case, rows, after, what_if or "")
    click.echo(render_records(format_, records) if format_ in ("csv", "json") else "\n\n".join(blocks))
    if plot is not None:
        from pycomm.report import scaling

        scaling.write(lines, plot, force=force)
    if timeline is not None:
        from pycomm.model.tasks import run
        from pycomm.report import timeline as timeline_file

        timeline_file.write(run(job_of(cases[-1].setup, counts[-1]), iterations=6), timeline, force=force)


def _counts(text: str) -> list[int]:
    try:
        counts = parse_sizes(text, "--workers")
    except UsageError:
        counts = [0]
    if counts[0] < 1:
        raise UsageError(f"--workers: {text!r}: wanted counts from 1, such as 8, a list 1,2,4 or a range 1:64:x2")
    return counts


def _traces(
    files: str | None, models: str | None, batch: int | None, iteration_ms: float | None, compute: str | None
) -> list[tuple[Trace, str]]:
    """Each trace and the sentence that says where its times come from."""
    if bool(files) == bool(models):
        raise UsageError("--traces or --models: exactly one of them is wanted")
    if batch is not None and batch < 1:
        raise UsageError(f"--batch: {batch}; at least 1 is wanted")
    if iteration_ms is not None and not 0 < iteration_ms < float("inf"):
        raise UsageError(f"--iteration-ms: {iteration_ms}; a positive time is wanted")
    if compute is not None and (files or iteration_ms is not None):
        raise UsageError(f"--compute: {compute!r} would change nothing beside --traces or --iteration-ms")
    made: list[tuple[Trace, str]] = []
    for file in (files or "").split(",") if files else []:
        trace = read(file)
        if not trace.forward_known:
            if iteration_ms is None:
                raise UsageError(f"{file} holds no forward times: give the measured --iteration-ms of one worker")
            trace = calibrate(trace, iteration_ms * 1e-3)
        elif iteration_ms is not None:
            raise UsageError(f"{file} holds all times: --iteration-ms would change nothing")
        if batch is not None and trace.batch not in (None, batch):
            raise UsageError(
                f"--batch: {file} was taken at {trace.batch}: predict another with --what-if batch={batch}"
            )
        made.append((replace(trace, batch=batch) if batch else trace, f"times: {trace.source}"))
    for name in (models or "").split(",") if models else []:
        model = table(name)
        samples = batch or _DEFAULT_BATCH
        if iteration_ms is None:
            iteration_s, how = iteration_by_preset(model, samples, compute or _DEFAULT_COMPUTE)
        else:
            iteration_s, how = iteration_ms * 1e-3, "computing: the given iteration, spread by FLOPs"
        trace = spread(model, batch=samples, iteration_s=iteration_s)
        made.append((trace, f"batch {samples}; {how}; no input"))
    return made


def _networks(
    names: str | None, fit_file: Path | None, ranks_a_host: int, inside: str | None
) -> list[tuple[str, Network, Network | None, Network | None]]:
    """(name, network, and the same at both ends of a fit's intervals)."""
    if bool(names) == bool(fit_file):
        raise UsageError("--networks or --fit: exactly one of them is wanted")
    if ranks_a_host < 1:
        raise UsageError(f"--ranks-a-host: {ranks_a_host}; at least 1 is wanted")
    if inside is not None and ranks_a_host == 1:
        raise UsageError("--inside: with --ranks-a-host 1 there is no link inside a host")
    within = preset(inside) if inside else None
    if fit_file is not None:
        fitted = read_fitted(fit_file)
        try:
            algorithm, ranks, options, fit = choose(fitted, "ring")
        except UsageError as error:
            raise UsageError(f"--fit: {fit_file}: {error}") from None
        for warning in fit.warnings:
            click.echo(f"warning: {fit_file}: {warning}", err=True)
        behind = link_behind(fit, algorithm, ranks, options)
        found = [
            Network(between=one, inside=within, ranks_a_host=ranks_a_host)
            for one in (behind.link, behind.low, behind.high)
        ]
        return [(f"{fit_file} ({algorithm} on {ranks} ranks)", found[0], found[1], found[2])]
    return [
        (name, Network(between=preset(name), inside=within, ranks_a_host=ranks_a_host), None, None)
        for name in (names or "").split(",")
    ]


def _algorithms(text: str | None) -> list[Algorithm | None]:
    """Those asked for; None is the strategy's own."""
    if text is None:
        return [None]
    found = parse_algorithms(text)
    if any(algorithm.name == AUTO for algorithm in found):
        raise UsageError(f"--algorithms: {AUTO!r} has no schedule of its own: name one, or leave it to the strategy")
    return [*found]


def _cases(
    traces: list[tuple[Trace, str]],
    networks: list[tuple[str, Network, Network | None, Network | None]],
    strategies: list[str],
    algorithms: list[Algorithm | None],
) -> list[_Case]:
    cases = []
    for trace, times in traces:
        for network_name, network, low, high in networks:
            for name in strategies:
                for algorithm in algorithms:
                    used = algorithm.name if algorithm else strategy(name).algorithm
                    setup = Setup(
                        trace=trace,
                        network=network,
                        low=low,
                        high=high,
                        strategy=name,
                        algorithm=used,
                        options=algorithm.options if algorithm else {},
                    )
                    cases.append(_Case(setup, network_name, str(algorithm) if algorithm else used, times))
    return cases


def _changes(text: str | None) -> dict[str, float]:
    changes: dict[str, float] = {}
    for item in filter(None, (text or "").split(",")):
        name, equals, value = item.partition("=")
        if name in changes:
            raise UsageError(f"--what-if: {name!r} is given twice")
        try:
            changes[name] = float(value.removesuffix("x"))
        except ValueError:
            raise UsageError(f"--what-if: {item!r}: wanted NAME=NUMBER, such as bandwidth=2x") from None
        if not equals:
            raise UsageError(f"--what-if: {item!r}: wanted NAME=NUMBER, such as bandwidth=2x")
    return changes


def _milliseconds(value_s: float) -> str:
    return f"{value_s * 1e3:.4g}" if value_s < 10 else f"{value_s * 1e3:.0f}"


def _time(row: Prediction) -> str:
    text = _milliseconds(row.iteration_s)
    if row.low_s is None or row.high_s is None:
        return text
    return f"{text} ({_milliseconds(row.low_s)} to {_milliseconds(row.high_s)})"


def _block(case: _Case, rows: list[Prediction], after: list[Prediction], what_if: str, format_: str) -> str:
    headings = list(_HEADINGS)
    lines = [
        [
            str(row.workers),
            _time(row),
            f"{row.speed_up:.2f}",
            _milliseconds(row.exposed_s),
            row.bottleneck,
            f"{row.twice:.0%}",
            row.plan,
        ]
        for row in rows
    ]
    if after:
        headings += [f"ms if {what_if}", "change"]
        for line, row, other in zip(lines, rows, after, strict=True):
            line += [_milliseconds(other.iteration_s), f"{other.iteration_s / row.iteration_s - 1:+.0%}"]
    return f"{case.name}\n{case.times}\n\n{render(format_, headings, lines, [row.advice for row in rows])}"


def _records(case: _Case, rows: list[Prediction], after: list[Prediction], what_if: str) -> list[dict[str, Any]]:
    """The same as numbers: the fields of Prediction, and the iteration time of the changed world."""
    records = []
    for index, row in enumerate(rows):
        what = {"model": case.setup.trace.name, "network": case.network, "strategy": row.strategy}
        record = {**what, "algorithm": row.algorithm, **asdict(row)}
        if after:
            record.update(what_if=what_if, what_if_iteration_s=after[index].iteration_s)
        records.append(record)
    return records
