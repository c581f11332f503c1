"""Ways to run a collective, compared by one sweep. A backend that cannot run says why."""

from importlib import import_module
from typing import Final

from pycomm.backends.protocol import LIBRARY, Backend, Contender, Prepared, Request, TimeOnStream
from pycomm.errors import UsageError

__all__ = ["LIBRARY", "NAMES", "Backend", "Contender", "Prepared", "Request", "TimeOnStream", "find_backend"]

_HOMES: Final = {
    "native": "pycomm.backends.native",
    "mpi": "pycomm.backends.mpi",
    "gloo": "pycomm.backends.gloo",
    "nccl": "pycomm.backends.nccl",
}
NAMES: Final = tuple(_HOMES)


def find_backend(name: str) -> Backend:
    """The backend of that name. Raises UsageError for another."""
    if name not in _HOMES:
        raise UsageError(f"--backends: {name!r}: not a backend: wanted {', '.join(NAMES)}")
    backend: Backend = import_module(_HOMES[name]).BACKEND
    return backend
