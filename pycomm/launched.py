"""Which launcher started this process, and the world that its ranks make."""

from __future__ import annotations

import os

from pycomm.errors import Unavailable, UsageError
from pycomm.world import MpiWorld, SingleWorld, World, meet_by_name


def find_world(*, timeout: float = 30.0) -> World:
    """The world this process was started in: of mpirun or srun, of torchrun, or of this process alone."""
    launched = launched_ranks()
    if launched is None:
        return SingleWorld()
    launcher, ranks = launched
    if launcher == "torchrun":
        return _torchrun_world(ranks, timeout)
    if ranks == 1:
        return SingleWorld()
    try:
        world = MpiWorld(timeout=timeout)
    except (ImportError, RuntimeError) as error:  # mpi4py raises the second when it finds no library
        raise Unavailable(
            f"{launcher} started {ranks} ranks, but mpi4py cannot be used ({error}); pip install 'pycomm[mpi]'"
        ) from error
    if world.ranks != ranks:
        raise UsageError(
            f"{launcher} started {ranks} ranks, but mpi4py's MPI sees {world.ranks}: mpi4py uses another MPI than the "
            f"launcher; install mpi4py for the MPI whose mpirun is used"
        )
    return world


def launched_ranks() -> tuple[str, int] | None:
    """The launcher that started this process and its number of ranks; None without one."""
    environment = os.environ
    if "TORCHELASTIC_RUN_ID" in environment:
        return "torchrun", int(environment["WORLD_SIZE"])
    for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS"):
        if name in environment:
            return "mpirun", int(environment[name])
    if "SLURM_PROCID" in environment and "SLURM_STEP_ID" in environment:
        return "srun", int(environment.get("SLURM_STEP_NUM_TASKS", environment.get("SLURM_NTASKS", "1")))
    return None


def _torchrun_world(ranks: int, timeout: float) -> World:
    environment = os.environ
    if environment.get("LOCAL_WORLD_SIZE", str(ranks)) != str(ranks):
        raise Unavailable(
            f"torchrun started {ranks} ranks on several hosts; pycomm joins those of one: use mpirun across hosts"
        )
    if ranks == 1:
        return SingleWorld()
    keys = ("TORCHELASTIC_RUN_ID", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT")
    name = "-".join(["pycomm", str(os.getuid()), *(environment.get(key, "") for key in keys)])
    return meet_by_name(name, int(environment["RANK"]), ranks, kind="torchrun", timeout=timeout)
