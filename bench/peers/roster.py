"""Who takes part, and how each is started."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from peers.environments import PROGRAMS, Environment, own, prepare
from peers.group import Group

MPIS: Final = ("openmpi", "mpich")
PEERS: Final = (*MPIS, "gloo")
NAMES: Final = {"openmpi": "Open MPI", "mpich": "MPICH", "gloo": "gloo", "pycomm": "pycomm"}
_BARRIER_LIBRARY: Final = str(PROGRAMS / "barrier.so")
_AS_ROOT: Final = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

Start = Callable[[int, int, Path], Group]  # ranks, largest count, folder for socket and log


def _mpirun(peer: str, environment: Environment, ranks: int) -> tuple[list[str], dict[str, str]]:
    """The launcher with its options, and its variables. Ranks pin themselves, as all peers' do: see rank.pin_to_core.

    Only where ranks outnumber cores is an MPI told to give its core away while it waits.
    """
    crowded = ranks > len(os.sched_getaffinity(0))
    mpirun = str(environment.folder / "bin" / "mpirun")
    variables = environment.variables()
    if peer == "openmpi":
        options = ["--bind-to", "none", "--mca", "mpi_yield_when_idle", str(int(crowded))]
        variables |= {**_AS_ROOT, "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
    else:
        options = ["-bind-to", "none"]
        if crowded:
            # It yields only where it may be called by several threads.
            variables |= {
                "MPIR_CVAR_POLLS_BEFORE_YIELD": "1",
                "MPIR_CVAR_DEFAULT_THREAD_LEVEL": "MPI_THREAD_MULTIPLE",
            }
    return [mpirun, *options, "-n", str(ranks)], variables


def c_loop(peer: str) -> Start:
    """An MPI's group in C. Raises environments.Missing."""
    environment = prepare(peer)

    def start(ranks: int, largest: int, folder: Path) -> Group:
        launcher, variables = _mpirun(peer, environment, ranks)
        program = str(PROGRAMS / f"mpi_loop_{peer}")
        return Group(peer, ranks, [[*launcher, program, "{socket}", "{page}", str(largest)]], variables, folder)

    return start


def python_loop(peer: str) -> Start:
    """A peer's group in Python. Raises environments.Missing."""
    environment = prepare(peer)
    python = str(environment.python)

    def start(ranks: int, largest: int, folder: Path) -> Group:
        rest = ["{socket}", "{page}", str(largest), _BARRIER_LIBRARY]
        if peer in MPIS:
            launcher, variables = _mpirun(peer, environment, ranks)
            commands = [[*launcher, python, "-m", "peers.rank_mpi4py", *rest]]
        else:
            variables = environment.variables() | {"GLOO_SOCKET_IFNAME": "lo"}
            store = str(folder / "store")
            commands = [[python, "-m", "peers.rank_gloo", *rest, str(rank), str(ranks), store] for rank in range(ranks)]
        return Group(f"{peer}-python", ranks, commands, variables, folder)

    return start


def start_pycomm(ranks: int, largest: int, folder: Path) -> Group:
    """pycomm's group: its native loop and its loop in Python, on both kinds of buffers."""
    environment = own()
    rest = ["{socket}", "{page}", str(largest), _BARRIER_LIBRARY, str(ranks)]
    command = [str(environment.python), "-m", "peers.rank_pycomm", *rest]
    return Group("pycomm", ranks, [command], environment.variables(), folder)


def start_limits(ranks: int, largest: int, folder: Path) -> Group:
    """The limits: ranks that share memory and wait for nobody."""
    command = [str(PROGRAMS / "limits"), "{socket}", "{page}", str(largest), str(ranks)]
    return Group("limits", ranks, [command], own().variables(), folder)
