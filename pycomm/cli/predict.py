"""`pycomm predict`: the iteration time on N workers, what holds it back and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import click

from pycomm.algorithms import Algorithm, parse_algorithm
from pycomm.cli.listing import FORMATS, render
from pycomm.errors import UsageError
from pycomm.files import check_writable
from pycomm.model.measurements import choose, link_behind, read_fitted
from pycomm.model.network import Network, preset
from pycomm.model.predict import Prediction, Setup, changed, job_of, predict
from pycomm.model.spread import COMPUTE_PRESETS, iteration_by_preset, spread
from pycomm.model.strategies import STRATEGIES, strategy
from pycomm.model.tables import TABLES, table
from pycomm.trace import calibrate, read
from pycomm.trace.trace import Trace
from pycomm.units import parse_sizes

_DEFAULT_BATCH = 64
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
@click.option("--compute", default="v100", show_default=True, help=f"Device preset: {', '.join(COMPUTE_PRESETS)}.")
@click.option("--networks", metavar="NAMES", help="Preset links, separated by commas.")
@click.option("--fit", "fit_file", type=click.Path(path_type=Path), help="Results of bench, or a file of pycomm fit.")
@click.option("--ranks-a-host", type=int, default=1, show_default=True, help="Workers that share a network card.")
@click.option("--inside", metavar="NAME", help="Preset link inside a host (with --ranks-a-host).")
@click.option("--workers", default="1:64:x2", show_default=True, help="Worker counts: a list or a range.")
@click.option("--strategies", default="pytorch-ddp", show_default=True, help=f"Of {', '.join(STRATEGIES)}.")
@click.option("--algorithms", metavar="NAMES", help="All-reduce algorithms; default: the strategy's own.")
@click.option("--what-if", "what_if", metavar="CHANGES", help="bandwidth=2x,latency=2x,servers=4,batch=128, …")
@click.option("--plot", type=click.Path(path_type=Path), help="Write the speed-up as a plot (svg, png, pdf).")
@click.option("--timeline", type=click.Path(path_type=Path), help="Write the last case for Perfetto.")
@click.option("--format", "format_", type=click.Choice(FORMATS), default="table", show_default=True)
@click.option("--force", is_flag=True, help="Overwrite files.")
def command(
    traces: str | None,
    models: str | None,
    batch: int | None,
    iteration_ms: float | None,
    compute: str,
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
    counts = parse_sizes(workers, "--workers")
    if counts[0] < 1:
        raise UsageError("--workers: at least 1 is wanted")
    changes = _changes(what_if)
    cases = _cases(
        _traces(traces, models, batch, iteration_ms, compute),
        _networks(networks, fit_file, ranks_a_host, inside),
        strategies.split(","),
        _algorithms(algorithms),
    )
    lines: dict[str, list[Prediction]] = {}
    blocks: list[str] = []
    for case in cases:
        rows = [predict(case.setup, count) for count in counts]
        after = [predict(changed(case.setup, changes), count) for count in counts] if changes else []
        lines[case.name] = rows
        blocks.append(_block(case, rows, after, what_if or "", format_))
    click.echo(("\n\n" if format_ in ("table", "markdown") else "\n").join(blocks))
    if plot is not None:
        from pycomm.report import scaling

        scaling.write(lines, plot, force=force)
    if timeline is not None:
        from pycomm.model.tasks import run
        from pycomm.report import timeline as timeline_file

        timeline_file.write(run(job_of(cases[-1].setup, counts[-1]), iterations=6), timeline, force=force)


def _traces(
    files: str | None, models: str | None, batch: int | None, iteration_ms: float | None, compute: str
) -> list[tuple[Trace, str]]:
    """Each trace and the sentence that says where its times come from."""
    if bool(files) == bool(models):
        raise UsageError("--traces or --models: exactly one of them is wanted")
    if batch is not None and batch < 1:
        raise UsageError(f"--batch: {batch}; at least 1 is wanted")
    if iteration_ms is not None and not iteration_ms > 0:
        raise UsageError(f"--iteration-ms: {iteration_ms}; a positive time is wanted")
    made: list[tuple[Trace, str]] = []
    for file in (files or "").split(",") if files else []:
        trace = read(file)
        if not trace.forward_known:
            if iteration_ms is None:
                raise UsageError(f"{file} holds no forward times: give the measured --iteration-ms of one worker")
            trace = calibrate(trace, iteration_ms * 1e-3)
        elif iteration_ms is not None:
            raise UsageError(f"{file} holds all times: --iteration-ms would change nothing")
        made.append((replace(trace, batch=batch) if batch else trace, f"times: {trace.source}"))
    for name in (models or "").split(",") if models else []:
        model = table(name)
        samples = batch or _DEFAULT_BATCH
        if iteration_ms is None:
            iteration_s, how = iteration_by_preset(model, samples, compute)
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
        algorithm, ranks, options, fit = choose(read_fitted(fit_file), "ring")
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
    """Items that begin with a name start a new algorithm; the others are options of the one before."""
    if text is None:
        return [None]
    options = ("servers=", "dedicated")
    whole: list[str] = []
    for item in text.split(","):
        if whole and item.startswith(options):
            whole[-1] += ("," if ":" in whole[-1] else ":") + item
        else:
            whole.append(item)
    return [parse_algorithm(item) for item in whole]


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
    if format_ in ("csv", "json"):
        headings = ["model", "network", "strategy", "algorithm", *headings]
        lines = [[case.setup.trace.name, case.network, case.setup.strategy, case.algorithm, *line] for line in lines]
    body = render(format_, headings, lines, [row.advice for row in rows])
    return f"{case.name}\n{case.times}\n\n{body}" if format_ in ("table", "markdown") else body
