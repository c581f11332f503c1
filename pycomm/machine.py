"""What this machine is, as far as a measurement depends on it. Nothing here starts MPI or a GPU context."""

import os
import platform
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# The names of the environment that change how a run behaves. Only these are written down, so that no
# password or token of the user's environment ends up in a results file.
ENVIRONMENT_NAMES: Final = (
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_VISIBLE_DEVICES",
    "GOMP_CPU_AFFINITY",
    "KMP_AFFINITY",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MPI4PY_RC_THREAD_LEVEL",
    "MPICH_VERSION",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "OMPI_COMM_WORLD_SIZE",
    "OMP_NUM_THREADS",
    "OMP_PROC_BIND",
    "PMI_SIZE",
    "PYCOMM_CPU",
    "PYCOMM_QUEUE_BYTES",
    "PYCOMM_TMA",
    "SLURM_JOB_NUM_NODES",
    "SLURM_NTASKS",
    "WORLD_SIZE",
)
# Settings of communication libraries, every one of which may matter.
ENVIRONMENT_PREFIXES: Final = ("NCCL_", "OMPI_MCA_", "PRTE_MCA_", "UCX_", "MPIR_CVAR_", "FI_", "GLOO_")
# A word in a name that such a prefix lets through and that may still hold a secret or a person's path.
_PRIVATE: Final = ("KEY", "TOKEN", "SECRET", "PASS", "AUTH", "CRED", "URI", "PATH", "DIR", "FILE", "TMP")


@dataclass(frozen=True)
class Machine:
    """The host of the rank that writes: ``cores`` are those this process may use, ``memory_bytes`` is all."""

    host: str
    system: str
    cpu: str
    cores: int
    memory_bytes: int | None


def describe_machine() -> Machine:
    """The machine this process runs on."""
    return Machine(
        host=socket.gethostname(),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        cpu=cpu_model(),
        cores=len(usable_cores()),
        memory_bytes=_memory_bytes(),
    )


def machine_kind() -> str:
    """What machines of one kind have in common, whatever cores this process may use: ``"AMD EPYC 7763, 64 cores"``."""
    cores = os.cpu_count() or 1
    return f"{cpu_model()}, {cores} core{'s' * (cores != 1)}"


def usable_cores() -> frozenset[int]:
    """The cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The CPU's name as the kernel tells it, else the architecture."""
    try:
        with cpuinfo.open(errors="replace") as lines:  # of the first core: the file is long where there are many
            for line in lines:
                name, _, value = line.partition(":")
                if name.strip() in ("model name", "Model", "cpu model") and value.strip():
                    return " ".join(value.split())
    except OSError:
        pass
    return platform.processor() or platform.machine()


def mpi_name(version: str) -> str:
    """``"Open MPI v5.0.11"``, of what MPI's Get_library_version says: it goes on with how and when it was built."""
    return version.split("\0")[0].splitlines()[0].split(",")[0].strip()


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def allowed_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of an environment that may be written down, by name."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if name in ENVIRONMENT_NAMES
        or (name.startswith(ENVIRONMENT_PREFIXES) and not any(word in name.upper() for word in _PRIVATE))
    }
