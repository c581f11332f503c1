"""One run of the benchmark on every rank: records and outputs around a sweep."""

import importlib.metadata
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

from rich.console import Console

from pycomm import __version__
from pycomm.backends import Contender
from pycomm.collectives import COLLECTIVES
from pycomm.communicator import Communicator
from pycomm.launched import launched_ranks
from pycomm.machine import allowed_environment, describe_machine, mpi_name
from pycomm.measure.columns import plain_name
from pycomm.measure.progress import ProgressSink
from pycomm.measure.record import SCHEMA, EndRecord, Member, RecordFile, RunRecord, WorldRecord
from pycomm.measure.sinks import FORMATS, FileLines, Notes, Output, Several
from pycomm.measure.surroundings import Surroundings, find_surroundings
from pycomm.measure.sweep import Counts, Plan, count_rows, find_contenders, run_sweep
from pycomm.measure.table import TableSink, place_name, plain_console

DONE: Final = 0
FAILED: Final = 1
INTERRUPTED: Final = 130


@dataclass(frozen=True)
class Options:
    """What `pycomm bench` was asked for, beyond the plan."""

    plan: Plan
    command: tuple[str, ...]
    out: Path | None = None
    force: bool = False
    format: str = "table"
    quiet: bool = False


def run_session(comm: Communicator, options: Options) -> int:
    """Sweep and write; all ranks call it together. Returns the exit status, the same on all ranks.

    However it ends, rank 0 writes the end record first. Raises what the sweep raised.
    """
    plan = options.plan
    contenders = find_contenders(plan, comm.ranks)
    surroundings = find_surroundings(comm)
    output = _open_outputs(comm, options, contenders, surroundings) if comm.rank == 0 else Several(())
    members = tuple(Member(member["rank"], member["host"], member["pid"]) for member in comm.world.members)
    world = WorldRecord(comm.world.kind, comm.transport, members)
    return record_run(
        output,
        describe_run(world, options.command, _libraries(comm, plan)),
        lambda counts: run_sweep(comm, plan, contenders, surroundings, output, counts),
    )


def record_run(output: Output, run: RunRecord, measure: Callable[[Counts], None]) -> int:
    """Write the run record, what `measure` writes and counts, and the end record. Returns the exit status.

    However it ends, the end record is written first. Raises what `measure` raised.
    """
    counts = Counts()
    try:
        output.begin(run)
        measure(counts)
    except KeyboardInterrupt:
        output.end(EndRecord("interrupted", INTERRUPTED, counts.by_status, "interrupted"))
        raise
    except BaseException as error:
        output.end(EndRecord("failed", FAILED, counts.by_status, str(error) or type(error).__name__))
        raise
    status = DONE if counts.all_right else FAILED
    output.end(EndRecord("done" if status == DONE else "failed", status, counts.by_status))
    return status


def describe_run(world: WorldRecord, command: Sequence[str], libraries: Mapping[str, str] | None = None) -> RunRecord:
    """The run record of this process's machine. `libraries`: versions beyond those that every run depends on."""
    versions = {"pycomm": __version__, "python": platform.python_version()}
    return RunRecord(
        schema=SCHEMA,
        started=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        versions={**versions, **_installed("numpy", "ml_dtypes"), **(libraries or {})},
        machine=describe_machine(),
        world=world,
        command=tuple(command),
        environment=allowed_environment(os.environ),
    )


def _libraries(comm: Communicator, plan: Plan) -> dict[str, str]:
    """The versions of the MPI and of the backends' packages that take part."""
    versions = {}
    if comm.world.kind == "mpi":
        from mpi4py import MPI

        versions["mpi"] = mpi_name(MPI.Get_library_version())
        versions |= _installed("mpi4py")
    return versions | (_installed("torch") if "gloo" in plan.backends else {})


def _installed(*packages: str) -> dict[str, str]:
    versions = {}
    for package in packages:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def _open_outputs(
    comm: Communicator, options: Options, contenders: list[Contender], surroundings: Surroundings
) -> Several:
    outputs: list[Output] = []
    if options.out is not None:
        outputs.append(FileLines(RecordFile(options.out, force=options.force)))
    if not options.quiet:
        errors = Console(stderr=True)
        # mpirun gives its ranks a terminal of their own, whatever its output goes to.
        shown = launched_ranks() is None and errors.is_terminal
        if shown and not (options.format == "table" and Console().is_terminal):
            outputs.append(ProgressSink(errors, count_rows(options.plan, contenders, comm.ranks)))
    if options.format == "table":
        outputs.append(_table(comm, options, contenders, surroundings))
    else:
        outputs.append(FORMATS[options.format](sys.stdout))
    outputs += [Notes()] * (not options.quiet)
    return Several(outputs)


def _table(comm: Communicator, options: Options, contenders: list[Contender], surroundings: Surroundings) -> TableSink:
    plan = options.plan
    hosts = len(set(surroundings.hosts))
    facts = COLLECTIVES[plan.collective]
    parts = [
        f"{facts.title} {plan.op}".strip(),
        *([f"root {plan.root}"] if facts.rooted else []),
        *([plan.dtypes[0]] if len(plan.dtypes) == 1 else []),
        *([place_name(plan.in_place[0])] if len(plan.in_place) == 1 else []),
        f"{comm.ranks} rank{'s' * (comm.ranks != 1)} on {hosts} host{'s' * (hosts != 1)}",
        "on GPUs" if plan.device == "cuda" else f"transport {comm.transport}",
        *([f"{plan.buffers} buffers"] if plan.device == "cpu" else []),
    ]
    return TableSink(
        plain_console(Console(highlight=False), force=launched_ranks() is not None),
        title=", ".join(parts),
        contenders=[plain_name(item.backend, item.algorithm, item.options) for item in contenders],
        rows=count_rows(plan, contenders, comm.ranks),
        types=len(plan.dtypes),
        places=len(plan.in_place),
        progress=not options.quiet,
    )
