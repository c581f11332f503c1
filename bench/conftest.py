"""Benchmarks over ranks: `pytest bench/` starts local ones, `mpirun -n 2 pytest bench/` uses those.

Rank 0 drives: before every call it tells the others to make it too, so that whatever number of rounds
pytest-benchmark wants, all ranks make the same calls. Rank 0 alone reports and saves.
"""

import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import pycomm
from pycomm import _core
from pycomm.buffers import checked_buffers
from pycomm.collectives import COLLECTIVES
from pycomm.communicator import Communicator
from pycomm.launched import launched_ranks
from pycomm.measure.contents import Call, make_contents
from pycomm.measure.elements import element_type
from pycomm.measure.verify import allocate_buffers, allocate_ordinary, count_wrong, pattern_period
from pycomm.operation import Operation
from pycomm.world import meet_by_name

PATIENCE_S = 120.0  # rank 0 may be busy with a benchmark of its own
GO, DONE = "go", "done"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--ranks", type=int, default=2, help="local ranks, when no launcher has started any")


def launcher_rank() -> int:
    """This process's rank under a launcher, 0 without one."""
    names = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "RANK")
    if launched_ranks() is None:
        return 0
    return int(next((os.environ[name] for name in names if name in os.environ), "0"))


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """All ranks but the first run the tests without a word and without a file."""
    if launcher_rank() == 0:
        return
    config.option.benchmark_disable = True
    config.option.benchmark_json = config.option.benchmark_autosave = config.option.benchmark_save = None
    session = config.pluginmanager.get_plugin("benchmark") and getattr(config, "_benchmarksession", None)
    if session is not None:
        session.disabled, session.json, session.save, session.autosave = True, None, None, None
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter._tw._file = open(os.devnull, "w")  # noqa: SIM115 (for the life of the process)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Benchmarks of one process are rank 0's alone."""
    if launcher_rank() != 0:
        items[:] = [item for item in items if "comm" in getattr(item, "fixturenames", ())]


@pytest.fixture(scope="session")
def comm(request: pytest.FixtureRequest) -> Iterator[Communicator]:
    """The communicator of all ranks; this process is rank 0 unless a launcher says otherwise."""
    if launched_ranks() is not None:
        with pycomm.init(timeout=PATIENCE_S) as communicator:
            yield communicator
        return
    ranks = request.config.getoption("--ranks")
    with local_ranks(ranks) as communicator:
        yield communicator


@contextmanager
def local_ranks(ranks: int) -> Iterator[Communicator]:
    """Forks the other ranks, which follow this one until it is done."""
    name = f"pycomm-bench-{os.getpid()}"
    launcher = os.getpid()
    context = multiprocessing.get_context("fork")

    def live(rank: int) -> None:
        _core.die_with_parent(launcher)
        with Communicator(meet_by_name(name, rank, ranks, kind="local", timeout=PATIENCE_S)) as communicator:
            while (order := communicator.world.broadcast(None)) != DONE:
                follow(communicator, prepare(communicator, *order))

    followers = [context.Process(target=live, args=(rank,), daemon=True) for rank in range(1, ranks)]
    for follower in followers:
        follower.start()
    with Communicator(meet_by_name(name, 0, ranks, kind="local", timeout=PATIENCE_S)) as communicator:
        yield communicator
        communicator.world.broadcast(DONE)
    for follower in followers:
        follower.join(5)


def prepare(
    comm: Communicator, collective: str, algorithm: str, size: int, dtype: str, buffers: str
) -> Callable[[], object]:
    """A collective on `size` bytes, rounded down to whole blocks, verified; all ranks call it together."""
    facts, itemsize = COLLECTIVES[collective], element_type(dtype).itemsize
    block = size // itemsize // (comm.ranks if facts.in_blocks else 1)
    counts = facts.send_count(block, comm.ranks), facts.receive_count(block, comm.ranks)
    arrays = allocate_buffers(*counts, dtype, False, comm.empty if buffers == "symmetric" else allocate_ordinary)
    checked = checked_buffers(comm, collective, arrays.send.inner, arrays.receive.inner)
    operation = Operation(comm, checked, algorithm=algorithm)
    period = pattern_period(max(counts), itemsize, comm.ranks, operation.segments)
    case = Call(collective, dtype, "sum" if facts.reduces else "", comm.ranks, block)
    wrong = count_wrong(operation.run, arrays, make_contents(case, comm.rank, period, in_place=False))
    assert sum(comm.world.allgather(wrong)) == 0
    return operation.run


def follow(comm: Communicator, run: Callable[[], object]) -> None:
    """What the other ranks do while rank 0 measures."""
    while comm.world.broadcast(None) == GO:
        comm.barrier()
        run()


@pytest.fixture
def measure(comm: Communicator, benchmark: Any) -> Callable[..., None]:
    """``measure(collective, algorithm, size, dtype, buffers, rounds)``: rank 0's time, from a barrier."""

    def measure(collective: str, algorithm: str, size: int, dtype: str, buffers: str, rounds: int) -> None:
        order = (collective, algorithm, size, dtype, buffers)
        if launched_ranks() is None:
            comm.world.broadcast(order)
        run = prepare(comm, *order)
        if comm.rank != 0:
            follow(comm, run)
            return

        def all_together() -> None:
            comm.world.broadcast(GO)
            comm.barrier()

        try:
            benchmark.pedantic(run, setup=all_together, rounds=rounds, warmup_rounds=5)
        finally:
            comm.world.broadcast(DONE)

    return measure
