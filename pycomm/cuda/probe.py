"""Whether this build and this machine can run anything on a GPU, and if not, why not and what to do."""

import importlib
import importlib.util
from types import ModuleType

REBUILD = "built without CUDA; with nvcc on PATH rebuild with: pip install . -C cmake.define.PYCOMM_CUDA=ON"


def cuda_module() -> ModuleType | None:
    """The compiled CUDA module, or None in a build without it."""
    try:
        return importlib.import_module("pycomm._cuda")
    except ModuleNotFoundError:
        return None


def missing_device() -> str:
    """Why nothing can run on a GPU here; empty if it can."""
    module = cuda_module()
    if module is None:
        return REBUILD
    reason: str = module.missing_device()
    return reason


def missing_for_arrays() -> str:
    """Why GPU arrays cannot be made here; empty if they can. Arrays are CuPy's."""
    reason = missing_device()
    if not reason and importlib.util.find_spec("cupy") is None:
        return "CuPy is not installed: pip install 'pycomm[cuda]'"
    return reason
