"""Measure, prove and predict the communication of distributed deep learning."""

import importlib
import typing

from pycomm.errors import (
    DeviceError,
    Error,
    RankError,
    ScheduleError,
    TransportError,
    Unavailable,
    UsageError,
)

if typing.TYPE_CHECKING:
    from pycomm.communicator import Communicator, init
    from pycomm.launch import run
    from pycomm.measure.record import read_results
    from pycomm.operation import Operation
    from pycomm.packing import GradientPacker
    from pycomm.schedules import schedule

__version__ = "0.1.0"
__all__ = [
    "Communicator",
    "DeviceError",
    "Error",
    "GradientPacker",
    "Operation",
    "RankError",
    "ScheduleError",
    "TransportError",
    "Unavailable",
    "UsageError",
    "init",
    "read_results",
    "run",
    "schedule",
]

# Public names whose modules are imported at first use, so that `import pycomm` stays cheap.
_HOMES = {
    "Communicator": "pycomm.communicator",
    "GradientPacker": "pycomm.packing",
    "Operation": "pycomm.operation",
    "init": "pycomm.communicator",
    "read_results": "pycomm.measure.record",
    "run": "pycomm.launch",
    "schedule": "pycomm.schedules",
}

# Packages that are reached as attributes, imported at first use too.
_PARTS = ("model", "report", "trace")


def __getattr__(name: str) -> typing.Any:
    if name == "_core":
        return _native_module()
    if name in _PARTS:
        return importlib.import_module(f"pycomm.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'pycomm' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_PARTS})


def _native_module() -> typing.Any:
    try:
        return importlib.import_module("pycomm._core")
    except ModuleNotFoundError as error:
        raise Unavailable(
            f"{__path__[0]} holds no compiled pycomm._core: it is a source folder, which Python found before the "
            "installed package because it searches the working directory first. Start from another folder, use the "
            "pycomm command, or install in place: pip install -e ."
        ) from error
