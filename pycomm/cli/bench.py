"""``pycomm bench``: one subcommand a collective operation."""

import signal
import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from pycomm import init, run
from pycomm.algorithms import parse_algorithms
from pycomm.backends import NAMES as BACKENDS
from pycomm.buffers import DTYPES
from pycomm.cli.copy import copy
from pycomm.cli.options import FORCE, FORMAT, OUT, RANKS, TRANSPORT, choices, command_line, ranks_of_job
from pycomm.cli.packing import packing
from pycomm.collectives import COLLECTIVES, Collective
from pycomm.cuda.collective import SHOTS
from pycomm.errors import UsageError
from pycomm.files import check_writable
from pycomm.launch import interrupt_once
from pycomm.measure.loop import Policy
from pycomm.measure.record import append_end
from pycomm.measure.session import FAILED, INTERRUPTED, Options, run_session
from pycomm.measure.sweep import Plan, find_contenders
from pycomm.operation import OPS
from pycomm.units import parse_percent, parse_sizes

DEFAULT_SIZES: Final = "4:64M:x4"

Command = TypeVar("Command", bound=Callable[..., Any])


class Positive(click.ParamType[float]):
    """A number of seconds above zero."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            seconds = float(value)
        except ValueError:
            seconds = -1.0
        if not 0 < seconds < 1e9:
            self.fail(f"{value!r}: wanted a number of seconds above 0", param, ctx)
        return seconds


OPTIONS: Final = (
    RANKS,
    TRANSPORT,
    click.option("--backends", default="native", show_default=True, help=f"A list of {', '.join(BACKENDS)}."),
    click.option("--algorithms", help="A list such as ring,ps:servers=2. Default: all that apply."),
    click.option("--sizes", default=DEFAULT_SIZES, show_default=True, help="Bytes: a list, ranges FROM:TO:xFACTOR."),
    click.option("--dtypes", default="float32", show_default=True, help=f"A list of {', '.join(DTYPES)}."),
    click.option("--in-place", is_flag=False, flag_value="yes", type=click.Choice(["yes", "both"]), default=None,
                 help="In place instead of out of place; both for both."),
    click.option("--buffers", type=click.Choice(["ordinary", "symmetric"]), default="ordinary", show_default=True,
                 help="Arrays of NumPy, or memory that the other ranks read in place."),
    click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True,
                 help="Where the buffers lie and the reduction runs."),
    click.option("--target-ci", default="2%", show_default=True, help="Stop when the median is known so well."),
    click.option("--max-seconds", type=Positive(), default=1.0, show_default=True, help="Budget of a row's loop."),
    click.option("--iterations", type=click.IntRange(min=1), help="Take exactly so many samples."),
    click.option("--warmup", type=click.IntRange(min=1), default=5, show_default=True, help="Calls before timing."),
    click.option("--graph", is_flag=True, help="On a GPU, launch each sample's calls as one CUDA graph."),
    click.option("--barrier", type=click.Choice(["each", "none"]), default="each", show_default=True,
                 help="Before each sample, or only before a round of them."),
    click.option("--timeout", type=Positive(), default=30.0, show_default=True, help="Silence that ends the run."),
    OUT,
    FORCE,
    FORMAT,
    click.option("--quiet", is_flag=True, help="No progress, no warnings."),
)  # fmt: skip
OP: Final = click.option("--op", type=click.Choice(OPS), default="sum", show_default=True, help="The reduction.")
ROOT: Final = click.option("--root", type=click.IntRange(min=0), default=0, show_default=True,
                           help="The rank that has, or gets, the whole.")  # fmt: skip


def common_options(function: Command) -> Command:
    """The options that every benchmark has."""
    for option in reversed(OPTIONS):
        function = option(function)
    return function


@click.group()
def command() -> None:
    """Measure a collective operation over sizes, algorithms and backends."""


command.add_command(copy)
command.add_command(packing)


def _benchmark(facts: Collective) -> click.Command:
    """The subcommand of a collective: the common options, with --op and --root where it has them."""

    def run_benchmark(**given: Any) -> int:
        if given["graph"] and given["device"] != "cuda":
            raise UsageError("--graph: CUDA graphs need --device cuda")
        plan = Plan(
            backends=choices("--backends", given["backends"], BACKENDS),
            algorithms=_algorithms(given["algorithms"], given["device"]),
            sizes=tuple(parse_sizes(given["sizes"], "--sizes")),
            dtypes=choices("--dtypes", given["dtypes"], DTYPES),
            collective=facts.name,
            op=given.get("op", ""),
            root=given.get("root", 0),
            in_place={None: (False,), "yes": (True,), "both": (False, True)}[given["in_place"]],
            buffers=given["buffers"],
            device=given["device"],
            policy=Policy(
                target_ci=parse_percent(given["target_ci"], "--target-ci"),
                max_seconds=given["max_seconds"],
                iterations=given["iterations"],
                warmup=given["warmup"],
                barrier=given["barrier"],
                graph=given["graph"],
            ),
        )
        options = Options(
            plan=plan,
            command=command_line(),
            out=given["out"],
            force=given["force"],
            format=given["format_"],
            quiet=given["quiet"],
        )
        return start(options, given["ranks"], given["transport"], given["timeout"])

    function: Callable[..., Any] = run_benchmark
    for option in (*[ROOT] * facts.rooted, *[OP] * facts.reduces):
        function = option(function)
    return click.command(facts.command, help=facts.summary, short_help=facts.summary)(common_options(function))


for _facts in COLLECTIVES.values():
    command.add_command(_benchmark(_facts))


def start(options: Options, ranks: int | None, transport: str, timeout_s: float) -> int:
    """Run a session on the launcher's ranks, or on local ones. Returns the exit status."""
    launched, ranks = ranks_of_job(ranks)
    if launched:
        return _join(options, transport, timeout_s)
    return _start_local(options, ranks, transport, timeout_s)


def _start_local(options: Options, ranks: int, transport: str, timeout_s: float) -> int:
    """Start ranks here. If rank 0 could not end the results file, this process does."""
    _check(options, ranks)
    signal.signal(signal.SIGTERM, interrupt_once)
    try:
        return run(run_session, ranks, transport, (options,), timeout=timeout_s)[0]
    except KeyboardInterrupt:
        _end_file(options, "interrupted", INTERRUPTED, "interrupted")
        raise
    except BaseException as error:
        _end_file(options, "failed", FAILED, str(error))
        raise


def _join(options: Options, transport: str, timeout_s: float) -> int:
    """Be one of a launcher's ranks."""
    comm = init(transport, timeout=timeout_s)
    try:
        refused = comm.world.broadcast(_reason_against(options, comm.ranks) if comm.rank == 0 else "")
        if refused:
            comm.close()
            raise UsageError(refused)
        signal.signal(signal.SIGTERM, interrupt_once)
        status = run_session(comm, options)
        comm.close()
        return status
    except UsageError:
        raise
    except BaseException as error:
        # Said before the other ranks are ended, since that may end this process too.
        print(f"pycomm: rank {comm.rank}: {error or type(error).__name__}", file=sys.stderr, flush=True)
        comm.abort(str(error))
        raise


def _check(options: Options, ranks: int) -> None:
    """Raises UsageError for what can be refused before any rank starts."""
    find_contenders(options.plan, ranks)
    if options.out is not None:
        check_writable(options.out, force=options.force, option="--out")


def _reason_against(options: Options, ranks: int) -> str:
    try:
        _check(options, ranks)
    except UsageError as error:
        return str(error)
    return ""


def _end_file(options: Options, status: str, exit_status: int, reason: str) -> None:
    if options.out is not None and options.out.exists():
        append_end(options.out, status, exit_status, reason)


def _algorithms(text: str | None, device: str) -> tuple[str, ...]:
    kernels = tuple(SHOTS) if device == "cuda" else ()
    return () if text is None else tuple(str(algorithm) for algorithm in parse_algorithms(text, kernels=kernels))
