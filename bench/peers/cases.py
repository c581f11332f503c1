"""Outcomes as rows of a results file, in the project's own records."""

from collections.abc import Sequence
from typing import Final

from peers.phases import FLOAT_BYTES
from peers.roster import NAMES
from peers.turns import Outcome
from pycomm.algorithms import parse_algorithm
from pycomm.measure import session
from pycomm.measure.record import CaseRecord, Loop, RunRecord, WorldRecord
from pycomm.measure.statistics import summarise

LIBRARY: Final = "library"  # a peer chooses its algorithm itself


def describe_run(command: Sequence[str]) -> RunRecord:
    """The run record: all groups live on this machine, so no rank is listed."""
    return session.describe_run(WorldRecord("side by side", "shm", ()), command)


def case_of(outcome: Outcome, table: str, ranks: int, size: int) -> CaseRecord:
    """One row. `benchmark` is the table: ``allreduce c``, ``allreduce python``, ``limit memory`` and so on."""
    contender = outcome.contender
    buffers, algorithm, options, language = "ordinary", LIBRARY, "", table
    if contender.limit:
        benchmark, backend, buffers, algorithm, language = f"limit {outcome.variant}", "limits", "symmetric", "", "c"
    elif contender.group.name == "pycomm":
        benchmark, backend = f"allreduce {table}", "native"
        language, buffers, name = (outcome.variant or f"{table}/{contender.name.split()[1]}/").split("/")
        chosen = parse_algorithm(name)
        algorithm, options = chosen.name, chosen.options_text
    else:
        benchmark, backend = f"allreduce {table}", contender.name
    summary = summarise(outcome.samples_s) if not outcome.reason else None
    algbw_Bps = size / summary.median if summary is not None and not contender.limit else None
    return CaseRecord(
        benchmark=benchmark,
        backend=backend,
        algorithm=algorithm,
        options=options,
        transport="shm",
        device="cpu",
        dtype="float32",
        op="sum",
        in_place=False,
        buffers=buffers,
        ranks=ranks,
        workers=ranks,
        hosts=1,
        link="shared memory",
        bytes=size,
        count=size // FLOAT_BYTES,
        status="skipped" if outcome.skipped else "failed" if outcome.reason else "wrong" if outcome.wrong else "ok",
        iterations=int(outcome.samples_ns.size),
        warmup=outcome.warmup,
        loop=Loop(language, "each", outcome.batch) if summary is not None else None,
        time_s=summary,
        algbw_Bps=algbw_Bps,
        busbw_Bps=algbw_Bps * 2 * (ranks - 1) / ranks if algbw_Bps is not None and ranks > 1 else None,
        wrong=outcome.wrong,
        reason=outcome.reason,
    )


def name_of(case: CaseRecord) -> str:
    """The column of a row: ``Open MPI``, ``pycomm symmetric``."""
    if case.backend == "native":
        return f"pycomm {case.buffers}"
    return NAMES.get(case.backend, case.backend)


def algorithm_of(case: CaseRecord) -> str:
    """As it is asked for: ``ps:servers=2``."""
    return f"{case.algorithm}:{case.options}" if case.options else case.algorithm
