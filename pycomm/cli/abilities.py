"""What this build and this machine can do: looked up, nothing started."""

import ctypes
import importlib.metadata
import importlib.util
import platform
import shutil
import sys
from dataclasses import dataclass
from typing import Any, Final

from pycomm import __version__
from pycomm.cuda.probe import REBUILD, cuda_module
from pycomm.machine import describe_machine, mpi_name
from pycomm.units import format_bytes

# extra: (the package that shows it is there, its distribution, what it brings)
EXTRAS: Final = {
    "mpi": ("mpi4py", "mpi4py", "ranks under mpirun or srun, and the mpi backend"),
    "cuda": ("cupy", "cupy-cuda13x", "arrays on GPUs and the nccl backend"),
    "torch": ("torch", "torch", "the gloo backend"),
    "model": ("scipy", "scipy", "fits of cost models"),
    "report": ("matplotlib", "matplotlib", "plots"),
    "bench": ("pytest_benchmark", "pytest-benchmark", "the suites in bench/"),
}


@dataclass(frozen=True)
class Finding:
    """One line of the answer: what was looked for, whether it is there, and its description or the reason."""

    name: str
    present: bool
    text: str


def find_abilities() -> dict[str, list[Finding]]:
    """Everything ``pycomm info`` prints, by section."""
    return {
        "pycomm": [_version(), _native(), _isa(), _cuda_build()],
        "machine": _machine(),
        "MPI": [_mpi_package(), _mpi_library(), _mpi_launcher()],
        "GPU": [_gpu_driver()],
        "extras": [_extra(name) for name in EXTRAS],
    }


def pip_command(extra: str) -> str:
    """The command that installs one of pycomm's extras."""
    return f"pip install 'pycomm[{extra}]'"


def _version() -> Finding:
    return Finding("version", True, f"{__version__}, Python {platform.python_version()} at {sys.executable}")


def _core() -> Any:
    try:
        return importlib.import_module("pycomm._core")
    except ImportError as error:
        return error


def _native() -> Finding:
    core = _core()
    if isinstance(core, ImportError):
        return Finding("native core", False, f"{core}; rebuild with: pip install .")
    return Finding("native core", True, f"built in; the clock's tick is {core.clock_tick_ns()} ns")


def _isa() -> Finding:
    core = _core()
    if isinstance(core, ImportError):
        return Finding("kernels", False, "unknown without the native core")
    return Finding("kernels", True, f"{core.cpu_isa()}, of {', '.join(core.cpu_isas())}; PYCOMM_CPU forces one")


def _cuda_build() -> Finding:
    module = cuda_module()
    if module is None:
        return Finding("CUDA kernels", False, REBUILD)
    version = module.runtime_version()
    return Finding("CUDA kernels", True, f"built in, for CUDA {version // 1000}.{version % 1000 // 10}")


def _machine() -> list[Finding]:
    machine = describe_machine()
    memory = "unknown" if machine.memory_bytes is None else format_bytes(machine.memory_bytes)
    return [
        Finding("host", True, f"{machine.host}, {machine.system}"),
        Finding("CPU", True, machine.cpu),
        Finding("cores", True, f"{machine.cores} this process may use"),
        Finding("memory", True, memory),
    ]


def _mpi_package() -> Finding:
    try:
        return Finding("mpi4py", True, importlib.metadata.version("mpi4py"))
    except importlib.metadata.PackageNotFoundError:
        return Finding("mpi4py", False, f"not installed; {pip_command('mpi')}")


def _mpi_library() -> Finding:
    if importlib.util.find_spec("mpi4py") is None:
        return Finding("library", False, "unknown without mpi4py")
    try:
        import mpi4py

        mpi4py.rc.initialize = False  # look at the library without starting it
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else "mpi4py found no MPI library"
        return Finding("library", False, f"{reason}; install one with: {pip_command('mpi')}")
    return Finding("library", True, mpi_name(MPI.Get_library_version()))


def _mpi_launcher() -> Finding:
    for name in ("mpirun", "mpiexec", "srun"):
        path = shutil.which(name)
        if path:
            return Finding("launcher", True, path)
    return Finding("launcher", False, f"no mpirun, mpiexec or srun on PATH; {pip_command('mpi')} brings mpirun")


def _gpu_driver() -> Finding:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return Finding("GPU", False, "no NVIDIA driver here (libcuda.so.1 is not found)")
    if status := driver.cuInit(0):
        return Finding("GPU", False, f"the NVIDIA driver does not start: cuInit returns {status}")
    count = ctypes.c_int()
    driver.cuDeviceGetCount(ctypes.byref(count))
    names = []
    for device in range(count.value):
        name = ctypes.create_string_buffer(256)
        driver.cuDeviceGetName(name, len(name), device)
        names.append(f"{device}: {name.value.decode(errors='replace')}")
    return Finding("GPU", bool(names), ", ".join(names) or "the NVIDIA driver shows no device")


def _extra(extra: str) -> Finding:
    module, distribution, brings = EXTRAS[extra]
    if importlib.util.find_spec(module) is None:
        return Finding(extra, False, f"{brings}; {pip_command(extra)}")
    try:
        version = importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        version = "installed"
    return Finding(extra, True, f"{distribution} {version}: {brings}")
